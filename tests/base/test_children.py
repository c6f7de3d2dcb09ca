"""A helper that is killed is named, with the signal, and ends a command with status 1."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.emulated_support import needs_machine

from weft.base import children
from weft.base.children import how_it_ended, last_words, run_tool
from weft.base.errors import InputError, MachineError, RunError
from weft.tools.bench import compiler as bench_compiler
from weft.tools.bench import progress_engine as bench_progress_engine
from weft.topo.worlds.emulated.machine import TOOLS, check_machine, machine_facts
from weft.topo.worlds.emulated.mininet_prompt import check_command
from weft.topo.worlds.emulated.namespaces import run_batch
from weft.topo.worlds.emulated.switch_processes import options_of_its_build

StandIn = Callable[[str, str], None]


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Puts a command of that name, and what it does, first on the PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def put(name: str, does: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)

    return put


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "ended with status 0"),
        (3, "ended with status 3"),
        (-9, "was killed by signal 9 (SIGKILL)"),
        (-11, "was killed by signal 11 (SIGSEGV)"),
        (-40, "was killed by signal 40"),
    ],
)
def test_how_a_process_ended_is_told_in_words(status: int, words: str) -> None:
    assert how_it_ended(status) == words


def _tc_batch() -> None:
    run_batch("tc", ["qdisc add dev a root pfifo", "qdisc add dev b root pfifo"])


TOOLS_AT_WORK: list[tuple[str, Callable[[], object]]] = [
    ("ip", lambda: run_batch("ip", ["link set dev lo up"])),
    ("tc", _tc_batch),
    ("bash", lambda: check_command("h0", "ls")),
    ("simple_switch_grpc", lambda: options_of_its_build("simple_switch_grpc")),
    ("p4c", lambda: bench_compiler._run("p4c")),
]


@pytest.mark.parametrize(("name", "work"), TOOLS_AT_WORK)
def test_a_helper_that_is_killed_is_named_with_its_process_id_and_the_signal(
    name: str, work: Callable[[], None], stand_in: StandIn
) -> None:
    stand_in(name, "kill -KILL $$")
    words = rf"^{name} \(pid \d+\) was killed by signal 9 \(SIGKILL\)"
    with pytest.raises(RunError, match=words) as told:
        work()
    assert told.value.exit_status == 1


@pytest.mark.parametrize(("name", "work"), TOOLS_AT_WORK)
def test_a_helper_that_stands_still_is_killed_and_named(
    name: str, work: Callable[[], None], stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    options_of_its_build.cache_clear()
    stand_in(name, "kill -STOP $$")
    monkeypatch.setattr(children, "TOOL_LIMIT_S", 0.5)
    with pytest.raises(RunError, match=rf"^{name} \(pid \d+\) took longer than .* and was killed"):
        work()


@needs_machine
def test_a_machine_whose_mnexec_is_killed_lacks_no_network_namespaces(stand_in: StandIn) -> None:
    stand_in("mnexec", "kill -TERM $$")
    with pytest.raises(RunError, match=r"mnexec \(pid \d+\) was killed by signal 15 \(SIGTERM\)"):
        check_machine()


@needs_machine
def test_a_benchmark_whose_process_is_killed_says_so(stand_in: StandIn) -> None:
    stand_in("setpriv", "kill -KILL $$")
    with pytest.raises(RunError, match=r"the benchmark over sockets \(pid \d+\) was killed by"):
        bench_progress_engine._in_namespace([4096], [1])


def test_the_facts_tell_of_a_tool_that_is_killed(stand_in: StandIn) -> None:
    stand_in("tcpdump", "kill -SEGV $$")
    versions = {fact.tool.name: fact.version for fact in machine_facts().tools}
    assert set(versions) == {tool.name for tool in TOOLS}
    assert "was killed by signal 11 (SIGSEGV)" in str(versions["tcpdump"])


def test_a_helper_that_fails_without_a_word_is_told_by_its_status(stand_in: StandIn) -> None:
    stand_in("tc", "exit 7")
    with pytest.raises(MachineError, match="`tc -batch` failed: it ended with status 7 and said"):
        _tc_batch()
    stand_in("bash", "exit 7")
    with pytest.raises(InputError, match="h0 ls: it ended with status 7 and said nothing"):
        check_command("h0", "ls")


def test_the_line_that_a_batch_failed_at_is_shown(stand_in: StandIn) -> None:
    stand_in("tc", "echo Error: no such device >&2; echo Command failed -:2 >&2; exit 1")
    with pytest.raises(MachineError, match="`tc qdisc add dev b root pfifo` failed: Error: no"):
        _tc_batch()


def test_a_command_that_takes_too_long_is_killed(stand_in: StandIn, tmp_path: Path) -> None:
    stand_in("slow", f"echo $$ > {tmp_path}/pid; mkfifo {tmp_path}/x; read x < {tmp_path}/x")
    with pytest.raises(RunError, match=r"slow \(pid \d+\) took longer than 5 s, and was killed"):
        run_tool(["slow"], timeout_s=5.0)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_tool_reads_its_input_and_gives_its_status_and_words() -> None:
    code = "import sys; sys.stderr.write('one\\ntwo\\n' + input()); sys.exit(4)"
    done = run_tool([sys.executable, "-c", code], input="three\n")
    assert (done.returncode, done.stderr, last_words(done)) == (4, "one\ntwo\nthree", "three")
