"""Places that others prepared: links in results folders, any umask, full disks, foreign records."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import time
from collections.abc import Callable

from weft.base.cache import CHECKOUT
from weft.base.effort import start_time
from weft.base.errors import MachineError
from weft.tools.attack.kind import Broken, Trial
from weft.tools.attack.processes import wait_until
from weft.tools.attack.victims import SWEEP, check_unchanged, states
from weft.tools.attack.weft_process import END_S, WeftProcess
from weft.topo.worlds.emulated.cleanup import clean
from weft.topo.worlds.emulated.runs import boot_id

SHARE = 1.5
DEADLINE_S = 420.0
NEEDS_ROOT = True

NOBODY = 65534
UP_S = 180.0
SAYS_S = 60.0
OLD = json.dumps({"old": "x" * 3000})
SIMULATED = ("run", "allgather", "--world", "simulated", "--leaves", "2", "--size", "16KiB")
EMULATED = ("run", "allgather", "--leaves", "2", "--hosts-per-leaf", "1", "--size", "16KiB",
            "--rate", "20Mbit", "--no-predict", "--pcap")  # fmt: skip
EVENTS = ("--events", "out/events.jsonl")
FILES = ("results.json", "report.html", "completion-ranks.svg", "completion-ranks.png", "pcap",
         "trace.json", "transport.json", "events.jsonl")  # fmt: skip


def attack(trial: Trial) -> str:
    """Run where somebody has prepared something."""
    return trial.random.choice(PREPARED)(trial)


def _links(trial: Trial) -> str:
    """A results folder of another user, who links its files to root's."""
    random = trial.random
    mine = trial.folder / "mine"
    out = trial.folder / "out"
    mine.mkdir(mode=0o700)
    out.mkdir()
    (mine / "folder").mkdir()
    secret = mine / "secret"
    (mine / "folder" / "h0-leaf0.pcap").write_text("captured long ago")
    secret.write_text("root's own")
    secret.chmod(0o600)
    for name in FILES:
        if random.random() < 0.7:
            target = mine / "folder" if name == "pcap" else secret
            if name != "pcap" and random.random() < 0.2:
                target = mine / "not-yet"
            (out / name).symlink_to(target)
            trial.note(f"out/{name} is a link to {target.name}")
            os.lchown(out / name, NOBODY, NOBODY)
    os.chown(out, NOBODY, NOBODY)
    trial.folder.chmod(0o755)
    (trial.folder / "sweep.toml").write_text(SWEEP)
    command = random.choice([
        (*SIMULATED, "--out", "out", *EVENTS), (*EMULATED, "--out", "out", *EVENTS),
        ("run", "sweep.toml", "--out", "out"), ("bench", "transport", "--out", "out"),
    ])  # fmt: skip
    again = trial.chance(0.6)
    trial.note(f"links are made again while it runs: {again}")
    before = states(mine)
    sudo = {"SUDO_UID": str(NOBODY), "SUDO_GID": str(NOBODY), "SUDO_USER": "nobody"}
    weft = WeftProcess(trial, *command, environment=sudo)
    try:
        end = time.monotonic() + END_S
        while again and weft.runs() and time.monotonic() < end:
            for name in FILES:
                with contextlib.suppress(OSError):  # it is there
                    (out / name).symlink_to(mine / "folder" if name == "pcap" else secret)
            time.sleep(0.002)
        status = weft.wait("its start")
        weft.check_speech()
        if status not in (0, 1, 2):
            raise Broken(f"status {status}{weft.said()}")
        check_unchanged(before, mine, weft)
        weft.check_nothing_left()
        return f"links, status {status}"
    finally:
        weft.kill()


def _umask(trial: Trial) -> str:
    """Whatever umask: nobody else gets at a run's sockets and record."""
    umask = trial.random.choice(["0", "0", "002", "077", "022"])
    trial.folder.chmod(0o755)
    before = ("sh", "-c", f'umask {umask} && exec "$@"', "sh")
    options = ["--links", "patch"] if trial.chance(0.3) else []
    weft = WeftProcess(
        trial, "up", "--leaves", "2", "--hosts-per-leaf", "1", *options, before=before, speaks=True
    )
    try:
        wait_until(lambda: _is_up(weft) or not weft.runs(), "the testbed to be up", UP_S)
        for folder in weft.folders():
            open_ = [
                f"{path.name} {path.lstat().st_mode & 0o7777:o}"
                for path in [folder, *folder.rglob("*")]
                if path.lstat().st_mode & 0o077 and not path.is_symlink()
            ]
            if folder.parent.lstat().st_mode & 0o022:
                open_.append(str(folder.parent))
            if open_:
                raise Broken(f"with umask {umask}, others may use: {', '.join(open_)}")
        weft.stdin.close()
        if status := weft.wait("the end of its input"):
            raise Broken(f"status {status}{weft.said()}")
        weft.check_speech()
        weft.check_nothing_left()
        return "umask, closed to others"
    finally:
        weft.kill()


def _is_up(weft: WeftProcess) -> bool:
    weft.look()
    return any((folder / "testbed.json").exists() for folder in weft.folders())


