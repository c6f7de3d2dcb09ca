"""Aggregation from the outside: packets, a model of one switch, and switches that run fabric.p4.

The model is written from the protocol of the pool, not from the program.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from weft.switch.compiler.driver import compile_cached
from weft.switch.engine.control.entities import (
    ActionCall,
    Exact,
    MulticastGroup,
    Replica,
    TableEntry,
)
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.switches import Dataplane, Queue
from weft.topo.fabric_program import fabric_macros, fabric_program

Values = npt.NDArray[np.int64]

JOB_ADDRESS = 0xEFFF0003
GROUP = 700
VALUES, RESULT, SCATTER, SATURATED = 1, 2, 4, 8
NO_EXPONENT = -32768
LEAST, MOST = -(1 << 31), (1 << 31) - 1
PREFIX = "FabricIngress.aggregation."
ROUNDS = 1 << 48
QUEUE_KEY = 0x57454147


@dataclass(frozen=True)
class Packet:
    """What an aggregation packet says; ``values`` None for a packet without."""

    epoch: int
    round: int
    flags: int = 0
    owner: int = 0
    exponent: int = NO_EXPONENT
    values: tuple[int, ...] | None = None
    source: int = 0x0A000001
    source_mac: int = 0x060000000001
    source_port: int = 0xC123
    immediate: int = 77
    ttl: int = 64


def icrc(datagram: bytes) -> bytes:
    """The ICRC of IPv4 packet ``datagram`` without one (annex A17.3.3)."""
    masked = bytearray(datagram)
    masked[1] = masked[8] = masked[32] = 0xFF
    masked[10:12] = masked[26:28] = b"\xff\xff"
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(masked)))


def internet_checksum(header: bytes) -> int:
    """RFC 1071 over a header that holds its checksum: 0 if that is right."""
    total: int = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def frame_of(packet: Packet) -> bytes:
    """The Ethernet frame of a packet."""
    flags = packet.flags | (0 if packet.values is None else VALUES)
    values = b"" if packet.values is None else np.array(packet.values, ">i4").tobytes()
    transport = struct.pack(
        ">BBHIIIII",
        *(0x65, 0, 0xFFFF, 0xFFFFFF, packet.round & 0xFFFFFF, QUEUE_KEY, 5, packet.immediate),
    )
    transport += struct.pack(
        ">IIBBHhH",
        *(packet.epoch, packet.round & 0xFFFFFFFF, flags, 0),
        *(packet.owner, packet.exponent, packet.round >> 32),
    )
    length = 20 + 8 + len(transport) + len(values) + 4
    ip = bytearray(
        struct.pack(
            ">BBHHHBBHII",
            *(0x45, 0, length, 0, 0x4000, packet.ttl, 17, 0, packet.source, JOB_ADDRESS),
        )
    )
    ip[10:12] = struct.pack(">H", internet_checksum(bytes(ip)))
    udp = struct.pack(">HHHH", packet.source_port, 4791, length - 20, 0)
    datagram = bytes(ip) + udp + transport + values
    destination = 0x01005E000000 | (JOB_ADDRESS & 0x7FFFFF)
    macs = destination.to_bytes(6, "big") + packet.source_mac.to_bytes(6, "big")
    return macs + b"\x08\x00" + datagram + icrc(datagram)


def packet_of(frame: bytes) -> Packet:
    """What a frame says, once all that can be right or wrong about it has been found right."""
    datagram = frame[14:]
    assert struct.unpack(">H", datagram[2:4])[0] == len(datagram), "IP length"
    assert struct.unpack(">H", datagram[24:26])[0] == len(datagram) - 20, "UDP length"
    assert internet_checksum(datagram[:20]) == 0, "IP checksum"
    assert datagram[-4:] == icrc(datagram[:-4]), "ICRC"
    epoch, low, flags, zero, owner, exponent, high = struct.unpack(">IIBBHhH", datagram[52:68])
    values = np.frombuffer(datagram[68:-4], ">i4")
    assert zero == 0 and bool(len(values)) == bool(flags & VALUES)
    packet = Packet(
        epoch,
        high << 32 | low,
        flags & ~VALUES,
        owner,
        exponent,
        tuple(values.tolist()) if len(values) else None,
        struct.unpack(">I", datagram[12:16])[0],
        int.from_bytes(frame[6:12], "big"),
        struct.unpack(">H", datagram[20:22])[0],
        struct.unpack(">I", datagram[48:52])[0],
        datagram[8],
    )
    assert frame_of(packet) == frame, "a field that nothing here changes"
    return packet


@dataclass(frozen=True)
class Place:
    """A switch's part in a job: ports of its children, in their order, and of its parent."""

    children: tuple[int, ...]
    parent: int | None = None
    owners: dict[int, int] = field(default_factory=dict)
    epoch: int = 9
    pool_base: int = 32
    slots: int = 4
    address: int = 0x0AFE0001


@dataclass
class Row:
    """A row of a model's pool."""

    epoch: int = 0
    round: int = 0
    seen: set[int] = field(default_factory=set)
    state: str = "collecting"
    values: Values | None = None
    exponent: int = NO_EXPONENT
    saturated: bool = False


