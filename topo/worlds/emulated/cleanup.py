"""Clean-up: it removes what killed runs left behind, and only that.

A run is dead when the process on record as its runner no longer runs. Its processes are those on
its record whose start time still matches, and those of this user whose environment carries its id;
nothing is ever chosen by a process's name. Network namespaces and the links in them go with the
last process in them.

A record that another user may have written is not believed: nothing that it names is killed, and
its folder stays, since nobody can say whether its run is up. The environment of another user's
process is not believed either: any process may put a run's id there.
"""

import os
import re
import shutil
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from weft.base.effort import start_time
from weft.base.errors import MachineError
from weft.topo.worlds.emulated.runs import (
    RUN_VARIABLE,
    RUNS,
    DoubtfulError,
    Process,
    doubt_of_folder,
    read_record,
)

KILL_DEADLINE_S = 60.0

_RUN_FOLDER = re.compile(r"[0-9a-f]{6}|\.[0-9a-f]{6}\.\d+")
"""The name of a run's folder; while the runner is making the folder, a dot stands before it and the
runner's process id behind it."""


def clean(root: Path = RUNS) -> list[str]:
    """Kill the processes and delete the folders of runs whose runner is dead.

    Returns a line for each thing removed; an empty list if there was nothing to do. Runs whose
    runner lives are not touched. Raises MachineError, whose message has all that was removed, if
    something is left that this user may not remove or whose record is not believed.
    """
    folders = _run_folders(root)
    dead, unreadable, problems = [], [], []
    for folder in folders:
        try:
            if _is_dead(folder):
                dead.append(folder)
        except PermissionError:
            unreadable.append(folder)
        except DoubtfulError as error:
            problems.append(str(error))
    if unreadable:
        problems.append(
            f"{_listed(unreadable)}: whether these runs are dead can be seen by their owner alone: "
            "use sudo"
        )
    if dead and not os.access(root, os.W_OK, effective_ids=True):
        problems.append(
            f"{_listed(dead)}: left by killed runs, and to be removed by root alone: use sudo"
        )
        dead = []
    removed: list[str] = []
    for folder in dead:
        claimants = list(_foreign_claimants(_run_id(folder)))
        removed += _clean_run(folder)
        problems += claimants
    if left := [folder for folder in dead if folder.exists()]:
        problems.append(
            f"{_listed(left)}: cannot be removed in full"
            + (" by this user: use sudo" if os.geteuid() else "; try again, or look what holds it")
        )
    if problems:
        raise MachineError("\n".join([*problems, *(f"removed {what}" for what in removed)]))
    return removed


def _run_folders(root: Path) -> list[Path]:
    """Return those entries of a folder of runs that have a run's name. Raises MachineError if
    nothing there can be believed."""
    try:
        found = [
            path
            for path in sorted(root.iterdir())
            if _RUN_FOLDER.fullmatch(path.name) and (path.is_symlink() or path.is_dir())
        ]
        why = doubt_of_folder(root.lstat())
    except FileNotFoundError:
        return []
    except PermissionError:
        raise MachineError(f"{root} cannot be read without root: use sudo") from None
    if found and why:
        raise MachineError(
            f"{root}: {why}. What it says of runs is not believed, and nothing in it is touched "
            f"({_listed(found)}); see what is there, then remove it or let its owner alone write it"
        )
    return found


def _listed(folders: list[Path]) -> str:
    more = f" and {len(folders) - 3} more" if len(folders) > 3 else ""
    return ", ".join(map(str, folders[:3])) + more


def _is_dead(folder: Path) -> bool:
    """Return whether a run is dead. A folder without a record yet belongs to a live run if the
    process that is making it still runs."""
    runner, _ = read_record(folder)
    if runner is not None:
        return not runner.is_alive()
    maker = folder.name.rpartition(".")[2]
    being_made = maker.isdigit() and start_time(int(maker)) is not None
    return not (folder.name.startswith(".") and being_made)


def _run_id(folder: Path) -> str:
    return folder.name.lstrip(".").partition(".")[0]


def _clean_run(folder: Path) -> list[str]:
    """Kill what is left of a dead run and delete its folder; return a line for each thing that is
    gone."""
    run_id = _run_id(folder)
    _, recorded = read_record(folder)
    alive = {process.pid: process for process in recorded if process.is_alive()}
    for process in marked_processes(run_id):
        alive.setdefault(process.pid, process)
    kill_all(alive.values())
    survivors = [process for process in alive.values() if process.is_alive()]
    if not survivors:  # whose record is still needed
        shutil.rmtree(folder, ignore_errors=True)  # which follows no links
    removed = [
        f"run {run_id}: process {process.pid} ({process.what})"
        for process in alive.values()
        if process not in survivors
    ]
    return removed if folder.exists() else [*removed, f"run {run_id}: {folder}"]


def marked_processes(run_id: str) -> list[Process]:
    """Return the processes of this user that carry a run's id in their environment, except the
    calling one."""
    return [process for process, users in _marked(run_id) if users == {os.geteuid()}]


def _foreign_claimants(run_id: str) -> Iterator[str]:
    """Return a line for each process that carries a run's id and does not belong to this user
    alone."""
    for process, users in _marked(run_id):
        if others := users - {os.geteuid()}:
            yield (
                f"process {process.pid} ({process.what}) of user {min(others)} carries the mark of "
                f"run {run_id}; that is not believed, since any process may, and it was not killed"
            )


def _marked(run_id: str) -> Iterator[tuple[Process, set[int]]]:
    """Return the processes that carry a run's id, each with the users that it runs as.

    There may be several users: a set-uid root program has the environment and the real user of
    whoever started it.
    """
    mark = f"{RUN_VARIABLE}={run_id}".encode()
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            if mark not in Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                continue
            what = Path("/proc", entry, "comm").read_text().strip()
            started = start_time(int(entry))
            status = Path("/proc", entry, "status").read_text()
        except OSError:
            continue
        users = next(line for line in status.splitlines() if line.startswith("Uid:"))
        if started is not None:
            yield Process(int(entry), started, what), set(map(int, users.split()[1:]))


def kill_all(processes: Iterable[Process], deadline_s: float = KILL_DEADLINE_S) -> None:
    """Kill by SIGKILL those processes that are still the ones on record, and wait until they are
    gone.

    Processes that this user may not kill are passed over.
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
