"""Aggregation in a tree of switches, as a plain model, and hosts joined by it in virtual time.

Written from the protocol's rules alone, one packet at a time on Python's integers: what a P4
program and the hosts' compiled code must agree with.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.support.datagram_rows import Datagram, batch_of
from tests.support.memory_network import Faults, Host, MemoryNetwork
from tests.support.rocev2_packet import MalformedPacket, Packet

from weft.agents.datagrams import ipv4
from weft.agents.wire.headers import Opcode

QKEY = 0x57454147
VALUES, RESULT, SCATTER, SATURATED = 1, 2, 4, 8
NONE = -32768
PARENT = -1
"""The port towards the root."""
LEAST, MOST = -(1 << 31), (1 << 31) - 1
JOB_ADDRESS = ipv4("239.255.0.1")


@dataclass(frozen=True)
class Header:
    """An aggregation header and the values behind it."""

    epoch: int
    round: int
    flags: int
    owner: int
    exponent: int
    values: tuple[int, ...] | None

    @staticmethod
    def decode(payload: bytes, count: int) -> Header:
        """MalformedPacket for bytes that are none, or with another number of values."""
        if len(payload) not in (16, 16 + 4 * count):
            raise MalformedPacket(f"{len(payload)} bytes")
        epoch, low, flags, zero, owner, exponent, high = struct.unpack_from(">IIBBHhH", payload)
        values = struct.unpack(f">{count}i", payload[16:]) if len(payload) > 16 else None
        if (values is not None) != bool(flags & VALUES) or zero:
            raise MalformedPacket(f"flags {flags}, reserved {zero}")
        return Header(epoch, high << 32 | low, flags, owner, exponent, values)

    def encode(self) -> bytes:
        values = self.values or ()
        return struct.pack(
            f">IIBBHhH{len(values)}i", self.epoch, self.round & 0xFFFFFFFF, self.flags, 0,
            self.owner, self.exponent, self.round >> 32, *values,
        )  # fmt: skip


@dataclass
class Row:
    """One register row of a switch."""

    epoch: int
    round: int
    seen: set[int] = field(default_factory=set)
    values: list[int] | None = None
    exponent: int = NONE
    flags: int = 0
    owner: int = 0
    complete: bool = False
    final: bool = False


@dataclass(frozen=True)
class Job:
    """A switch's entries of one job."""

    epoch: int
    pool_base: int
    slots: int
    values: int
    children: int
    is_root: bool
    owners: dict[int, int]
    """The child through which each rank is reached."""
    was_moved: bool = False
    """Whether it has come from other switches: what these had added is added once more."""


