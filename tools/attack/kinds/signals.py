"""SIGINT, SIGTERM and SIGHUP, once or several times, for any command at any moment."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from weft.base.cache import CHECKOUT
from weft.tools.attack.kind import Broken, Trial
from weft.tools.attack.processes import wait_until
from weft.tools.attack.weft_process import WeftProcess

SHARE = 4.0
DEADLINE_S = 420.0
NEEDS_ROOT = False

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
HEEDS_S = 120.0


@dataclass(frozen=True)
class Command:
    """A command to be interrupted."""

    arguments: tuple[str, ...]
    longest_s: float
    """The moment is in so many seconds from when it heeds signals."""
    ends: bool = False
    """Whether it might be done by then: then status 0 is right, with all that it makes."""
    root: bool = False


SWEEP = """collective = "broadcast"
world = "simulated"
repeat = 50
[sweep]
leaves = [2, 3, 4]
seed = [1, 2, 3, 4, 5, 6, 7]
[[plot]]
y = "completion"
x = "leaves"
"""
COMMANDS = (
    Command(
        ("run", "allgather", "--leaves", "2", "--size", "16MiB", "--rate", "20Mbit",
         "--out", "out"), 6.0, root=True,
    ),
    Command(
        ("run", "allreduce", "--leaves", "2", "--size", "256KiB", "--rate", "20Mbit", "--repeat",
         "100", "--no-predict", "--pcap", "--links", "patch", "--out", "out"), 6.0, root=True,
    ),
    Command(
        ("run", "allreduce", "--leaves", "2", "--algorithm", "optcast", "--size", "64KiB",
         "--rate", "20Mbit", "--repeat", "200", "--no-predict", "--out", "out"), 6.0, root=True,
    ),
    Command(("up", "--leaves", "2", "--hosts-per-leaf", "2"), 4.0, root=True),
    Command(
        ("run", "allgather", "--world", "simulated", "--repeat", "1000", "--out", "out"), 5.0
    ),
    Command(("run", "sweep.toml", "--out", "out"), 5.0),
    Command(
        ("run", "allgather", "--world", "simulated", "--leaves", "2", "--size", "64KiB", "--out",
         "out"), 3.0, ends=True,
    ),
    Command(("p4c", str(CHECKOUT / "p4" / "fabric.p4"), "-o", "out"), 4.0, ends=True),
    Command(("bench", "compiler", "--out", "out"), 4.0, ends=True),
    Command(("bench", "transport", "--out", "out"), 4.0, ends=True),
    Command(
        ("stf", str(CHECKOUT / "tests/stf/language.p4"), str(CHECKOUT / "tests/stf/language.stf")),
        2.0, ends=True,
    ),
    Command(("paths", "alltoall", "--leaves", "16", "--hosts-per-leaf", "16"), 2.0, ends=True),
    Command(("doctor",), 1.0, ends=True),
)  # fmt: skip


def attack(trial: Trial) -> str:
    """Interrupt a command, and look how it ends."""
    random = trial.random
    root = os.geteuid() == 0
    command = random.choice([each for each in COMMANDS if root or not each.root])
    numbers = random.choices(SIGNALS, k=random.choice([1, 1, 2, 3]))
    gaps_s = [random.choice([0.0, 0.001, 0.02, 0.3]) for _ in numbers]
    moment_s = random.uniform(0.0, command.longest_s)
    early, group = trial.chance(0.1), trial.chance(0.4)
    is_up = command.arguments[0] == "up"
    (trial.folder / "sweep.toml").write_text(SWEEP)
    weft = WeftProcess(trial, *command.arguments, speaks=is_up)
    try:
        if not early:
            wait_until(lambda: _heeds(weft) or not weft.runs(), "signals to be heeded", HEEDS_S)
        end = time.monotonic() + (min(moment_s, 0.5) if early else moment_s)
        while weft.runs() and time.monotonic() < end:
            weft.look()
            time.sleep(0.05)
        heeded = _heeds(weft)
        for number, gap_s in zip(numbers, gaps_s, strict=True):
            time.sleep(gap_s)
            if weft.runs():
                weft.look()
                _send(weft, number, group)
        whom = "its process group" if group else "it"
        trial.note(f"{', '.join(each.name for each in numbers)} to {whom}, gaps {gaps_s} s")
        interrupted_only = set(numbers) == {signal.SIGINT}
        if is_up and (interrupted_only or not heeded):
            time.sleep(0.2)
            weft.stdin.close()  # at its prompt, Ctrl-C ends no testbed
        status = weft.wait(f"{', '.join(each.name for each in numbers)}")
        if heeded:
            weft.check_speech()
        weft.check_nothing_left()
        return _judge(weft, command, numbers, status, is_up and interrupted_only, heeded)
    finally:
        weft.kill()


def _heeds(weft: WeftProcess) -> bool:
    """Whether the command has handlers for signals."""
    try:
        lines = Path(f"/proc/{weft.popen.pid}/status").read_text().splitlines()
    except OSError:
        return False
    caught = next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt")), 0)
    return bool(caught & 1 << signal.SIGTERM - 1)


def _send(weft: WeftProcess, number: signal.Signals, group: bool) -> None:
    send: Callable[[int, int], None] = os.killpg if group else os.kill
    try:
        send(weft.popen.pid, number)
    except ProcessLookupError:
        return


def _judge(
    weft: WeftProcess,
    command: Command,
    numbers: list[signal.Signals],
    status: int,
    may_end: bool,
    heeded: bool,
) -> str:
    _check_files(weft)
    if status in [128 + number for number in numbers]:
        return "interrupted"
    if not heeded and status in [-number for number in numbers]:
        return "ended by the signal itself"
    if command.ends and status in [-number for number in numbers]:
        # Python's own end takes handlers away: all that was to be done has been by then.
        _check_complete(weft, command)
        return "done before"
    if status == 0 and may_end:
        return "testbed ended"
    if status == 0 and command.ends:
        _check_complete(weft, command)
        return "done before"
    names = ", ".join(number.name for number in numbers)
    raise Broken(f"status {status} after {names}{weft.said()}")


def _check_files(weft: WeftProcess) -> None:
    """What has been written is whole, and no draft is left."""
    out = weft.trial.folder / "out"
    for file in out.rglob("*") if out.is_dir() else ():
        if file.is_dir():
            continue
        if file.name.startswith(".") or file.name.endswith((".tmp", ".part")):
            raise Broken(f"a draft is left: {file}{weft.said()}")
        if file.suffix == ".json":
            try:
                json.loads(file.read_text())
            except ValueError as error:
                raise Broken(f"{file.name} is cut short: {error}{weft.said()}") from None


def _check_complete(weft: WeftProcess, command: Command) -> None:
    out = weft.trial.folder / "out"
    wanted = {
        "run": ("results.json", "report.html"), "p4c": ("fabric.json", "fabric.p4info.txtpb"),
    }  # fmt: skip
    for name in wanted.get(command.arguments[0], ()):
        if not (out / name).is_file():
            raise Broken(f"it is done, without {name}{weft.said()}")
