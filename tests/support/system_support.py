"""What the whole-system tests share: the command, and what a run could leave on the machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from weft.base.cache import CHECKOUT
from weft.base.progress import Progress
from weft.experiments.results.results import Run
from weft.experiments.runner import run
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.scenario.sweep import Experiment, Point
from weft.topo.worlds.emulated.runs import RUNS, read_record

WEFT = [sys.executable, "-m", "weft"]
ENVIRONMENT = {
    **os.environ, "PYTHONPATH": os.pathsep.join([str(CHECKOUT / "src"), str(CHECKOUT)])
}  # fmt: skip

WORLDS = [
    "simulated",
    pytest.param(
        "emulated",
        marks=[
            pytest.mark.system(alone=False),
            pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
        ],
    ),
]


def weft(*arguments: str, cwd: Path, timeout_s: float = 600) -> subprocess.CompletedProcess[str]:
    """The command run to its end in a folder."""
    return subprocess.run(
        [*WEFT, *arguments],
        cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=timeout_s, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


@dataclass
class Machine:
    """What of a run could be left on the machine. Other runs may be up at the same time."""

    interfaces: set[str] = field(default_factory=lambda: set(os.listdir("/sys/class/net")))
    dead_runs: set[str] = field(default_factory=lambda: dead_runs())
    named: set[str] = field(default_factory=lambda: named_namespaces())

    def more_than(self, before: Machine) -> set[str]:
        """What there is now and was not before."""
        return (
            self.interfaces - before.interfaces
            | self.dead_runs - before.dead_runs
            | self.named - before.named
        )


def named_namespaces() -> set[str]:
    """The network namespaces that ``ip`` knows by name."""
    listing = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return {line.split()[0] for line in listing.stdout.splitlines() if line}


def dead_runs() -> set[str]:
    """Runs that left a folder though their runner has ended."""
    found = set()
    for folder in RUNS.iterdir() if RUNS.exists() else ():
        runner, _ = read_record(folder)
        if folder.exists() and (runner is None or not runner.is_alive()):
            found.add(folder.name)
    return found


def runs_of(pid: int) -> list[str]:
    """The ids of the runs that are on record as a process's."""
    found = []
    for folder in RUNS.iterdir() if RUNS.exists() else ():
        runner, _ = read_record(folder)
        if runner is not None and runner.pid == pid:
            found.append(folder.name.lstrip(".").partition(".")[0])
    return found


@contextmanager
def left_as_it_was() -> Iterator[Machine]:
    """Holds what is done inside to leaving the machine as it was."""
    before = Machine()
    yield before
    wait_until(lambda: not Machine().more_than(before), "the machine to be as it was")


def sent_bytes(pid: int) -> int:
    """What the network interfaces of a process's namespace have sent; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
    except OSError:
        return 0
    return sum(int(line.partition(":")[2].split()[8]) for line in lines)


def wait_until(true: Callable[[], bool], what: str, seconds: float = 120) -> None:
    """Poll until it is true; fails the test after so many seconds."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.02)


def count_frames(file: Path) -> tuple[int, int]:
    """The RoCEv2 packets of a capture, for each of which scapy finds the same ICRC; and IGMP's."""
    from scapy.contrib.roce import BTH
    from scapy.layers.inet import IP, UDP
    from scapy.utils import RawPcapReader

    count = igmp = 0
    for frame, _ in RawPcapReader(str(file)):
        assert frame[12:14] == b"\x08\x00"
        if frame[23] == 2:
            igmp += 1
            continue
        packet = IP(frame[14:])
        assert packet[UDP].dport == 4791
        assert (packet.id, packet.flags, packet[UDP].chksum) == (0, "DF", 0)
        computed = packet[BTH].compute_icrc(bytes(packet[BTH])[:-4])
        assert computed == bytes(packet)[-4:], packet.summary()
        count += 1
    return count, igmp


NETWORK: dict[str, Any] = {"leaves": 2, "spines": 2, "hosts_per_leaf": 2, "predict": False}


UNEQUAL_NUMBERS = {"sizes_bytes": (100_000, 0, 4, 65_536)}
"""Whole numbers of four bytes."""


Options = dict[str, Any]


def on_one_network(
    *points: Options, progress: Progress | None = None, **common: Any
) -> list[list[Run]]:
    """Runs of every point, all on one network that is the same after each of them, and gone."""
    experiment = Experiment(
        tuple(
            Point(Scenario(**{**NETWORK, **common, **point}), number=f"{index + 1}/{len(points)}")
            for index, point in enumerate(points)
        )
    )
    with left_as_it_was():
        results = run(experiment, progress)
    assert not runs_of(os.getpid())
    left = list(results.runs)
    return [[left.pop(0) for _ in point.scenario.algorithms] for point in experiment.points]
