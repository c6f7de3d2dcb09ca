"""What tests of engines share: sweeps that are quick, and functions that workers can import."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.system_support import ENVIRONMENT, WEFT, wait_until

from weft.base.progress import Progress
from weft.experiments.results.results import Results
from weft.experiments.runner import RunOutcome, run_to_folder
from weft.experiments.scenario.sweep import Experiment, read_file

SWEEP = """
world = "simulated"
topology = "single"
hosts-per-leaf = 2
algorithm = ["ring", "multicast"]
[sweep]
size = ["5KiB", "1KiB", "300KiB", "2KiB", "3KiB", "4KiB"]
"""


def sweep(folder: Path, text: str = SWEEP) -> Experiment:
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "sizes.toml").write_text(text)
    return read_file(folder / "sizes.toml")


def go(folder: Path, text: str = SWEEP, **options: Any) -> RunOutcome:
    """A sweep, run into the folder ``out``."""
    experiment = sweep(folder, text)
    return run_to_folder(experiment, progress=Progress.silent(), out=folder / "out", **options)


def told(results: Results) -> dict[str, Any]:
    """What results say, but for when they came to be and how long that took."""
    document = results.to_dict()
    for name in ("run_id", "started", "duration_s", "timings_s"):
        del document[name]
    return document


def echo(value: Any) -> Any:
    return value


def fail(error: Exception) -> None:
    raise error


def die() -> None:
    """End the process as the kernel does when there is no memory left."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(mark: Path) -> str:
    """End the process the first time, and return the second time."""
    if not mark.exists():
        mark.touch()
        die()
    return "alive"


def processes_of(pid: int) -> list[int]:
    """All processes below one, itself not among them."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *processes_of(child)]
    return found


class Strange(Exception):
    """An error that can be pickled, and not unpickled."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(one)


def fail_strangely() -> None:
    raise Strange(1, 2)


def _heed_hang_ups() -> None:
    """Whoever runs the tests may ignore them, as nohup does."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@contextmanager
def under_way(
    folder: Path, text: str, on: str
) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """``weft run`` of a sweep on an engine, of which some points have arrived, and the processes
    that it has started."""
    (folder / "long.toml").write_text(text)
    command = [*WEFT, "run", "long.toml", "--on", on, "--out", "out"]
    with subprocess.Popen(
        command, cwd=folder, env=ENVIRONMENT, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=_heed_hang_ups,
    ) as process:  # fmt: skip
        points = folder / "out" / "points"
        wait_until(lambda: len(list(points.glob("*.json"))) > 2, "two points to arrive")
        yield process, processes_of(process.pid)
