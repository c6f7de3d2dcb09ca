"""Switches, ranks or all of a run stand still for a while: no run that took longer is ok."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time

from weft.tools.attack.kind import Broken, Trial
from weft.tools.attack.processes import command_line, network_namespace, wait_until
from weft.tools.attack.weft_process import WeftProcess

SHARE = 2.0
DEADLINE_S = 600.0
NEEDS_ROOT = True

BEGINS_S = 300.0
"""It may have to compile first."""
WHO = ("the switch process", "the switch process", "a rank", "a rank", "all", "the runner")
TOLD = ("stood still", "late", "ahead", "busy")
LONGER = 0.5
"""The part of the stall by which a run may be longer than without one, and still be ok."""


def attack(trial: Trial) -> str:
    """Stop processes of a run, and look at the verdict on it."""
    random = trial.random
    who = random.choice(WHO)
    algorithm = random.choice(["ring", "multicast"])
    stall_s = random.choice([0.4, 0.8, 1.2])
    delay_s = random.uniform(0.1, 0.7)
    how = random.choice([("--no-predict",), ("--loss", "0.01%"), ()])
    trial.note(f"{who} for {stall_s} s, {delay_s:.2f} s after the operation has begun")
    weft = WeftProcess(
        trial, "run", "allgather", "--leaves", "2", "--spines", "2", "--hosts-per-leaf", "1",
        "--size", "6MiB", "--rate", "30Mbit", "--algorithm", algorithm, *how,
        "--events", "events", "--out", "out",
    )  # fmt: skip
    try:
        wait_until(
            lambda: _has_begun(trial, algorithm) or not weft.runs(), "the operation", BEGINS_S
        )
        time.sleep(delay_s)
        stopped = _chosen(weft, who)
        if not stopped:
            raise Broken(f"{who} is not there{weft.said()}")
        _send(stopped, signal.SIGSTOP)
        time.sleep(stall_s)
        _send(stopped, signal.SIGCONT)
        status = weft.wait("it could go on")
        weft.check_speech()
        if status not in (0, 1):
            raise Broken(f"status {status}{weft.said()}")
        weft.check_nothing_left()
        return _judge(trial, stall_s, weft)
    finally:
        _send([process.pid for process in weft.look()], signal.SIGCONT)
        weft.kill()


def _has_begun(trial: Trial, algorithm: str) -> bool:
    with contextlib.suppress(OSError):
        return f'"stage":"{algorithm}_0"' in (trial.folder / "events").read_text()
    return False


def _chosen(weft: WeftProcess, who: str) -> list[int]:
    """The ids of the processes to be stopped."""
    found = weft.look()
    own = network_namespace(weft.popen.pid)
    ranks = [
        each.pid for each in found
        if "launcher" in command_line(each.pid) and network_namespace(each.pid) not in (own, None)
    ]  # fmt: skip
    switches = [each.pid for each in found if weft.what(each) == "the switch process"]
    match who:
        case "the runner":
            return [weft.popen.pid]
        case "a rank":
            return ranks and [weft.trial.random.choice(sorted(ranks))]
        case "all":
            return [*ranks, *switches] if ranks and switches else []
        case _:
            return switches


def _send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _judge(trial: Trial, stall_s: float, weft: WeftProcess) -> str:
    (run,) = json.loads((trial.folder / "out" / "results.json").read_text())["runs"]
    if not run["verified"]:
        return "failed"
    fidelity = run["fidelity"]
    longer_s = (run["completion_ns"] - 1.1 * run["bound_ns"]) / 1e9
    if longer_s < LONGER * stall_s:
        return f"not longer, {fidelity['verdict']}"
    if fidelity["verdict"] == "ok" or not any(
        word in reason for reason in fidelity["reasons"] for word in TOLD
    ):
        raise Broken(
            f"it took {longer_s:.2f} s more than it needs, and its verdict is "
            f"{fidelity['verdict']} {fidelity['reasons']}, of {fidelity['lateness_ns']}"
            f"{weft.said()}"
        )
    return str(fidelity["verdict"])
