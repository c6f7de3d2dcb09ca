"""Remove what killed runs left behind, and only that.

A run is dead when the process on record as its runner no longer runs. Its processes are those on
its record whose start time still matches, and those whose environment carries its id; nothing is
ever chosen by a process's name. Network namespaces and the links in them go with the last process
in them.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from topo.runs import RUN_VARIABLE, RUNS, Process, read_record, start_time

KILL_DEADLINE_S = 5.0

_RUN_FOLDER = re.compile(r"[0-9a-f]{6}|\.[0-9a-f]{6}\.\d+")
"""What a run calls its folder; with a dot and its runner's process id while it makes it."""


def clean(root: Path = RUNS) -> list[str]:
    """Kill the processes and delete the folders of runs whose runner is dead.

    Returns a line for each thing removed; an empty list if there was nothing to do. Runs whose
    runner lives are not touched.
    """
    removed: list[str] = []
    if not root.is_dir():
        return removed
    for folder in sorted(root.iterdir()):
        if folder.is_dir() and _RUN_FOLDER.fullmatch(folder.name):
            removed += _clean_run(folder)
    return removed


def _clean_run(folder: Path) -> list[str]:
    run_id = folder.name.lstrip(".").partition(".")[0]
    runner, recorded = read_record(folder)
    if runner is not None and runner.is_alive():
        return []
    if runner is None and folder.name.startswith(".") and _is_being_made(folder):
        return []
    alive = {process.pid: process for process in recorded if process.is_alive()}
    for process in marked_processes(run_id):
        alive.setdefault(process.pid, process)
    kill_all(alive.values())
    shutil.rmtree(folder, ignore_errors=True)
    removed = [
        f"run {run_id}: process {process.pid} ({process.what})" for process in alive.values()
    ]
    return [*removed, f"run {run_id}: {folder}"]


def _is_being_made(folder: Path) -> bool:
    """Whether a folder without a record yet belongs to a process that is about to write one."""
    maker = folder.name.rpartition(".")[2]
    return maker.isdigit() and start_time(int(maker)) is not None


def marked_processes(run_id: str) -> list[Process]:
    """The processes that carry a run's id in their environment, but for the calling one."""
    mark = f"{RUN_VARIABLE}={run_id}".encode()
    found: list[Process] = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            if mark not in Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                continue
            what = Path("/proc", entry, "comm").read_text().strip()
        except OSError:
            continue
        started = start_time(int(entry))
        if started is not None:
            found.append(Process(int(entry), started, what))
    return found


def kill_all(processes: Iterable[Process], deadline_s: float = KILL_DEADLINE_S) -> None:
    """SIGKILL processes that are still the ones on record, and wait until they are gone."""
    waiting = [process for process in processes if process.is_alive()]
    for process in waiting:
        try:
            descriptor = os.pidfd_open(process.pid)
        except OSError:
            continue
        try:
            if process.is_alive():
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        except ProcessLookupError:
            pass
        finally:
            os.close(descriptor)
    end = time.monotonic() + deadline_s
    while waiting and time.monotonic() < end:
        waiting = [process for process in waiting if process.is_alive()]
        if waiting:
            time.sleep(0.005)
