"""The record that a run keeps of itself in /run/weft, so that it can be cleaned up after if it is
killed.

A run's folder, ``/run/weft/<id>/``, holds its sockets, its files and ``record.jsonl``: one JSON
object on each line, first the runner, then every process as it is started. A process is known by
its id *and* the time at which the kernel started it, so that another process that gets the same id
later is never taken for it. All processes of a run carry ``WEFT_RUN=<id>`` in their environment.

The folder and all in it belong to their owner alone, whatever the umask: whoever could connect to
its sockets could drive the switches, and whoever could write its record could choose what is
killed. So a record is believed only if nobody else can have written it (`read_believed`).
"""

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from weft.base import documents
from weft.base.effort import start_time
from weft.base.errors import InputError, MachineError, refuse
from weft.base.private_files import FOLDER_MODE, doubt, open_private
from weft.base.signals import signals_held
from weft.topo.worlds.emulated.pid_namespace import Child, PidNamespace

RUNS = Path("/run/weft")
RECORD = "record.jsonl"
RUN_VARIABLE = "WEFT_RUN"
"""The environment variable that every process of a run inherits, with the run's id in it."""


ROOT_MODE = 0o755
"""The mode of the folder of all runs: other users see which runs there are, and nothing of them."""


MOST_RECORD_BYTES = 16 << 20


class DoubtfulError(MachineError):
    """A refusal because another user may have written what a run's folder says."""


@dataclass(frozen=True)
class Process:
    """A process, by its id and its start time, which tells it from a later one with the same id."""

    pid: int
    started: int
    """Clock ticks from the machine's boot to the start of the process."""
    what: str

    def is_alive(self) -> bool:
        """Return whether that very process still runs (a zombie does not)."""
        return start_time(self.pid) == self.started


