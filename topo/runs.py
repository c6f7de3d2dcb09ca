"""The record that a run keeps of itself in /run/weft, so that a killed run can be cleaned up after.

A run's folder, ``/run/weft/<id>/``, holds its sockets, its files and ``record.jsonl``: one JSON
object a line, first the runner, then every process as it is started. A process is known by its
id *and* the time the kernel started it, so that an id used again is never taken for it. All
processes of a run carry ``WEFT_RUN=<id>`` in their environment.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from switch.errors import MachineError

RUNS = Path("/run/weft")
RECORD = "record.jsonl"
RUN_VARIABLE = "WEFT_RUN"
"""The environment variable that every process of a run inherits, with the run's id in it."""


@dataclass(frozen=True)
class Process:
    """A process, told from a later one with the same id by its start time."""

    pid: int
    started: int
    """Clock ticks from the machine's boot to the start of the process."""
    what: str

    def is_alive(self) -> bool:
        """Whether that very process still runs (a zombie does not)."""
        return start_time(self.pid) == self.started


def start_time(pid: int) -> int | None:
    """When a process was started, in clock ticks since boot; None if none runs under that id."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])


def boot_id() -> str:
    """What identifies the machine's current boot; process start times count from it."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class Run:
    """A run's id, its folder and its record. Made by :meth:`create`, ended by :meth:`remove`."""

    def __init__(self, run_id: str, folder: Path) -> None:
        self.id = run_id
        self.folder = folder

    @classmethod
    def create(cls, root: Path = RUNS) -> Run:
        """Choose an id, and make its folder with the calling process on record as the runner.

        The folder appears with its record already in it, so that a clean-up at the same moment
        sees a live runner. Raises MachineError if ``root`` cannot be written.
        """
        try:
            root.mkdir(parents=True, exist_ok=True)
            while True:
                run_id = secrets.token_hex(3)
                draft = root / f".{run_id}.{os.getpid()}"
                draft.mkdir(mode=0o755)
                run = cls(run_id, draft)
                run._append({"runner": True, "boot": boot_id()}, os.getpid(), "runner")
                run.folder = root / run_id
                try:
                    draft.rename(run.folder)
                    return run
                except OSError:
                    shutil.rmtree(draft)
                    if not run.folder.exists():
                        raise
        except OSError as error:
            raise MachineError(
                f"cannot write {error.filename or root}: {error.strerror}; a run keeps its "
                f"sockets and its record in {root}, so it has to be run as root"
            ) from error

    def add(self, pid: int, what: str) -> Process:
        """Put a process on record; to be called right after it was started."""
        return self._append({}, pid, what)

    def _append(self, facts: dict[str, object], pid: int, what: str) -> Process:
        process = Process(pid, start_time(pid) or 0, what)
        line = json.dumps({**facts, "pid": pid, "started": process.started, "what": what})
        with open(self.folder / RECORD, "a", encoding="ascii") as record:
            record.write(line + "\n")
        return process

    def environment(self) -> dict[str, str]:
        """This process's environment with the run's mark in it, for the run's processes."""
        return {**os.environ, RUN_VARIABLE: self.id}

    def remove(self) -> None:
        """Delete the run's folder; nothing if it is gone."""
        shutil.rmtree(self.folder, ignore_errors=True)


def read_record(folder: Path) -> tuple[Process | None, list[Process]]:
    """(runner, other processes) of a run, from its record.

    The runner is None where the record is missing, or from before the machine's last boot. A
    last line cut short by a kill is passed over.
    """
    runner: Process | None = None
    others: list[Process] = []
    try:
        lines = (folder / RECORD).read_text().splitlines()
    except OSError:
        return None, []
    for line in lines:
        try:
            facts = json.loads(line)
            process = Process(facts["pid"], facts["started"], facts["what"])
        except (ValueError, KeyError, TypeError):
            continue
        if not facts.get("runner"):
            others.append(process)
        elif facts.get("boot") == boot_id():
            runner = process
        else:
            return None, []
    return runner, others
