"""What tests of engine share with others."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.support.engine_programs import router

from weft.switch.engine.control.entities import (
    ActionCall,
    Exact,
    GroupTarget,
    Lpm,
    MemberTarget,
    MulticastGroup,
    ProfileGroup,
    ProfileMember,
    Replica,
    TableEntry,
)
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.switches import Dataplane, Queue

MBIT100 = 100_000_000


def checksum(header: bytes) -> int:
    total: int = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packet(destination: str, *, source_port: int = 1, ttl: int = 9, size: int = 100) -> bytes:
    """An Ethernet frame of ``size`` bytes with IPv4 and UDP."""
    address = bytes(map(int, destination.split(".")))
    ip = struct.pack(">BBHHHBBH", 0x45, 0, size - 14, 7, 0, ttl, 17, 0) + b"\x0a\0\0\1" + address
    ip = ip[:10] + struct.pack(">H", checksum(ip)) + ip[12:]
    udp = struct.pack(">HHHH", source_port, 4791, size - 34, 0)
    head = b"\2\0\0\0\0\2" + b"\2\0\0\0\0\1" + b"\x08\x00" + ip + udp
    return head + bytes(i & 0xFF for i in range(size - len(head)))


def make(
    queue: Queue | None = None, *, switches: int = 1, seed: int = 1, plain: bool = False
) -> Dataplane:
    dataplane = Dataplane(switches, 8, packets=256, seed=seed, plain=plain)
    for switch in range(switches):
        for port in range(1, 5):
            dataplane.set_port(switch, port, queue or Queue())
    return dataplane


def configure(dataplane: Dataplane, switch: int = 0) -> SwitchControl:
    """The router with 10.1/16 to port 2, 10.2/16 over ports 2, 3, 4, and group 7 = 1 to 4."""
    control = dataplane.control(switch)
    control.load_program(router(), load="save")
    control.commit_program()
    for port in (2, 3, 4):
        call = ActionCall("forward", (port, 0x020000000000 + port))
        control.insert_member(ProfileMember("ecmp", port, call))
    control.insert_group(ProfileGroup("ecmp", 1, ((2, 1), (3, 2), (4, 1))))
    control.insert_entry(TableEntry("route", (Lpm(0x0A010000, 16),), MemberTarget(2)))
    control.insert_entry(TableEntry("route", (Lpm(0x0A020000, 16),), GroupTarget(1)))
    control.insert_entry(
        TableEntry("multicast", (Exact(0xEF000001),), ActionCall("replicate", (7,)))
    )
    control.insert_replication(MulticastGroup(7, tuple(map(Replica, (1, 2, 3, 4)))))
    control.publish()
    return control


def free(dataplane: Dataplane) -> tuple[int, int]:
    return int(dataplane.context.free_buffer_count), int(dataplane.context.free_packet_count)


SOURCE = Path(__file__).resolve().parents[1] / "programs" / "objects.p4"


CPU_PORT = 7


def frame(destination: int, source: int, kind: int = 0, size: int = 14) -> bytes:
    head = destination.to_bytes(6, "big") + source.to_bytes(6, "big") + kind.to_bytes(2, "big")
    return head + bytes(size - 14)


def colours(data: bytes) -> tuple[int, int, int, int]:
    """Of the packet meter, the byte meter and the direct meter; and whether the value set had it:
    the program writes them to the source address."""
    word = int.from_bytes(data[6:12], "big")
    return word >> 8 & 3, word >> 10 & 3, word >> 12 & 255, word >> 20 & 1
