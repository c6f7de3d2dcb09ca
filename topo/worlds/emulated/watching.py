"""What another process may watch of a network whose switches are built-in ones: what each direction
of its links carries, by the counts of the switches' ports, and how often packets hit their tables.

Every run leaves ``links.json`` in its folder, a testbed or one that measures.
"""

import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from weft.base import documents
from weft.base.errors import InputError, RunError
from weft.base.private_files import open_private
from weft.topo.network import Topology
from weft.topo.worlds.emulated.runs import RUNS, DoubtfulError, read_believed, read_record

FILE = "links.json"
SOCKET = "statistics.sock"
ANSWER_S = 60.0
SORTED_BY = ("link", "load", "queue", "drops")
"""What directions can be sorted by; by figures, the greatest first."""


class Watched(msgspec.Struct, frozen=True):
    """A direction of a link, and where it is counted."""

    name: str
    switch: str
    port: int
    way: str
    """``tx`` or ``rx``: what leaves the port, or what comes in there."""
    rate_bps: int


class WatchedLinks(msgspec.Struct, frozen=True):
    """The links of a run."""

    description: str
    directions: tuple[Watched, ...]


def write_links(topology: Topology, folder: Path) -> None:
    """Write what there is to watch into a run's folder."""
    switches = {switch.name for switch in topology.switches}
    directions = []
    for each in topology.directions:
        leaves = each.source.node in switches
        port = each.source if leaves else each.destination
        if port.node in switches:
            way = "tx" if leaves else "rx"
            watched = Watched(each.name, port.node, port.number, way, each.link.rate_bps)
            directions.append(watched)
    with open_private(folder / FILE, "wb") as file:
        file.write(msgspec.json.encode(WatchedLinks(topology.describe(), tuple(directions))))


@dataclass(frozen=True)
class QueueLoad:
    """What the queue of a priority let go between two readings, and what it dropped so far."""

    priority: int
    bits_per_s: float
    packets_per_s: float
    queue_bytes: int
    queue_peak_bytes: int
    drops: int
    drops_per_s: float


@dataclass(frozen=True)
class Load:
    """What a direction of a link carried between two readings, and what was dropped so far."""

    link: str
    bits_per_s: float
    packets_per_s: float
    load: float
    """The part of the link's own rate."""
    queue_bytes: int
    """What waits for it now."""
    queue_peak_bytes: int
    drops: int
    """What the queue has dropped since the network is up."""
    drops_per_s: float
    lost: int
    """What the link has lost by itself."""
    queues: tuple[QueueLoad, ...] = ()
    """The queues of the port that sends, by priority, if it has several."""

    def to_dict(self) -> dict[str, Any]:
        """Return the figures by their names."""
        return asdict(self)


@dataclass(frozen=True)
class TableLoad:
    """How often packets hit a table between two readings, and since its program was loaded."""

    switch: str
    table: str
    hits_per_s: float
    misses_per_s: float
    hits: int
    misses: int

    def to_dict(self) -> dict[str, Any]:
        """Return the figures by their names."""
        return asdict(self)


@dataclass(frozen=True)
class Reading:
    """What ports and tables had counted at a time."""

    time_s: float
    ports: Mapping[tuple[str, int], Mapping[str, Any]]
    tables: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """The hits and misses of each table with a key, by switch and name."""