def _foreign_record(trial: Trial) -> str:
    """A record that another user wrote, or could have, names a process of root's."""
    how = trial.random.choice(["folder is another's", "folder is open", "record is another's",
                               "record is open"])  # fmt: skip
    trial.note(f"the {how}")
    root = trial.folder / "runs"
    folder = root / "00aa17"
    folder.mkdir(mode=0o700, parents=True)
    record = folder / "record.jsonl"
    asleep = subprocess.Popen(["sleep", "600"])
    try:
        runner = {"runner": True, "boot": boot_id(), "pid": 1 << 22, "started": 1, "what": "runner"}
        named = {"pid": asleep.pid, "started": start_time(asleep.pid), "what": "a switch"}
        record.write_text(f"{json.dumps(runner)}\n{json.dumps(named)}\n")
        record.chmod(0o600)
        match how:
            case "folder is another's":
                os.chown(folder, NOBODY, NOBODY)
            case "folder is open":
                folder.chmod(0o777)
            case "record is another's":
                os.chown(record, NOBODY, NOBODY)
            case _:
                record.chmod(0o666)
        with contextlib.suppress(MachineError):
            clean(root)
        if asleep.poll() is not None:
            raise Broken(f"clean killed a process that a record names whose {how}")
        return "record not believed"
    finally:
        asleep.kill()
        asleep.wait()


def _full_disk(trial: Trial) -> str:
    """Files cannot grow beyond a bound: the table is printed, and the old results stay whole."""
    random = trial.random
    out = trial.folder / "out"
    out.mkdir()
    old = random.random() < 0.5
    if old:
        (out / "results.json").write_text(OLD)
    (trial.folder / "sweep.toml").write_text(SWEEP)
    command = random.choice([SIMULATED, SIMULATED, ("run", "sweep.toml")])
    if random.random() < 0.5:
        bound = random.choice([1, 1000, 10_000, 50_000])
        # What it says goes to a file, too, which may grow as it likes.
        through = ("bash", "-o", "pipefail", "-c", '"$@" | cat', "bash")
        before: tuple[str, ...] = (*through, "prlimit", f"--fsize={bound}", "--")
    else:
        size = random.choice(["4k", "16k", "64k", "100k"])
        keep = f'mount -t tmpfs -o size={size} none out && cp old out/results.json && "$@"; '
        keep += "status=$?; cp out/results.json kept; exit $status"
        (trial.folder / "old").write_text(OLD if old else "")
        before = ("unshare", "--mount", "sh", "-c", keep, "sh")
    weft = WeftProcess(trial, *command, "--out", "out", before=before)
    try:
        status = weft.wait("its start")
        weft.check_speech()
        kept = trial.folder / "kept"
        file = kept if kept.exists() else out / "results.json"
        text = file.read_text() if file.exists() else ""
        whole = text in ("", OLD) or _is_json(text)
        if not whole:
            raise Broken(f"{file.name} is cut short, {len(text)} characters{weft.said()}")
        printed = "verified" in weft.output or " ok " in weft.output
        if not printed:
            raise Broken(f"no table is printed{weft.said()}")
        if status not in (1, 2) and (status != 0 or text in ("", OLD)):
            raise Broken(f"status {status}, with {len(text)} characters of results{weft.said()}")
        weft.check_nothing_left()
        return f"full disk, status {status}"
    finally:
        weft.kill()


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _foreign_cache(trial: Trial) -> str:
    """Code is neither taken from a folder that others may write to, nor left there."""
    cache = trial.folder / "cache"
    how = trial.random.choice(["another's", "open", "a link"])
    trial.note(f"the cache is {how}")
    cache.mkdir(mode=0o755)
    trial.folder.chmod(0o755)
    named = cache
    match how:
        case "another's":
            os.chown(cache, NOBODY, NOBODY)
        case "open":
            cache.chmod(0o777)
        case _:
            named = trial.folder / "link"
            named.symlink_to(cache)
            os.lchown(named, NOBODY, NOBODY)
    command = ("stf", str(CHECKOUT / "tests/stf/basic.p4"), str(CHECKOUT / "tests/stf/basic.stf"))
    weft = WeftProcess(trial, *command, environment={"WEFT_CACHE": str(named)})
    try:
        status = weft.wait("its start")
        weft.check_speech()
        if status not in (0, 2):
            raise Broken(f"status {status}{weft.said()}")
        if found := list(cache.iterdir()):
            raise Broken(f"a cache that is {how} was used: {found}{weft.said()}")
        return f"cache, status {status}"
    finally:
        weft.kill()


def _held_lock(trial: Trial) -> str:
    """Whoever can read the checkout locks it: ``./weft`` goes on, or says what it waits for."""
    with (CHECKOUT / "weft").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        said = trial.folder / "said"
        with said.open("wb") as out:
            waiting = subprocess.Popen(
                [str(CHECKOUT / "weft"), "topology"],
                cwd=trial.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            )  # fmt: skip
        try:
            end = time.monotonic() + SAYS_S
            while waiting.poll() is None and not said.stat().st_size:
                if time.monotonic() > end:
                    raise Broken(f"./weft waits for {SAYS_S:g} s, and does not say for what")
                time.sleep(0.05)
            return "lock held"
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
            waiting.terminate()
            waiting.wait()


PREPARED: tuple[Callable[[Trial], str], ...] = (
    _links, _links, _umask, _foreign_record, _full_disk, _full_disk, _foreign_cache, _held_lock,
)  # fmt: skip
