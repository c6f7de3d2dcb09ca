"""SIGKILL for any process of a run, or of a testbed that is up, at any moment."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable

from weft.tools.attack.kind import Broken, Trial
from weft.tools.attack.processes import clean_up, wait_until, with_argument
from weft.tools.attack.weft_process import WeftProcess
from weft.topo.worlds.emulated.cleanup import kill_all
from weft.topo.worlds.emulated.runs import Process

SHARE = 4.0
DEADLINE_S = 420.0
NEEDS_ROOT = True

SMALL = ("--leaves", "2", "--hosts-per-leaf", "2", "--rate", "20Mbit")
COLLECTIVES = (
    ("allgather", "ring"), ("allgather", "multicast"), ("allreduce", "ring"),
    ("allreduce", "switch"), ("allreduce", "optcast"), ("alltoall", "direct"),
)  # fmt: skip
MOMENT_S = 4.0
"""From the beginning of the run: it has ended by then where nobody else is busy."""
RUNNERS = 0.15
"""How often it is the runner; otherwise any of its processes, where there are some."""
UP_S = 180.0
LINES = (
    "h0 ping -c 1 -W 1 h1", "pingall", "links", "nodes", "counters leaf0",
    "tables leaf0 ipv4_route", "link leaf0 spine1 down", "link leaf0 spine1 up",
    "h1 ls", "h2 sleep 0.2", "py 1 + 1",
)  # fmt: skip


def attack(trial: Trial) -> str:
    """Kill a process of a run or of a testbed, and look what comes of it."""
    return _testbed(trial) if trial.chance(0.4) else _run(trial)


def _run(trial: Trial) -> str:
    random = trial.random
    collective, algorithm = random.choice(COLLECTIVES)
    options = ["--size", random.choice(["64KiB", "256KiB"]), "--algorithm", algorithm]
    options += ["--pcap"] if trial.chance(0.3) else []
    options += ["--links", "patch"] if trial.chance(0.3) else []
    options += ["--no-predict"] if trial.chance(0.7) else []
    moment_s, which, early = random.uniform(0.0, MOMENT_S), random.random(), trial.chance(0.1)
    weft = WeftProcess(trial, "run", collective, *SMALL, *options, "--json", "--out", "out")
    try:
        if not early:
            wait_until(
                lambda: bool(weft.folders()) or not weft.runs(), "the run to be on record", UP_S
            )
        victim = _kill(trial, weft, lambda: _pass(weft, moment_s), which)
        if victim is None:
            return "done before"
        if victim.pid == weft.popen.pid:
            return _without_runner(weft)
        status = weft.wait(f"the kill of {weft.what(victim)}")
        weft.check_speech()
        weft.check_nothing_left()
        return _judge_run(weft, victim, status)
    finally:
        weft.kill()


def _pass(weft: WeftProcess, seconds: float) -> None:
    """Let time pass, and look at what processes there are; less if the command ends."""
    end = time.monotonic() + seconds
    while weft.runs() and time.monotonic() < end:
        weft.look()
        time.sleep(0.05)


def _kill(
    trial: Trial, weft: WeftProcess, passes: Callable[[], None], which: float
) -> Process | None:
    """Kill a process of the command; None if all have ended before."""
    passes()
    found = weft.look()
    if not weft.runs() or not found:
        return None
    others = [process for process in found if process.pid != weft.popen.pid]
    if which >= RUNNERS and others:
        victim = others[int((which - RUNNERS) / (1 - RUNNERS) * len(others))]
    else:
        victim = next((each for each in found if each.pid == weft.popen.pid), found[0])
    trial.note(f"killed {weft.what(victim)} (pid {victim.pid}): {victim.what[:200]}")
    try:
        descriptor = os.pidfd_open(victim.pid)
    except OSError:
        return None
    try:
        if not victim.is_alive():
            return None
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except ProcessLookupError:
        return None
    finally:
        os.close(descriptor)
    return victim


def _without_runner(weft: WeftProcess) -> str:
    """After the runner was killed, ``weft clean`` leaves nothing."""
    weft.popen.wait()
    left: list[str] = []

    def cleaned() -> bool:
        clean_up()
        # What it had in TMPDIR is nothing that clean knows of.
        left[:] = [one for one in weft.left() if one.startswith(("process", "the "))]
        return not left

    try:
        wait_until(cleaned, "weft clean to leave nothing")
    except Broken:
        raise Broken(f"its runner was killed, and weft clean leaves {', '.join(left)}") from None
    return "runner killed, cleaned"


def _judge_run(weft: WeftProcess, victim: Process, status: int) -> str:
    who = weft.what(victim)
    if status == 0:
        document = json.loads(weft.output)
        runs = document["runs"]
        if not (runs and document["verified"] and all(run["verified"] for run in runs)):
            raise Broken(f"status 0 after the kill of {who}, without verified data{weft.said()}")
        return "verified all the same"
    if status != 1:
        raise Broken(f"status {status}, not 1, after the kill of {who}{weft.said()}")
    _check_named(weft, victim)
    return "named"


def _check_named(weft: WeftProcess, victim: Process) -> None:
    said = weft.output + weft.errors
    if not (str(victim.pid) in said or "SIGKILL" in said or "killed" in said):
        raise Broken(f"nothing says that {weft.what(victim)} was killed{weft.said()}")


def _testbed(trial: Trial) -> str:
    random = trial.random
    options = ["--links", "patch"] if trial.chance(0.3) else []
    lines = random.choices(LINES, k=random.randint(1, 5))
    more = random.choices(LINES, k=random.randint(0, 2))
    escape, kills, which = trial.chance(0.4), trial.chance(0.85), random.random()
    early, moment_s = trial.chance(0.2), random.uniform(0.0, 2.0)
    asleep = f"301.{random.randrange(1 << 40)}"
    weft = WeftProcess(trial, "up", *SMALL, *options, speaks=True)
    try:
        if not early:
            wait_until(lambda: _is_up(weft) or not weft.runs(), "the testbed to be up", UP_S)
        if escape:
            lines = [f"h0 env -i setsid -f sleep {asleep}", *lines]
        trial.note(f"at the prompt: {lines}, then {more}")
        _say(weft, lines)
        if escape and not early:
            wait_until(lambda: bool(with_argument(asleep)), "h0 to start a process", UP_S)
        victim = None
        if kills:
            victim = _kill(trial, weft, lambda: _pass(weft, moment_s), which)
        _say(weft, more)
        _pass(weft, moment_s if victim else 0)
        with contextlib.suppress(OSError):  # it has ended, with lines that it did not read
            weft.stdin.close()
        if victim is not None and victim.pid == weft.popen.pid:
            outcome = _without_runner(weft)
        else:
            status = weft.wait("the end of its input")
            weft.check_speech()
            weft.check_nothing_left()
            outcome = _judge_testbed(weft, victim, status)
        wait_until(lambda: not with_argument(asleep), "what h0 started to be gone with the testbed")
        return outcome
    finally:
        weft.kill()
        kill_all(with_argument(asleep))


def _is_up(weft: WeftProcess) -> bool:
    weft.look()
    return any((folder / "testbed.json").exists() for folder in weft.folders())


def _say(weft: WeftProcess, lines: list[str]) -> None:
    try:
        weft.stdin.write("".join(f"{line}\n" for line in lines).encode())
        weft.stdin.flush()
    except OSError:  # it has ended
        return


def _judge_testbed(weft: WeftProcess, victim: Process | None, status: int) -> str:
    if victim is None:
        if status != 0:
            raise Broken(f"status {status} of a testbed that nobody disturbed{weft.said()}")
        return "testbed ended"
    who = weft.what(victim)
    if status not in (0, 1):
        raise Broken(f"status {status}, not 0 or 1, after the kill of {who}{weft.said()}")
    if "switch process" in who:
        if status != 1:
            raise Broken(f"status 0 after the kill of {who}{weft.said()}")
        _check_named(weft, victim)
    return f"testbed, status {status}"
