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

from switch.errors import MachineError
from topo.runs import RUN_VARIABLE, RUNS, Process, read_record, start_time

KILL_DEADLINE_S = 60.0

_RUN_FOLDER = re.compile(r"[0-9a-f]{6}|\.[0-9a-f]{6}\.\d+")
"""What a run calls its folder; with a dot and its runner's process id while it makes it."""


def clean(root: Path = RUNS) -> list[str]:
    """Kill the processes and delete the folders of runs whose runner is dead.

    Returns a line for each thing removed; an empty list if there was nothing to do. Runs whose
    runner lives are not touched. Raises MachineError if something is left that this user may not
    remove.
    """
    try:
        if not root.is_dir():
            return []
        dead = [
            folder
            for folder in sorted(root.iterdir())
            if _RUN_FOLDER.fullmatch(folder.name) and folder.is_dir() and _is_dead(folder)
        ]
    except PermissionError:
        raise MachineError(f"{root} cannot be read without root: use sudo") from None
    if dead and not os.access(root, os.W_OK, effective_ids=True):
        raise MachineError(
            f"{_listed(dead)}: left by killed runs, and to be removed by root alone: use sudo"
        )
    removed: list[str] = []
    for folder in dead:
        removed += _clean_run(folder)
    if left := [folder for folder in dead if folder.exists()]:
        raise MachineError(
            f"{_listed(left)}: cannot be removed in full"
            + (" by this user: use sudo" if os.geteuid() else "; try again, or look what holds it")
            + "".join(f"\nremoved {what}" for what in removed)
        )
    return removed


def _listed(folders: list[Path]) -> str:
    more = f" and {len(folders) - 3} more" if len(folders) > 3 else ""
    return ", ".join(map(str, folders[:3])) + more


def _is_dead(folder: Path) -> bool:
    runner, _ = read_record(folder)
    if runner is not None:
        return not runner.is_alive()
    return not (folder.name.startswith(".") and _is_being_made(folder))


def _clean_run(folder: Path) -> list[str]:
    """Kill what is left of a dead run and delete its folder; a line for each thing that is gone."""
    run_id = folder.name.lstrip(".").partition(".")[0]
    _, recorded = read_record(folder)
    alive = {process.pid: process for process in recorded if process.is_alive()}
    for process in marked_processes(run_id):
        alive.setdefault(process.pid, process)
    kill_all(alive.values())
    survivors = [process for process in alive.values() if process.is_alive()]
    if not survivors:  # whose record is still needed
        shutil.rmtree(folder, ignore_errors=True)
    removed = [
        f"run {run_id}: process {process.pid} ({process.what})"
        for process in alive.values()
        if process not in survivors
    ]
    return removed if folder.exists() else [*removed, f"run {run_id}: {folder}"]


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
    """SIGKILL processes that are still the ones on record, and wait until they are gone.

    Those that this user may not kill are passed over.
    """
    waiting = [process for process in processes if process.is_alive()]
    forbidden: list[Process] = []
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
        except PermissionError:
            forbidden.append(process)
        finally:
            os.close(descriptor)
    waiting = [process for process in waiting if process not in forbidden]
    end = time.monotonic() + deadline_s
    while waiting and time.monotonic() < end:
        waiting = [process for process in waiting if process.is_alive()]
        if waiting:
            time.sleep(0.005)
