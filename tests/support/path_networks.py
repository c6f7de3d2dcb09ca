"""A network whose built-in switches run fabric.p4 in this process, and RoCEv2 packets for it."""

from __future__ import annotations

import struct
from functools import lru_cache

from tests.support.aggregation_support import icrc, internet_checksum
from tests.support.p4runtime_support import FABRIC, Files, compiled

from weft.controller import Controller, Plan
from weft.switch.engine.switches import Dataplane, Queue
from weft.switch.p4runtime.local import LocalSwitch
from weft.topo.clos import Topology

NOT_ECT, ECT_1, ECT_0, CE = range(4)
WRITE_ONLY, ACKNOWLEDGE = 0x0A, 0x11


@lru_cache(maxsize=1)
def own_program() -> Files:
    return compiled(FABRIC)


class Network:
    """All switches of a topology, their controller, and links without delay."""

    def __init__(
        self,
        topology: Topology,
        plan: Plan,
        program: Files | None = None,
        *,
        queue: Queue | None = None,
        plain: bool = False,
        seed: int = 3,
    ) -> None:
        self.topology = topology
        self._numbers = {switch.name: number for number, switch in enumerate(topology.switches)}
        self._far = {(d.source.node, d.source.number): d for d in topology.directions}
        ports = 1 + max(len(topology.outward(name)) for name in self._numbers)
        self.dataplane = Dataplane(len(self._numbers), ports, packets=1024, seed=seed, plain=plain)
        switches = {}
        for name, number in self._numbers.items():
            for direction in topology.outward(name):
                self.dataplane.set_port(number, direction.source.number, queue or Queue())
            control = self.dataplane.control(number, name)
            switches[name] = LocalSwitch(control, topology.switch(name).device_id)
        self.controller = Controller(topology, switches, program or own_program())
        self.controller.apply(plan)

    def carry(self, source: str, frame: bytes) -> tuple[list[str], list[tuple[str, bytes]]]:
        """Send one frame: the directions that it crosses, and what reaches which host."""
        (first,) = self.topology.outward(source)
        crossed: list[str] = []
        received: list[tuple[str, bytes]] = []
        waiting = [(first, frame)]
        while waiting:
            direction, one = waiting.pop(0)
            crossed.append(direction.name)
            here = direction.destination
            if here.node not in self._numbers:
                received.append((here.node, one))
                continue
            self.dataplane.receive(self._numbers[here.node], here.number, [one], 0)
            waiting += [
                (self._far[here.node, departure.port], departure.frame)
                for departure in self.dataplane.transmit(0)
            ]
        return crossed, received

    def path(self, source: str, destination: str, frame: bytes) -> list[str]:
        """The directions that a frame to another host crosses; it must arrive there, once."""
        crossed, received = self.carry(source, frame)
        assert [name for name, _ in received] == [destination], crossed
        (arrived,) = (one for _, one in received)
        assert internet_checksum(arrived[14:34]) == 0
        assert icrc(arrived[14:-4]) == arrived[-4:]
        assert arrived[:6] == self.topology.host(destination).mac.to_bytes(6, "big")
        return crossed


def roce(
    topology: Topology,
    source: str,
    destination: str,
    source_port: int = 0xC000,
    *,
    ecn: int = NOT_ECT,
    opcode: int = WRITE_ONLY,
    psn: int = 0,
    payload: bytes = b"0123456789abcdef",
    udp_port: int = 4791,
) -> bytes:
    """A RoCEv2 frame from a host to another, with a right IPv4 checksum and ICRC."""
    one, other = topology.host(source), topology.host(destination)
    rest = struct.pack(">BBHII", opcode, 0, 0xFFFF, 7, psn) + payload
    udp = struct.pack(">HHHH", source_port, udp_port, 8 + len(rest) + 4, 0)
    size = 20 + len(udp) + len(rest) + 4
    head = struct.pack(">BBHHHBBH", 0x45, ecn, size, 0, 0x4000, 64, 17, 0)
    head += struct.pack(">II", one.address, other.address)
    checksum = internet_checksum(head)
    datagram = head[:10] + struct.pack(">H", checksum) + head[12:] + udp + rest
    macs = topology.leaf_of(source).mac.to_bytes(6, "big") + one.mac.to_bytes(6, "big")
    return macs + b"\x08\x00" + datagram + icrc(datagram)
