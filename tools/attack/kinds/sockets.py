"""Garbage at the Unix sockets of a testbed that is up: it works on."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from random import Random

from weft.tools.attack.kind import Broken, Trial
from weft.tools.attack.mutations import ODD
from weft.tools.attack.processes import wait_until
from weft.tools.attack.weft_process import WeftProcess

SHARE = 1.0
DEADLINE_S = 420.0
NEEDS_ROOT = True

UP_S = 180.0
ANSWER_S = 60.0
WORDS = (
    "reset", "loads", "rates", "link", "trace", "captures", "start", "take", "end", "up", "down",
    "leaf0", "leaf1", "spine0", "h0", "0", "1", "2", "3", "-1", "9", "1000", "1000000", "1e9",
    str(1 << 31), str(1 << 63), str(1 << 70), "0x1", "",
)  # fmt: skip
SENSIBLE = (
    "link leaf0 1 down", "link leaf0 3 down", "link leaf0 99 up", "link spine0 -1 down",
    "link nobody 1 down", "rates leaf0 1 0", "rates leaf0 99 1000000", "rates leaf0 1 -5",
    "loads -1 0", "loads 0 -1", "loads 0 1", "trace leaf0 start -1", "trace leaf0 take",
    "trace leaf9 end", "captures end", "reset",
)  # fmt: skip


def attack(trial: Trial) -> str:
    """Send garbage, and look whether the testbed still forwards and ends well."""
    random = trial.random
    options = ["--links", "patch"] if trial.chance(0.5) else []
    weft = WeftProcess(trial, "up", "--leaves", "2", "--hosts-per-leaf", "1", *options, speaks=True)
    try:
        wait_until(lambda: _is_up(weft) or not weft.runs(), "the testbed to be up", UP_S)
        sockets = [path for folder in weft.folders() for path in _sockets(folder)]
        if not sockets:
            raise Broken(f"the testbed has no sockets{weft.said()}")
        for _ in range(random.randint(1, 30)):
            path = random.choice([*sockets, *_statistics(sockets) * 3])
            data = _request(random)
            trial.note(f"to {path.name}: {data[:80]!r}")
            _send(path, data, trial.chance(0.3))
        for path in _statistics(sockets):
            if not _send(path, b"\n", False):
                raise Broken(f"{path.name} answers no more{weft.said()}")
        weft.stdin.write(b"h0 ping -c 3 -i 0.2 -W 5 h0\nlinks\ncounters leaf0\n")
        weft.stdin.close()
        status = weft.wait("the end of its input")
        weft.check_speech()
        weft.check_nothing_left()
        if status != 0:
            raise Broken(f"status {status}{weft.said()}")
        if " received" not in weft.output or "leaf0-spine0 is up" not in weft.output:
            raise Broken(f"the prompt does not answer any more{weft.said()}")
        return "works on"
    finally:
        weft.kill()


def _is_up(weft: WeftProcess) -> bool:
    weft.look()
    return any((folder / "testbed.json").exists() for folder in weft.folders())


def _sockets(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(path.lstat().st_mode):
                yield path


def _statistics(sockets: list[Path]) -> list[Path]:
    return [path for path in sockets if "stat" in path.name]


def _request(random: Random) -> bytes:
    match random.randrange(4):
        case 0:
            return os.fsencode(random.choice(SENSIBLE)) + b"\n"
        case 1 | 2:
            words = random.choices([*WORDS, *ODD], k=random.randint(1, 6))
            return " ".join(words).encode(errors="replace") + b"\n"
        case _:
            return random.randbytes(random.choice([0, 1, 100, 70_000]))


def _send(path: Path, data: bytes, vanish: bool) -> bool:
    """Send, and read the answer unless it is not waited for; whether there was one."""
    with socket.socket(socket.AF_UNIX) as connection, contextlib.suppress(OSError):
        connection.settimeout(ANSWER_S)
        connection.connect(str(path))
        connection.sendall(data)
        if vanish:
            return False
        connection.shutdown(socket.SHUT_WR)
        answered = False
        while connection.recv(65536):
            answered = True
        return answered
    return False
