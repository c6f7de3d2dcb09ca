"""Fork servers of sweeps that are killed while workers start, or later, and the sweep again."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import time

from weft.tools.attack.kind import Broken, Trial
from weft.tools.attack.processes import marked
from weft.tools.attack.weft_process import END_S, WeftProcess

SHARE = 0.5
DEADLINE_S = 420.0
NEEDS_ROOT = False

MOST_DELAY_S = 4.0
SWEEP = """collective = "allgather"
algorithm = "ring"
world = "simulated"
topology = "single"
size = "1KiB"
[sweep]
hosts-per-leaf = [2, 3, 4, 5]
"""


def attack(trial: Trial) -> str:
    """Kill the server, and then run what is missing."""
    engines = ["local", "dask:local"] if importlib.util.find_spec("distributed") else ["local"]
    on = f"{trial.random.choice(engines)}:2"
    delay_s = trial.random.uniform(0.0, MOST_DELAY_S)
    trial.note(f"the server is killed after {delay_s:.2f} s")
    (trial.folder / "sweep.toml").write_text(SWEEP)
    run = ("run", "sweep.toml", "--on", on)
    weft = WeftProcess(trial, *run, "--out", "out")
    try:
        _kill_server(trial, weft, delay_s)
        status = weft.wait("its server was killed")
        weft.check_speech()
        last = (weft.errors.strip().splitlines() or [""])[-1]
        if status not in (0, 1) or (status == 1 and not last.startswith("weft: ")):
            raise Broken(f"status {status}{weft.said()}")
        weft.check_nothing_left()
    finally:
        weft.kill()
    begun = (trial.folder / "out/points/sweep.json").exists()
    again = WeftProcess(trial, *run, *(("--resume", "out") if begun else ("--out", "out")))
    try:
        if again.wait("its start") != 0:
            raise Broken(f"the sweep does not come to its end afterwards{again.said()}")
        again.check_nothing_left()
    finally:
        again.kill()
    return f"{on}, status {status}"


def _kill_server(trial: Trial, weft: WeftProcess, delay_s: float) -> None:
    end = time.monotonic() + END_S
    while weft.runs() and time.monotonic() < end:
        for process in marked(trial.mark):
            with contextlib.suppress(OSError):
                with open(f"/proc/{process.pid}/cmdline", "rb") as file:
                    if b"multiprocessing.forkserver" not in file.read():
                        continue
                time.sleep(delay_s)
                os.kill(process.pid, signal.SIGKILL)
                return
        time.sleep(0.01)