class Model:
    """One switch of an aggregation tree, as the protocol has it."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.rows: dict[int, Row] = {}

    def receive(self, port: int, packet: Packet) -> list[tuple[int, Packet]]:
        """What goes out of which port."""
        place = self.place
        if packet.epoch != place.epoch:
            return []
        row = self.rows.setdefault(packet.round % (2 * place.slots), Row())
        if port in place.children and not packet.flags & RESULT:
            return self.contribution(row, port, packet)
        if port == place.parent and packet.flags & RESULT:
            if (row.epoch, row.round) != (packet.epoch, packet.round) or row.state != "partial":
                return []
            row.values = None if packet.values is None else np.array(packet.values, np.int64)
            row.exponent, row.state = packet.exponent, "final"
            row.saturated = bool(packet.flags & SATURATED)
            return self.down(row, packet, place.children)
        return []

    def contribution(self, row: Row, port: int, packet: Packet) -> list[tuple[int, Packet]]:
        """A packet of a child."""
        place = self.place
        newer = (packet.round - row.round) % ROUNDS
        if row.epoch != place.epoch or 0 < newer < ROUNDS // 2:
            row.__init__(place.epoch, packet.round)  # type: ignore[misc]
        if row.round != packet.round:
            return []
        if row.state == "final":
            return self.down(row, packet, (port,))
        if row.state == "partial":
            return self.up(row, packet)
        child = place.children.index(port)
        if child in row.seen:
            return []
        row.seen.add(child)
        row.exponent = max(row.exponent, packet.exponent)
        if packet.values is not None:
            values = np.array(packet.values, np.int64)
            total = values if row.values is None else row.values + values
            row.values = np.clip(total, LEAST, MOST)
            row.saturated |= bool(packet.flags & SATURATED) or bool((total != row.values).any())
        if len(row.seen) < len(place.children):
            return []
        if place.parent is None:
            row.state = "final"
            return self.down(row, packet, place.children)
        row.state = "partial"
        return self.up(row, packet)

    def made(self, row: Row, packet: Packet, flags: int) -> Packet:
        """What the switch makes of the packet that it was last given."""
        flags |= packet.flags & SCATTER | (SATURATED if row.saturated else 0)
        values = None if row.values is None else tuple(row.values.tolist())
        return replace(
            packet,
            flags=flags,
            exponent=row.exponent,
            values=values,
            source=self.place.address,
            source_mac=0x0200 << 32 | self.place.address,
            ttl=64,
        )

    def up(self, row: Row, packet: Packet) -> list[tuple[int, Packet]]:
        """The partial sum, to the parent."""
        assert self.place.parent is not None
        return [(self.place.parent, self.made(row, packet, 0))]

    def down(self, row: Row, packet: Packet, ports: tuple[int, ...]) -> list[tuple[int, Packet]]:
        """The result, to some children; with SCATTER its values only towards the owner."""
        result = self.made(row, packet, RESULT)
        owner = self.place.owners.get(packet.owner)
        bare = replace(result, values=None)
        scatter = packet.flags & SCATTER
        return [(port, bare if scatter and port != owner else result) for port in ports]


@lru_cache(maxsize=4)
def program(values: int) -> str:
    """The fabric's program for packets of so many values."""
    return compile_cached(fabric_program(), defines=fabric_macros(values)).json.read_text()


class Switches:
    """Switches of one job that run the program."""

    def __init__(
        self,
        places: list[Place],
        values: int,
        *,
        plain: bool = False,
        bmv2_json: str | None = None,
    ) -> None:
        self.program = program(values) if bmv2_json is None else bmv2_json
        ports = 1 + max(max(*place.children, place.parent or 0) for place in places)
        self.dataplane = Dataplane(len(places), ports + 1, packets=256, plain=plain)
        self.controls = [self.configure(i, place) for i, place in enumerate(places)]

    def configure(self, switch: int, place: Place) -> SwitchControl:
        """Load the program and install a switch's entries, as the controller does."""
        for port in range(1, self.dataplane.port_count):
            self.dataplane.set_port(switch, port, Queue())
        control = self.dataplane.control(switch)
        control.load_program(self.program, load="save")
        control.commit_program()
        job = Exact(JOB_ADDRESS)

        def insert(table: str, keys: tuple[Exact, ...], action: str, *params: int) -> None:
            call = ActionCall(PREFIX + action, params)
            control.insert_entry(TableEntry(PREFIX + table, keys, call))

        insert(
            *("aggregation_job", (job,), "job", 3, place.epoch, place.pool_base),
            *(2 * place.slots - 1, (1 << len(place.children)) - 1, int(place.parent is None)),
            *(place.parent or 0, GROUP, place.address),
        )
        for child, port in enumerate(place.children):
            insert("aggregation_port", (job, Exact(port)), "from_child", child)
        if place.parent is not None:
            insert("aggregation_port", (job, Exact(place.parent)), "from_parent")
        for rank, port in place.owners.items():
            insert("aggregation_owner", (job, Exact(rank)), "owner_port", port)
        control.insert_replication(MulticastGroup(GROUP, tuple(map(Replica, place.children))))
        control.publish()
        return control

    def receive(self, switch: int, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """Port and frame of all that goes out when a frame comes in."""
        self.dataplane.receive(switch, port, [frame], 0)
        return [(item.port, item.frame) for item in self.dataplane.transmit(0)]

    def count(self, name: str, switch: int = 0) -> int:
        """A counter of the job, in packets."""
        return self.controls[switch].values.read_counter(PREFIX + name, 3).packets
