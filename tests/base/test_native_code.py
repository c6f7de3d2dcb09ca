"""Native code is made in the background where a wheel brought code for a level of processors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from weft.base import machine_code, native_code
from weft.base.cache import CHECKOUT
from weft.base.machine_code import file_of
from weft.base.processors import levels_met

LEVEL = next((level.name for level in levels_met()), "")
pytestmark = pytest.mark.skipif(not LEVEL, reason="wheels have no code for this processor")

MAKER = """
import os, sys, time
from pathlib import Path
from weft.base import machine_code, native_code
machine_code.SHIPPED = Path(sys.argv[1])
def compile_all():
    print(os.nice(0), machine_code.SHIPPED.is_dir(), flush=True)
    {then}
native_code.make(compile_all)
"""


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of what came with Weft, which is used, and an empty cache."""
    folder, cache = tmp_path / "kernels", tmp_path / "cache"
    cache.mkdir(mode=0o700)
    library = folder / file_of("agents/0123/kernels-4567", LEVEL)
    library.parent.mkdir(parents=True)
    library.write_bytes(b"")
    monkeypatch.setattr(machine_code, "SHIPPED", folder)
    monkeypatch.setenv("WEFT_CACHE", str(cache))
    monkeypatch.delenv("WEFT_NATIVE", raising=False)
    return folder


def maker(shipped: Path, then: str = "pass") -> subprocess.Popen[str]:
    """The process that makes native code, which does something else here."""
    script = MAKER.format(then=then)
    command = [sys.executable, "-c", script, str(shipped)]
    return subprocess.Popen(
        command, cwd=CHECKOUT / "src", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What `begin` starts from here on; nothing is started in truth."""
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: commands.append(command))
    return commands


def test_nothing_is_begun_in_tests_or_in_ci_unless_asked(
    shipped: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = started(monkeypatch)
    native_code.begin()
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    monkeypatch.setenv("CI", "1")
    native_code.begin()
    assert commands == [] and capsys.readouterr().err == ""
    assert native_code.state() == (
        f"what came with Weft, for {LEVEL}; native code is not made here (WEFT_NATIVE=1 has it "
        "made)"
    )
    monkeypatch.setenv("WEFT_NATIVE", "1")
    native_code.begin()
    assert [command[-2:] for command in commands] == [[*native_code.COMPILER]]
    assert "in the background" in capsys.readouterr().err
    monkeypatch.delenv("CI")
    monkeypatch.setenv("WEFT_NATIVE", "0")
    native_code.begin()
    assert len(commands) == 1


def test_where_nothing_came_with_weft_there_is_nothing_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_code, "SHIPPED", tmp_path / "none")
    monkeypatch.setenv("WEFT_NATIVE", "1")
    commands = started(monkeypatch)
    native_code.begin()
    native_code.give_way()
    assert commands == [] and native_code.state() == ""


def test_it_is_made_once_by_a_process_that_gives_way_and_ignores_what_came(
    shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_NATIVE", "1")
    assert native_code.state().endswith("native code is made in the background after a run")
    said, errors = maker(shipped).communicate(timeout=60)
    assert (said, errors) == ("19 False\n", "")
    assert native_code.state() == "native"
    commands = started(monkeypatch)
    native_code.begin()
    assert commands == []


def test_what_cannot_be_made_is_said_and_not_tried_again(
    shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_NATIVE", "1")
    maker(shipped, "raise RuntimeError('no room')").communicate(timeout=60)
    assert native_code.state() == (
        f"what came with Weft, for {LEVEL}: native code could not be made: RuntimeError: no room"
    )
    commands = started(monkeypatch)
    native_code.begin()
    assert commands == []


def test_one_process_makes_it_and_is_ended_by_what_wants_the_processors(
    shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = maker(shipped, "time.sleep(100000)")
    try:
        assert process.stdout is not None and process.stdout.readline() == "19 False\n"
        said, _ = maker(shipped).communicate(timeout=60)
        assert said == ""
        native_code.give_way()
        assert process.wait(60) == -signal.SIGTERM
        monkeypatch.setenv("WEFT_NATIVE", "1")
        assert native_code.state().endswith("in the background after a run")
        native_code.give_way()  # there is nobody
        assert os.listdir(os.environ["WEFT_CACHE"]) == ["native.lock"]
    finally:
        process.kill()
        process.communicate()