class Switch:
    """Registers, and the jobs by their addresses."""

    def __init__(self, address: int, jobs: dict[int, Job]) -> None:
        self.address = address
        self.jobs = jobs
        self.rows: dict[int, Row] = {}
        self.late = 0
        self.duplicates = 0
        self.damaged = 0
        self.added = 0
        """Contributions that went into a row."""

    def receive(self, port: int, datagram: Datagram) -> list[tuple[int, Datagram]]:
        """Take a packet that came in at a child's number or PARENT; what leaves, and where."""
        job = self.jobs.get(datagram.destination)
        if job is None:
            return []
        try:
            packet = Packet.decode(
                datagram.data, datagram.source, datagram.destination, datagram.source_port
            )
            header = Header.decode(packet.payload, job.values)
        except MalformedPacket:
            self.damaged += 1
            return []
        if (
            packet.opcode is not Opcode.UD_SEND_ONLY_WITH_IMMEDIATE
            or packet.queue_pair != 0xFFFFFF
            or packet.qkey != QKEY
            or packet.psn != header.round & 0xFFFFFF
            or header.epoch != job.epoch
        ):
            self.damaged += 1
            return []
        number = job.pool_base + (header.round & (2 * job.slots - 1))
        row = self.rows.get(number)
        if port == PARENT:
            outs = self._down(job, row, header)
        else:
            outs = self._up(job, number, row, port, header)
        return [
            (out, self._packet(datagram.destination, packet.immediate, answer))
            for out, answer in outs
        ]

    def _up(
        self, job: Job, number: int, row: Row | None, child: int, header: Header
    ) -> list[tuple[int, Header]]:
        newer = False
        if row is not None and row.epoch == job.epoch:
            distance = (header.round - row.round) & 0xFFFFFFFFFFFF
            newer = 0 < distance < 1 << 47
            if distance >= 1 << 47:
                self.late += 1
                return []
        if newer:
            assert row is not None
            assert row.final or job.was_moved, (
                "a worker sent a round before its slot's last was done"
            )
        if row is None or row.epoch != job.epoch or newer:
            row = self.rows[number] = Row(job.epoch, header.round)
        if row.final:
            self.duplicates += 1
            return [(child, self._result(job, row, child))]
        if row.complete:
            self.duplicates += 1
            return [(PARENT, self._partial(row))]
        if child in row.seen:
            self.duplicates += 1
            return []
        self.added += 1
        row.seen.add(child)
        row.exponent = max(row.exponent, header.exponent)
        row.flags |= header.flags & (SCATTER | SATURATED)
        row.owner = header.owner
        if header.values is not None:
            if row.values is None:
                row.values = list(header.values)
            else:
                sums = [a + b for a, b in zip(row.values, header.values, strict=True)]
                row.values = [min(max(total, LEAST), MOST) for total in sums]
                if row.values != sums:
                    row.flags |= SATURATED
        if len(row.seen) < job.children:
            return []
        row.complete = True
        if not job.is_root:
            return [(PARENT, self._partial(row))]
        row.final = True
        return [(each, self._result(job, row, each)) for each in range(job.children)]

    def _down(self, job: Job, row: Row | None, header: Header) -> list[tuple[int, Header]]:
        if (
            not header.flags & RESULT
            or row is None
            or (row.epoch, row.round) != (header.epoch, header.round)
            or not row.complete
            or row.final
        ):
            return []
        row.values = None if header.values is None else list(header.values)
        row.exponent = header.exponent
        row.flags = header.flags & (SCATTER | SATURATED)
        row.final = True
        return [(each, self._result(job, row, each)) for each in range(job.children)]

    def _partial(self, row: Row) -> Header:
        flags = row.flags | (VALUES if row.values is not None else 0)
        values = None if row.values is None else tuple(row.values)
        return Header(row.epoch, row.round, flags, row.owner, row.exponent, values)

    def _result(self, job: Job, row: Row, child: int) -> Header:
        sent = row.values
        if row.flags & SCATTER and job.owners.get(row.owner) != child:
            sent = None
        flags = row.flags | RESULT | (VALUES if sent is not None else 0)
        values = None if sent is None else tuple(sent)
        return Header(row.epoch, row.round, flags, row.owner, row.exponent, values)

    def _packet(self, group: int, immediate: int, header: Header) -> Datagram:
        port = 0xC000
        packet = Packet(
            Opcode.UD_SEND_ONLY_WITH_IMMEDIATE, 0xFFFFFF, header.round & 0xFFFFFF, qkey=QKEY,
            immediate=immediate, payload=header.encode(),
        )  # fmt: skip
        return Datagram(self.address, group, port, 0, packet.encode(self.address, group, port))


@dataclass(frozen=True)
class JobPlan:
    """A job on all hosts of a tree."""

    address: int = JOB_ADDRESS
    epoch: int = 1
    slots: int = 8
    values: int = 4
    pool_base: int = 0
    was_moved: bool = False


@dataclass
class _Place:
    """A switch in its tree."""

    switch: Switch
    parent: int | None
    child_of_parent: int
    children: list[int]
    """Places below, or ranks at a leaf."""
    ranks: set[int]
    is_leaf: bool


