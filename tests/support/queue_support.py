"""A switch with queues for priorities at its ports, and frames that say theirs."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.compiler_support import compiled

from weft.switch.engine.control.entities import MulticastGroup, Replica
from weft.switch.engine.switches import Dataplane, Queue

PORT, RATE_BPS = 2, 1_000_000_000
EGRESS = "hdr.h.before = (bit<16>)sm.enq_qdepth; hdr.h.behind = (bit<16>)sm.deq_qdepth;"


@cache
def program() -> str:
    """Frames say their priority, and a group if they are to be copied; egress writes how many
    packets there were in the queue when they came and when they left."""
    with TemporaryDirectory() as folder:
        return compiled(
            Path(folder),
            types="header h_t { bit<8> priority; bit<8> group; bit<16> number; bit<16> before; "
            "bit<16> behind; }",
            ingress=f"sm.egress_spec = {PORT}; sm.priority = (bit<3>)hdr.h.priority; "
            "sm.mcast_grp = (bit<16>)hdr.h.group;",
            egress=EGRESS,
        ).bmv2_json


def switch(queues: int, queue: Queue = Queue(RATE_BPS)) -> Dataplane:  # noqa: B008
    dataplane = Dataplane(1, 4, plain=True, priority_queues=queues)
    for port in (1, PORT):
        dataplane.set_port(0, port, queue)
    control = dataplane.control(0, "s1")
    control.load_program(program(), load="save")
    control.commit_program()
    control.insert_replication(MulticastGroup(1, (Replica(1, 0), Replica(PORT, 5))))
    control.publish()
    dataplane.keep = control  # type: ignore[attr-defined]
    return dataplane


def frame(priority: int, number: int, size: int = 100, group: int = 0) -> bytes:
    return struct.pack(">BBHHH", priority, group, number, 0, 0) + bytes(size - 8)


@dataclass(frozen=True)
class Arrival:
    at_ns: int
    priority: int
    size: int
