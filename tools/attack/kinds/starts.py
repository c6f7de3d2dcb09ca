"""Many starts of ./weft at once, some of them while somebody sets up."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import time

from weft.base.cache import CHECKOUT
from weft.tools.attack.kind import Broken, Trial

SHARE = 0.3
DEADLINE_S = 240.0
NEEDS_ROOT = False

MOST_HELD_S = 2.0
END_S = 120.0


def attack(trial: Trial) -> str:
    """Start some, and hold the lock of the set-up for a while."""
    number = trial.random.randint(2, 12)
    held_s = trial.random.uniform(0.0, MOST_HELD_S)
    moments_s = sorted(trial.random.uniform(0.0, held_s) for _ in range(number))
    is_held = trial.chance(0.7)
    trial.note(f"{number} starts; the lock is held for {held_s:.2f} s: {is_held}")
    started: list[subprocess.Popen[str]] = []
    with contextlib.ExitStack() as stack:
        stack.callback(_kill, started)
        with contextlib.ExitStack() as lock:
            if is_held:
                with contextlib.suppress(OSError):  # of another user's checkout
                    file = lock.enter_context(open(CHECKOUT / ".cache/setup.lock", "r+"))
                    fcntl.flock(file, fcntl.LOCK_EX)
            begin = time.monotonic()
            for moment_s in moments_s:
                time.sleep(max(0.0, begin + moment_s - time.monotonic()))
                started.append(
                    subprocess.Popen(
                        [CHECKOUT / "weft", "--version"], stdout=subprocess.PIPE, text=True,
                        stderr=subprocess.PIPE, cwd=trial.folder,
                    )
                )  # fmt: skip
        for one in started:
            said, errors = one.communicate(timeout=END_S)
            if one.returncode or not said.startswith("weft "):
                raise Broken(f"status {one.returncode}, {said!r}, {errors!r}")
            holders = [line for line in errors.splitlines() if line.startswith("  process ")]
            newcomers = [line for line in holders if f"process {os.getpid()} of" not in line]
            if newcomers and not is_held:
                raise Broken(f"nobody held the lock, and it names {newcomers}")
    return f"{number} starts"


def _kill(started: list[subprocess.Popen[str]]) -> None:
    for one in started:
        one.kill()
        one.wait()
