"""A program runs in the plain form until it has been compiled, and then goes on as machine code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from tests.support.bmv2_support import loaded
from tests.support.emulated_support import wait_until
from tests.support.engine_programs import router
from tests.support.random_programs import difference, run, run_on
from tests.support.random_source import PORTS, Generator
from tests.support.realtime_support import ROOT, needs_namespaces

from weft.switch.compiler import compile_program
from weft.switch.engine import build
from weft.switch.engine.codegen.loading import Pipeline, compile_source, load, write_source
from weft.switch.realtime import compiling
from weft.switch.realtime.compiling import Compiling

DEADLINE_S = 60.0


@pytest.fixture
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no machine code were in the cache."""
    monkeypatch.setattr(build, "load_at_once", lambda *both: load(*both, plain=True))


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_is_kept")
def test_a_random_program_does_the_same_if_it_changes_over_in_the_middle(tmp_path: Path) -> None:
    wanted = Generator(2026, 16).program()
    source = tmp_path / "random.p4"
    source.write_text(wanted.source)
    text = compile_program(source).bmv2_json
    uncompiled: list[Pipeline] = []
    dataplane, control = loaded(text, PORTS, plain=False, compiling=uncompiled.append)
    (pipeline,) = uncompiled
    assert dataplane.form(0) == {"form": "plain", "plain_packets": 0}
    middle = len(wanted.frames) // 2

    def change_over(number: int) -> None:
        if number == middle:
            dataplane.run_machine_code(pipeline, compile_source(pipeline.source_path))

    changed = run_on(dataplane, control, wanted, change_over)
    assert difference(run(text, wanted, plain=True), changed) == ""
    form = dataplane.form(0)
    assert form["form"] == "compiled"
    assert form["plain_packets"] > 0


@pytest.mark.usefixtures("nothing_is_kept")
def test_what_is_set_after_the_change_meets_the_machine_code() -> None:
    uncompiled: list[Pipeline] = []
    dataplane, control = loaded(router(), 4, plain=False, compiling=uncompiled.append)
    (pipeline,) = uncompiled
    control.load_program(router(), load="save")
    assert uncompiled == [pipeline], "a program is compiled once"
    dataplane.run_machine_code(pipeline, compile_source(pipeline.source_path))
    compiled = dataplane.switches[0].pipeline
    control.set_port_up(2, up=False)
    control.publish()
    control.commit_program()
    assert dataplane.switches[0].pipeline == compiled == pipeline.address


class Heard:
    """What is told of programs that were to be compiled."""

    def __init__(self) -> None:
        self.told: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        self.compiling = Compiling(
            lambda pipeline, address: self.told.put(("made", address)),
            lambda pipeline, why: self.told.put(("failed", why)),
        )
        self.compiling.start()

    def want(self, source: Path) -> None:
        pipeline: Any = Pipeline(None, source, 0, False, None)  # type: ignore[arg-type]
        self.compiling.want(pipeline)


@pytest.fixture
def heard() -> Iterator[Heard]:
    made = Heard()
    yield made
    made.compiling.stop()


def test_a_program_that_cannot_be_compiled_is_told_and_the_next_one_goes_on(
    heard: Heard, tmp_path: Path
) -> None:
    source = tmp_path / "program_wrong.py"
    source.write_text("def pipeline(a: int, b: int): return nothing_of_that_name")
    heard.want(source)
    heard.want(write_source(router())[1])
    heard.compiling.wait()
    kind, why = heard.told.get(timeout=DEADLINE_S)
    assert kind == "failed" and str(source) in why and "nothing_of_that_name" in why
    kind, address = heard.told.get(timeout=DEADLINE_S)
    assert kind == "made" and address > 0


def sleeping(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Let compiling take for ever; returns the file that the process writes its id to."""
    file = folder / "pid"
    command = ["sh", "-c", f"echo $$ > {file}.new; mv {file}.new {file}; exec sleep 100000"]
    monkeypatch.setattr(compiling, "_command", lambda source: command)
    return file


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


def test_who_stops_waits_for_nothing_and_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = sleeping(monkeypatch, tmp_path)
    heard = Heard()
    heard.want(tmp_path / "program.py")
    wait_until(file.exists, "it is being compiled")
    waiting = threading.Thread(target=heard.compiling.wait)
    waiting.start()
    heard.compiling.stop()
    waiting.join(DEADLINE_S)
    assert not waiting.is_alive() and heard.told.empty()
    assert is_gone(int(file.read_text()))


KILLED = """
import pytest, sys, threading
from pathlib import Path
from tests.switch.realtime.test_changing_over import Heard, sleeping
folder = Path(sys.argv[1])
sleeping(pytest.MonkeyPatch(), folder)
heard = Heard()
heard.want(folder / "program.py")
threading.Event().wait()
"""


def test_the_process_that_compiles_dies_with_the_one_that_is_killed(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT)
    try:
        file = tmp_path / "pid"
        wait_until(file.exists, "it is being compiled")
        pid = int(file.read_text())
        assert not is_gone(pid)
        os.kill(process.pid, signal.SIGKILL)
        wait_until(lambda: is_gone(pid), "the kernel kills it")
    finally:
        process.kill()
        process.wait()


@needs_namespaces
def test_a_stream_through_the_change_over_is_whole_and_in_order() -> None:
    answer = subprocess.run(
        ["unshare", "-n", sys.executable, "-m", "tests.support.changing_over_namespace"],
        cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    seen = json.loads(answer.stdout.splitlines()[-1])
    assert seen["forms"] == ["plain", "compiled", "plain"]
    sent = seen["sent"]
    assert seen["came"] == list(range(sent))
    assert seen["rest"] == 0
    assert seen["counted"] == [sent, 100 * sent]
    told = seen["statistics"]
    assert [port["rx_packets"] for port in told["ports"]] == [sent, 0]
    assert [port["tx_packets"] for port in told["ports"]] == [0, sent]
    assert 160 <= told["plain_packets"] <= sent - 160
    assert seen["notes"][0].startswith("programs run in the plain form")
    assert seen["notes"][1] == "all programs run as machine code from here on"
    (said,) = seen["said"]
    assert said.startswith("leaf0: the program runs in the plain form") and "no room" in said
    assert "could not be compiled" in seen["refused"]
    assert seen["after"]
