"""Poor environments: limits of memory and files, closed descriptors, deleted folders."""

from __future__ import annotations

import os
import signal

from weft.tools.attack.kind import Broken, Trial
from weft.tools.attack.weft_process import WeftProcess

SHARE = 1.0
DEADLINE_S = 300.0
NEEDS_ROOT = False

SMALL = ("run", "allgather", "--topology", "single", "--hosts-per-leaf", "2", "--size", "4KiB",
         "--algorithm", "ring")  # fmt: skip
LEAST_KIB, MOST_KIB = 300_000, 3_000_000
"""Of address space: Python itself takes a part of the least."""


def attack(trial: Trial) -> str:
    """Run a small network where something is lacking."""
    random = trial.random
    done = [
        random.choice([
            f"ulimit -v {random.randint(LEAST_KIB, MOST_KIB)}",
            f"ulimit -n {random.randint(8, 300)}",
            f"ulimit -Sn {random.randint(8, 300)}",
            "exec " + " ".join(one for one in ("0<&-", "1>&-", "2>&-") if trial.chance(0.6)),
            "mkdir gone; cd gone; rmdir ../gone",
        ])
        for _ in range(random.randint(1, 2))
    ]  # fmt: skip
    world = "emulated" if os.geteuid() == 0 and trial.chance(0.5) else "simulated"
    out = str(trial.folder / "out") if trial.chance(0.8) else "out"
    before = ["bash", "-c", f'{"; ".join(done)}; exec "$@"', "bash"]
    weft = WeftProcess(trial, *SMALL, "--world", world, "--out", out, before=before)
    try:
        status = weft.wait("its start")
        weft.check_speech()
        # LLVM ends the process by itself where it gets no memory, and says so.
        aborted = status == -signal.SIGABRT and "LLVM ERROR" in weft.errors
        if status not in (0, 1, 2) and not aborted:
            raise Broken(f"status {status}{weft.said()}")
        said = weft.errors.strip().splitlines()
        if status in (1, 2) and "2>&-" not in before[2] and "weft: " not in said[-1]:
            raise Broken(f"status {status}, and its last line says nothing of it{weft.said()}")
        weft.check_nothing_left()
        return f"{world}, status {status}"
    finally:
        weft.kill()