class WatchedRun:
    """A run whose links can be watched."""

    def __init__(self, run_id: str, folder: Path, links: WatchedLinks) -> None:
        self.id = run_id
        self.description = links.description
        self.socket = folder / SOCKET
        """Where its switches' process answers."""
        self._directions = links.directions

    def read(self) -> Reading:
        """Return what its switches have counted by now. Raises RunError if they do not answer."""
        answer = bytearray()
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
                asking.settimeout(ANSWER_S)
                asking.connect(str(self.socket))
                asking.shutdown(socket.SHUT_WR)
                while part := asking.recv(1 << 16):
                    answer += part
            told = documents.decoded(dict[str, Any], bytes(answer), "statistics")
        except (OSError, InputError) as error:
            raise RunError(
                f"run {self.id}: its switches do not answer: it is coming up, or has ended"
            ) from error
        ports = {
            (switch["name"], port["port"]): port
            for switch in told["switches"]
            for port in switch["ports"]
        }
        tables = {
            (switch["name"], table): (counted[0], counted[1])
            for switch in told["switches"]
            for table, counted in switch.get("tables", {}).items()
        }
        return Reading(time.monotonic(), ports, tables)

    def loads(self, before: Reading, after: Reading) -> list[Load]:
        """Return what each direction carried between two readings."""
        passed_s = max(after.time_s - before.time_s, 1e-9)
        return [self._load(each, before, after, passed_s) for each in self._directions]

    def _load(self, each: Watched, before: Reading, after: Reading, passed_s: float) -> Load:
        place = each.switch, each.port
        old, new = before.ports[place], after.ports[place]

        def gained(name: str) -> float:
            return float(max(0, new[name] - old[name]) / passed_s)

        bits_per_s = 8 * gained(f"{each.way}_bytes")
        leaves = each.way == "tx"
        return Load(
            each.name,
            round(bits_per_s, 1),
            round(gained(f"{each.way}_packets"), 1),
            round(bits_per_s / each.rate_bps, 4),
            new["queue_bytes"] if leaves else 0,
            new["queue_peak_bytes"] if leaves else 0,
            new["queue_drops"] if leaves else 0,
            round(gained("queue_drops"), 1) if leaves else 0.0,
            new.get("lost_packets" if leaves else "arrived_lost_packets", 0),
            tuple(
                _queue_load(*both, passed_s)
                for both in zip(old.get("queues", ()), new.get("queues", ()), strict=False)
            )
            if leaves
            else (),
        )


def _queue_load(old: Mapping[str, int], new: Mapping[str, int], passed_s: float) -> QueueLoad:
    """Return what a queue let go between two readings."""

    def gained(name: str) -> float:
        return max(0, new[name] - old[name]) / passed_s

    return QueueLoad(
        new["priority"],
        round(8 * gained("taken_bytes"), 1),
        round(gained("taken_packets"), 1),
        new["bytes"],
        new["peak_bytes"],
        new["drops"],
        round(gained("drops"), 1),
    )


def table_loads(before: Reading, after: Reading) -> list[TableLoad]:
    """Return how often packets hit tables between two readings, of those that packets have come to;
    a table whose program has been loaded meanwhile has begun at 0."""
    passed_s = max(after.time_s - before.time_s, 1e-9)
    loads = []
    for (switch, table), (hits, misses) in after.tables.items():
        old_hits, old_misses = before.tables.get((switch, table), (0, 0))
        if hits < old_hits or misses < old_misses:
            old_hits = old_misses = 0
        if hits or misses:
            hits_per_s = round((hits - old_hits) / passed_s, 1)
            misses_per_s = round((misses - old_misses) / passed_s, 1)
            loads.append(TableLoad(switch, table, hits_per_s, misses_per_s, hits, misses))
    return loads


def in_order(loads: Sequence[Load], by: str) -> list[Load]:
    """Return loads in one of the orders of `SORTED_BY`; by name, they stay as they are."""
    figures = {
        "load": lambda each: -each.load,
        "queue": lambda each: -each.queue_bytes,
        "drops": lambda each: (-each.drops_per_s, -each.drops),
    }
    return sorted(loads, key=figures[by]) if by in figures else list(loads)


def _watched_runs(root: Path) -> tuple[list[WatchedRun], list[str]]:
    """Return the runs that can be watched, and a line for each that cannot be read."""
    found, doubts = [], []
    for folder in sorted(root.glob("[!.]*")):
        with suppress(OSError, InputError):  # it is BMv2's, or being taken down
            try:
                runner, _ = read_record(folder)
                if runner is not None and runner.is_alive():
                    links = documents.decoded(WatchedLinks, read_believed(folder / FILE), FILE)
                    found.append(WatchedRun(folder.name, folder, links))
            except PermissionError:
                doubts.append(f"{folder} is another user's: use sudo")
            except DoubtfulError as error:
                doubts.append(str(error))
    return found, doubts


def find_run(run_id: str | None = None, root: Path = RUNS) -> WatchedRun:
    """Return the run with this id, or the only one. Raises InputError if there is none, or if there
    are several and none was named."""
    found, doubts = _watched_runs(root)
    named = [each for each in found if run_id in (None, each.id)]
    if len(named) == 1:
        return named[0]
    lines = "".join(f"\n  --run {each.id}  {each.description}" for each in found)
    said = f"up are:{lines}" if found else "no network of built-in switches is up"
    asked = "which run" if run_id is None else f"run {run_id!r}"
    raise InputError("\n".join([f"{asked}: {said}", *doubts]))
