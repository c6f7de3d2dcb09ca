"""Processes by the mark of their trial, and what Weft's runs could leave on a machine.

Nothing is found by its name: other runs, and other attacks, may be on the machine.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from weft.base.effort import start_time
from weft.base.errors import MachineError
from weft.tools.attack.kind import MARK, Broken
from weft.topo.worlds.emulated.cleanup import clean, kill_all
from weft.topo.worlds.emulated.runs import Process

GONE_S = 60.0
"""How long what ends may take to be gone."""


def marked(prefix: str) -> list[Process]:
    """The processes whose mark begins so, but for the calling one; oldest first."""
    wanted = f"{MARK}={prefix}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            environment = Path("/proc", entry, "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if not any(one.startswith(wanted) for one in environment):
            continue
        started = start_time(int(entry))
        if started is not None:
            found.append(Process(int(entry), started, command_line(int(entry))))
    return sorted(found, key=lambda process: (process.started, process.pid))


def command_line(pid: int) -> str:
    """A process's command line; empty if it has ended."""
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""
    return text.replace("\0", " ").strip()


def with_argument(argument: str) -> list[Process]:
    """The processes that have an argument, which has to be one that nobody else would have."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and argument in command_line(int(entry)).split():
            started = start_time(int(entry))
            if started is not None and int(entry) != os.getpid():
                found.append(Process(int(entry), started, command_line(int(entry))))
    return found


def network_namespace(pid: int) -> int | None:
    """The inode of a process's network namespace; None if it has ended."""
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return None


def inside(namespaces: set[int]) -> list[Process]:
    """The processes in network namespaces."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and network_namespace(int(entry)) in namespaces:
            started = start_time(int(entry))
            if started is not None:
                found.append(Process(int(entry), started, command_line(int(entry))))
    return found


def kill_marked(prefix: str) -> None:
    """Kill all processes with such a mark, and remove what runs that this ended left behind."""
    before = marked(prefix)
    kill_all(before)
    kill_all(marked(prefix))  # those that were started meanwhile
    clean_up()


def clean_up() -> None:
    """What ``weft clean`` does. Two at the same time may be in each other's way for a moment."""
    if os.geteuid() != 0:
        return
    end = time.monotonic() + GONE_S
    while True:
        try:
            clean()
            return
        except MachineError as error:
            if time.monotonic() > end:
                raise Broken(f"weft clean: {error}") from None
        time.sleep(0.1)


def wait_until(true: Callable[[], bool], what: str, deadline_s: float = GONE_S) -> None:
    """Poll until it is true; `Broken` after the deadline."""
    end = time.monotonic() + deadline_s
    while not true():
        if time.monotonic() > end:
            raise Broken(f"not within {deadline_s:g} s: {what}")
        time.sleep(0.02)


def interfaces() -> set[str]:
    """The interfaces in the machine's own namespace."""
    with contextlib.suppress(OSError):
        return set(os.listdir("/sys/class/net"))
    return set()
