"""Outputs of every command, where another user has put links to root's files, and pipes."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from weft.base.cache import CHECKOUT
from weft.tools.attack.kind import Broken, Trial
from weft.tools.attack.processes import wait_until
from weft.tools.attack.victims import SWEEP, check_unchanged, states
from weft.tools.attack.weft_process import END_S, WeftProcess

SHARE = 1.0
DEADLINE_S = 420.0
NEEDS_ROOT = True

NOBODY, ANOTHER = 65534, 12345
READY_S = 120.0
PROGRAM = str(CHECKOUT / "tests/stf/basic.p4")
SIMULATED = ("run", "allgather", "--world", "simulated", "--leaves", "2", "--size", "16KiB")
SMALL = ("--leaves", "1", "--spines", "1", "--hosts-per-leaf", "2")
RESULTS = ("out/results.json", "out/report.html")
NETWORK = """
hosts = ["a", "b"]
switches = ["s"]
links = [{ ends = ["a", "s"] }, { ends = ["b", "s"] }]
"""
PLOTS = ("out/completion-ranks.svg", "out/completion-ranks.png")
POINTS = ("out/points/sweep.json", "out/points/ffd0472a7f7bb9f2f44a.json")
WITH_VETH = ("unshare", "--net", "sh", "-c", "ip link set lo up && ip link add one type veth peer "
             'name two && ip link set one up && exec "$@"', "sh")  # fmt: skip


@dataclass(frozen=True)
class Command:
    """A command that writes, in the folder ``theirs``."""

    words: tuple[str, ...]
    files: tuple[str, ...]
    """What it writes, in that folder."""
    reads: bool = False
    """The results of a sweep, in ``theirs/out``."""
    before: tuple[str, ...] = ()
    serves: bool = False
    """Until a signal ends it."""


COMMANDS = (
    Command(
        (*SIMULATED, "--out", "theirs/out", "--events", "theirs/events.jsonl"),
        (*RESULTS, "events.jsonl"),
    ),
    Command(("run", "sweep.toml", "--out", "theirs/out"), (*RESULTS, *PLOTS, *POINTS)),
    Command(("run", "sweep.toml", "--resume", "theirs/out"), (*RESULTS, *PLOTS), reads=True),
    Command(
        ("demo", "--out", "theirs/out", "--events", "theirs/events.jsonl"),
        (*RESULTS, "events.jsonl"),
    ),
    Command(("report", "theirs/out"), ("out/report.html",), reads=True),
    Command(("report", "theirs/out", "--out", "theirs/a.html"), ("a.html",), reads=True),
    Command(("plot", "theirs/out"), PLOTS, reads=True),
    Command(
        ("export", "theirs/out", "--csv", "theirs/a.csv", "--parquet", "theirs/a.parquet"),
        ("a.csv", "a.parquet"), reads=True,
    ),
    Command(("export", "theirs/out", "--csv", "theirs/a.csv"), ("a.csv",), reads=True),
    Command(("topology", "--out", "theirs/a.svg"), ("a.svg",)),
    Command(("paths", "allreduce", "--plot", "theirs/a.svg"), ("a.svg",)),
    Command(("bench", "transport", "--out", "theirs/b"), ("b/transport.json",)),
    Command(
        ("p4c", PROGRAM, "--out", "theirs/p4"), ("p4/basic.json", "p4/basic.p4info.txtpb")
    ),
    Command(
        ("p4c", PROGRAM, "--out", "theirs/a.json", "--p4info", "theirs/a.txtpb,theirs/a.bin"),
        ("a.json", "a.txtpb", "a.bin"),
    ),
    Command(
        ("p4c", PROGRAM, "--out", "theirs/a.json", "--p4runtime-file", "theirs/a.txtpb",
         "--p4runtime-entries-files", "theirs/entries.txtpb", "--pp", "theirs/a.p4",
         "--toJSON", "theirs/tree.json"),
        ("a.json", "a.txtpb", "entries.txtpb", "a.p4", "tree.json"),
    ),
    Command(("trace", "network.toml", "a", "b", "--html", "theirs/a.html"), ("a.html",)),
    Command(
        ("switch", PROGRAM, "--interface", "1@one", "--log-file", "theirs/a", "--log-level",
         "trace", "--log-file-max-size", "200", "--trace=theirs/trace.jsonl",
         "--pcap", "theirs/pcap"),
        ("a.txt", "a.1.txt", "trace.jsonl", "pcap/one_in.pcap", "pcap/one_out.pcap"),
        before=WITH_VETH, serves=True,
    ),
    Command(
        ("up", *SMALL, "--pcap", "theirs/pcap", "--out", "theirs/out"),
        (*(f"pcap/{ends}.pcap" for ends in ("h0-leaf0", "leaf0-h0", "leaf0-spine0")), *RESULTS),
    ),
)  # fmt: skip
READ = {
    "run --workload", "run --layout", "up --script", "torch run --out", "trace network",
    "cli --commands", "simulate file",
}  # fmt: skip
"""Options that name files and folders and are not attacked: what they name is read; or it is
written as others are, and needs PyTorch."""


def attack(trial: Trial) -> str:
    """Run a command into a folder that another user has prepared."""
    return attack_with(trial, trial.random.choice(COMMANDS))


def attack_with(trial: Trial, command: Command) -> str:
    """Run one of the commands so."""
    random = trial.random
    mine = trial.folder / "mine"
    (mine / "folder").mkdir(parents=True)
    mine.chmod(0o700)
    (mine / "secret").write_text("root's own")
    (mine / "secret").chmod(0o600)
    (mine / "folder" / "old").write_text("root's, too")
    theirs = trial.folder / "theirs"
    theirs.mkdir()
    trial.folder.chmod(0o755)
    (trial.folder / "sweep.toml").write_text(SWEEP)
    (trial.folder / "network.toml").write_text(NETWORK)
    if command.reads:
        _make_results(trial)
    caller = random.choice([None, NOBODY, ANOTHER])
    plants = [each for each in PLANTS if each is not _pipe or caller != NOBODY]
    planted: dict[Path, Callable[[Path, Path], None]] = {}
    for file in command.files:
        (theirs / file).parent.mkdir(parents=True, exist_ok=True)
        if random.random() < 0.75:
            planted[theirs / file] = random.choice(plants)
    folders = sorted({path.parent for path in planted} - {theirs})
    owner, mode = random.choice([(NOBODY, 0o755), (NOBODY, 0o777), (NOBODY, 0o1777), (0, 0o1777)])
    trial.note(f"the folder is of user {owner}, mode {mode:o}; called by sudo of user {caller}")
    for folder in (theirs, *folders):
        os.chown(folder, owner, owner)
        folder.chmod(mode)
    if folders and not command.reads and random.random() < 0.15:
        lost = random.choice(folders)
        shutil.rmtree(lost)
        planted = {path: how for path, how in planted.items() if lost not in path.parents}
        planted[lost] = _link_to_folder
    for path, plant in planted.items():
        _remove(path)
        plant(path, mine)
        trial.note(f"{path.relative_to(trial.folder)} is {(plant.__doc__ or '').rstrip('.')}")
    again = trial.chance(0.4)
    trial.note(f"they are made again while it runs: {again}")
    before = states(mine)
    sudo = {"SUDO_UID": str(caller), "SUDO_GID": str(caller), "SUDO_USER": "somebody"}
    weft = WeftProcess(
        trial, *command.words, before=command.before, environment={} if caller is None else sudo
    )
    try:
        status = _end(weft, command, planted if again else {}, mine)
        weft.check_speech()
        check_unchanged(before, mine, weft)
        usual = (0, 1, 2, 128 + signal.SIGTERM) if command.serves else (0, 1, 2)
        if status not in usual or (status in (1, 2) and not weft.errors.strip()):
            raise Broken(f"status {status}{weft.said()}")
        weft.check_nothing_left()
        return f"{command.words[0]}, status {status}"
    finally:
        weft.kill()


def _end(
    weft: WeftProcess,
    command: Command,
    again: dict[Path, Callable[[Path, Path], None]],
    mine: Path,
) -> int:
    """Wait for the end, and plant anew what has been replaced until then."""
    end = time.monotonic() + END_S
    while again and weft.runs() and time.monotonic() < end:
        for path, plant in again.items():
            with contextlib.suppress(OSError):  # it is there, or its folder is not
                plant(path, mine)
        if command.serves and "ready" in weft.output:
            break
        time.sleep(0.002)
    if command.serves:
        wait_until(lambda: not weft.runs() or "ready" in weft.output, "a ready switch", READY_S)
        weft.look()
        weft.popen.terminate()
    return weft.wait("its start")


def _make_results(trial: Trial) -> None:
    """The results of a sweep, as the other user may have them."""
    weft = WeftProcess(trial, "run", "sweep.toml", "--out", "theirs/out")
    try:
        if status := weft.wait("its start"):
            raise Broken(f"status {status}{weft.said()}")
        weft.check_nothing_left()
    finally:
        weft.kill()
    for path in (trial.folder / "theirs").rglob("*"):
        os.chown(path, NOBODY, NOBODY)


def _remove(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def _link_to_file(path: Path, mine: Path) -> None:
    """a link to root's file."""
    path.symlink_to(mine / "secret")
    os.lchown(path, NOBODY, NOBODY)


def _link_to_nothing(path: Path, mine: Path) -> None:
    """a link to where root has no file yet."""
    path.symlink_to(mine / "not-yet")
    os.lchown(path, NOBODY, NOBODY)


def _link_to_folder(path: Path, mine: Path) -> None:
    """a link to root's folder."""
    path.symlink_to(mine / "folder")
    os.lchown(path, NOBODY, NOBODY)


def _hard_link(path: Path, mine: Path) -> None:
    """a hard link to root's file."""
    path.hardlink_to(mine / "secret")


def _pipe(path: Path, _mine: Path) -> None:
    """a pipe that nobody reads."""
    os.mkfifo(path)
    os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


PLANTS = (_link_to_file, _link_to_file, _link_to_nothing, _link_to_folder, _hard_link, _pipe)