def boot_id() -> str:
    """Return what identifies the machine's current boot, from which process start times count."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class _Line(msgspec.Struct, omit_defaults=True):
    """One line of a run's record: a process, its start time, which tells it from others of its
    id, and its job."""

    pid: int
    started: int
    what: str
    runner: bool = False
    boot: str = ""
    """The boot of the machine in which the runner started, which tells it from later ones."""


class RunRecord:
    """A run's id, its folder and its record; `create` makes it and `remove` ends it."""

    def __init__(self, run_id: str, folder: Path) -> None:
        self.id = run_id
        self.folder = folder
        self.pid_namespace: PidNamespace | None = None
        """Where the run's processes are started, while there is one."""

    @classmethod
    def create(cls, root: Path = RUNS) -> "RunRecord":
        """Choose an id, and make the run's folder with the calling process on record as the runner.

        The folder appears with its record already in it, so that a clean-up at the same moment sees
        a live runner. Raises MachineError if ``root`` cannot be written, or is another user's.
        """
        try:
            _prepare(root)
            while True:
                run_id = secrets.token_hex(3)
                draft = root / f".{run_id}.{os.getpid()}"
                draft.mkdir(mode=FOLDER_MODE)
                run = cls(run_id, draft)
                run.add(os.getpid(), "runner", runner=True)
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

    def enclose(self, names: Path | None = None) -> None:
        """Start the run's processes, from now on, in a PID namespace of its own, if the kernel
        makes one; otherwise they are known by their record and their environment alone. Nodes have
        a file of ``names`` as /etc/hosts then.

        Call it from a thread that lives as long as the run.
        """
        with signals_held(), suppress(MachineError):
            self.pid_namespace = PidNamespace.make(self.environment(), names)
            self.add(self.pid_namespace.pid, "init of the PID namespace")

    def start(self, begin: Callable[[], Child], what: str) -> Child:
        """Have ``begin`` start a process of the run, and put it on record.

        Signals are held back meanwhile, since nobody would wait for a child whose start they
        interrupted.
        """
        with signals_held():
            namespace = self.pid_namespace
            child = begin() if namespace is None else namespace.start(begin)
            self.add(child.pid, what)
        return child

    def end_enclosed(self) -> None:
        """Kill whatever is left in the run's PID namespace, and forget the namespace."""
        namespace, self.pid_namespace = self.pid_namespace, None
        if namespace is not None:
            namespace.end()

    def add(self, pid: int, what: str, *, runner: bool = False) -> Process:
        """Put a process on record; call this right after it was started."""
        process = Process(pid, start_time(pid) or 0, what)
        line = _Line(pid, process.started, what, runner, boot_id() if runner else "")
        with open_private(self.folder / RECORD, "a") as record:
            record.write(msgspec.json.encode(line).decode() + "\n")
        return process

    def environment(self) -> dict[str, str]:
        """Return this process's environment with the run's id in it, for the run's processes."""
        return {**os.environ, RUN_VARIABLE: self.id}

    def remove(self) -> None:
        """Delete the run's folder; do nothing if it is gone."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _prepare(root: Path) -> None:
    """Make the folder of all runs if there is none, and make sure that nobody else may write it.

    Raises DoubtfulError if it belongs to another user, or is a link.
    """
    root.mkdir(mode=ROOT_MODE, exist_ok=True)
    if why := doubt_of_folder(root.lstat()):
        refuse(
            root.is_symlink() or root.lstat().st_uid != os.geteuid(),
            f"{root}: {why}, and runs keep their sockets and records there: remove it",
            DoubtfulError,
        )
        root.chmod(ROOT_MODE)  # as a run with an open umask may once have made it


def doubt_of_folder(status: os.stat_result) -> str:
    """Return why something that should be a folder is not believed, as `doubt` does for a file."""
    return doubt(status) or ("" if stat.S_ISDIR(status.st_mode) else "it is no folder")


def read_believed(file: Path) -> str:
    """Return the text of a file in a run's folder that root or this user has written, and nobody
    else can have.

    The same must be true of the file itself, which must not be a link, of its run's folder, and of
    the folder of all runs. Raises DoubtfulError, with the reason, if another user may have written
    it; OSError if it cannot be read.
    """
    for folder in (file.parent.parent, file.parent):
        if why := doubt_of_folder(folder.lstat()):
            raise _doubtful(folder, why, file.parent)
    try:  # without waiting for somebody to write, if it is a pipe
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(file, flags)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise _doubtful(file, "it is a symbolic link", file.parent) from None
    with open(descriptor, encoding="utf-8", errors="replace") as opened:
        status = os.fstat(descriptor)
        why = doubt(status) or ("" if stat.S_ISREG(status.st_mode) else "it is no regular file")
        if not why and status.st_size > MOST_RECORD_BYTES:
            why = f"it has {status.st_size:,} bytes, and a run's has {MOST_RECORD_BYTES:,} at most"
        if why:
            raise _doubtful(file, why, file.parent)
        return opened.read(MOST_RECORD_BYTES)


def _doubtful(path: Path, why: str, folder: Path) -> DoubtfulError:
    return DoubtfulError(
        f"{path}: {why}. What it says of a run is not believed, and nothing of that run is "
        f"touched; if there is no such run, remove {folder} by hand"
    )


def read_record(folder: Path) -> tuple[Process | None, list[Process]]:
    """Return (runner, other processes) of a run, from its record.

    The runner is None if the record is missing, or from before the machine's last boot. A last line
    that was cut short by a kill is passed over. Raises DoubtfulError if another user may have
    written the record, PermissionError if this user may not read it.
    """
    runner: Process | None = None
    others: list[Process] = []
    try:
        text = read_believed(folder / RECORD)
    except FileNotFoundError:
        return None, []
    for line in text.splitlines():
        try:
            facts = documents.decoded(_Line, line, RECORD)
        except InputError:
            continue
        process = Process(facts.pid, facts.started, facts.what)
        if not facts.runner:
            others.append(process)
        elif facts.boot == boot_id():
            runner = process
        else:
            return None, []
    return runner, others
