"""What the tests of the emulated world share: a mark, worlds without forwarding, looking around."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft.base.effort import start_time
from weft.topo.clos import Topology
from weft.topo.interfaces import switch_interfaces
from weft.topo.worlds.emulated.namespaces import read_counters
from weft.topo.worlds.emulated.runs import RUNS, read_record
from weft.topo.worlds.emulated.world import EmulatedWorld

LACKING = [
    *(["root"] if os.geteuid() != 0 else []),
    *(tool for tool in ("ip", "tc", "mnexec", "setpriv", "tcpdump") if shutil.which(tool) is None),
]
needs_machine = pytest.mark.skipif(
    bool(LACKING), reason=f"the emulated world needs {', '.join(LACKING)}"
)


def quiet_world(topology: Topology, **options: Any) -> EmulatedWorld:
    """A world whose switches do nothing."""
    return EmulatedWorld(
        topology, switch_module="tests.support.stand_in_switch", ready_limit_s=120.0, **options
    )


def machine_interfaces() -> set[str]:
    """The interfaces in the machine's own namespace."""
    return set(os.listdir("/sys/class/net"))


def network_namespaces() -> set[int]:
    """The network namespaces that processes are in."""
    found: set[int] = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                found.add(os.stat(f"/proc/{entry}/ns/net").st_ino)
            except OSError:
                continue
    return found


def run_folders() -> set[str]:
    """The folders of runs, dead or alive, but for those of another testbed that runs beside."""
    folders = RUNS.iterdir() if RUNS.is_dir() else ()
    return {folder.name for folder in folders if not _is_anothers(folder)}


def _is_anothers(folder: Path) -> bool:
    """Whether a run's runner is alive, and neither this process nor begun by it."""
    runner, _ = read_record(folder)
    if runner is None or not runner.is_alive():
        return False
    pid = runner.pid
    while pid not in (0, os.getpid()):
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return pid == 0


def is_alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    return start_time(pid) is not None


def outer_pid(inner: int, beside: int) -> int:
    """The machine's id of the process that has such an id in the PID namespace of another."""
    namespace = os.stat(f"/proc/{beside}/ns/pid").st_ino
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{entry}/ns/pid").st_ino == namespace:
                status = Path(f"/proc/{entry}/status").read_text()
                (ids,) = (line for line in status.splitlines() if line.startswith("NSpid:"))
                if int(ids.split()[-1]) == inner:
                    return int(entry)
        except OSError:
            continue
    raise ProcessLookupError(f"no process {inner} beside {beside}")


def wait_until(condition: Callable[[], bool], what: str, deadline_s: float = 120.0) -> None:
    """Poll until the condition holds; fails the test after the deadline."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"not within {deadline_s} s: {what}")
        time.sleep(0.01)


def inside(pid: int, *command: str) -> str:
    """What a command prints in the namespace of a process."""
    return subprocess.run(
        ["mnexec", "-a", str(pid), *command], capture_output=True, text=True, check=True
    ).stdout


def host_counters(world: EmulatedWorld, rank: int) -> dict[str, int]:
    """Return what the kernel counted at a host's interface."""
    return read_counters(world.host_pid(rank))[world.host_interface(rank)]


def switch_counters(world: EmulatedWorld) -> dict[tuple[str, int], dict[str, int]]:
    """Return what the kernel counted at each switch end of a link, by switch and port; patch links
    are not the kernel's."""
    counters = read_counters(world.namespace_pid)
    return {
        (port.node, port.number): counters[name]
        for port, name in switch_interfaces(world.topology, world.links)
    }