class TreeNetwork(MemoryNetwork):
    """Hosts below a tree of switches with so many levels and at most `fan` children each; what is
    not of a job goes straight from host to host.

    Every link of the tree has `rate_bps` and `delay_ns`, and its packets are exposed to `faults`.
    """

    def __init__(
        self,
        hosts: Sequence[Host],
        jobs: Sequence[JobPlan],
        *,
        levels: int = 1,
        fan: int = 0,
        rate_bps: int = 1_000_000_000,
        delay_ns: int = 10_000,
        faults: Faults | None = None,
        keep_trace: bool = False,
    ) -> None:
        super().__init__(
            hosts, rate_bps=rate_bps, delay_ns=delay_ns, faults=faults, keep_trace=keep_trace
        )
        self._jobs = {job.address: job for job in jobs}
        self._places: list[_Place] = []
        self._leaf_of: dict[int, int] = {}
        self._grow(levels, fan or max(2, len(hosts)))
        for place in self._places:
            self.set_jobs(place)
        self._links: dict[tuple[int, int], int] = {}
        """When each link (place, child) or (place, PARENT) is free."""
        self._ingress: list[tuple[int, int, Datagram]] = []
        """What is under way to switches: place, port, datagram; by the receiver of its arrival."""

    @property
    def switches(self) -> list[Switch]:
        return [place.switch for place in self._places]

    def set_jobs(self, place: _Place) -> None:
        """Install the jobs' entries in a switch."""
        owners = {
            rank: number
            for number, child in enumerate(place.children)
            for rank in (
                {child} if place.is_leaf else self._places[child].ranks
            )
        }  # fmt: skip
        place.switch.jobs = {
            job.address: Job(
                job.epoch, job.pool_base, job.slots, job.values, len(place.children),
                place.parent is None, owners, job.was_moved,
            )
            for job in self._jobs.values()
        }  # fmt: skip

    def renew(self, job: JobPlan) -> None:
        """Put a new job in the place of one with the same address, as a controller does."""
        self._jobs[job.address] = job
        for place in self._places:
            self.set_jobs(place)

    def _grow(self, levels: int, fan: int) -> None:
        below = list(range(len(self.hosts)))
        for level in range(levels):
            last = level == levels - 1
            size = len(below) if last else fan
            above = []
            for first in range(0, len(below), size):
                children = below[first : first + size]
                number = len(self._places)
                ranks = set(children)
                if level:
                    ranks = set().union(*(self._places[child].ranks for child in children))
                    for position, child in enumerate(children):
                        self._places[child].parent = number
                        self._places[child].child_of_parent = position
                else:
                    self._leaf_of.update(dict.fromkeys(children, number))
                switch = Switch(ipv4("10.254.0.0") + number + 1, {})
                self._places.append(_Place(switch, None, 0, children, ranks, not level))
                above.append(number)
            below = above

    def _carry(self, sender: int, datagram: Datagram) -> None:
        if datagram.destination not in self._jobs:
            super()._carry(sender, datagram)
            return
        left = max(self.now_ns, self._up_free[sender]) + self._duration(datagram)
        self._up_free[sender] = left
        leaf = self._leaf_of[sender]
        port = self._places[leaf].children.index(sender)
        self._expose(left, leaf, port, datagram)

    def _expose(self, left_ns: int, place: int, port: int, datagram: Datagram) -> None:
        """A packet has left for a switch."""
        for extra_ns, copy in self.faults.copies(datagram, self._places[place].switch.address):
            self._ingress.append((place, port, copy))
            receiver = -len(self._ingress)
            arrival = left_ns + self.delay_ns + extra_ns
            heapq.heappush(self._arrivals, (arrival, self._order, receiver, copy))
            self._order += 1

    def _send(self, place: int, port: int, datagram: Datagram) -> None:
        """A packet leaves a switch by a port."""
        here = self._places[place]
        free = max(self.now_ns, self._links.get((place, port), 0)) + self._duration(datagram)
        self._links[place, port] = free
        if port == PARENT:
            assert here.parent is not None
            self._expose(free, here.parent, here.child_of_parent, datagram)
        elif here.is_leaf:
            host = here.children[port]
            for extra_ns, copy in self.faults.copies(datagram, self.hosts[host].address):
                arrival = free + self.delay_ns + extra_ns
                heapq.heappush(self._arrivals, (arrival, self._order, host, copy))
                self._order += 1
        else:
            self._expose(free, here.children[port], PARENT, datagram)

    def _deliver(self) -> None:
        while self._arrivals and self._arrivals[0][0] <= self.now_ns:
            arrival, _, receiver, datagram = heapq.heappop(self._arrivals)
            self.delivered += 1
            if receiver >= 0:
                if self.keep_trace:
                    self.trace.append((arrival, self.hosts[receiver].address, datagram))
                self.hosts[receiver].receive(batch_of([datagram]), self.now_ns)
                continue
            place, port, datagram = self._ingress[-receiver - 1]
            if self.keep_trace:
                address = self._places[place].switch.address
                self.trace.append((arrival, address, datagram))
            for out, answer in self._places[place].switch.receive(port, datagram):
                self._send(place, out, answer)
