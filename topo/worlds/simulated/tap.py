"""The frames that arrive at hosts of the simulated world, for whoever wants to see them.

The event loop writes them into a bounded ring (`weft.switch.engine.dataplane.captures`), from which
they are taken while it rests.
"""

from dataclasses import dataclass

import numpy as np

from weft.base.errors import refuse
from weft.switch.engine.dataplane.captures import SKIP, CaptureRing
from weft.topo.worlds.simulated.fabric import Fabric
from weft.topo.worlds.world import Frames

RING_BYTES = 16 << 20
SLICES = 64
"""In how many slices of time is looked for frames, where some number of them is waited for."""


@dataclass(frozen=True)
class ArrivedFrame:
    """A frame that has arrived at a host."""

    time_ns: int
    """The virtual time at which it arrived."""
    frame: bytes


class HostTap:
    """A capture of what arrives at hosts, from the time when it is made until it is closed. A
    fabric has one tap at most."""

    def __init__(self, fabric: Fabric, ring_bytes: int = RING_BYTES) -> None:
        self._fabric = fabric
        hosts = len(fabric.hosts)
        self._records = np.zeros(ring_bytes // 8, np.int64)
        self._counts = np.zeros((hosts, 2), np.int64)
        self._ring = CaptureRing.zeroed(
            words=len(self._records),
            records=self._records.ctypes.data,
            counts=self._counts.ctypes.data,
            files=hosts,
        )
        fabric.dataplane.context.capture = self._ring.location
        fabric.hosts["captured"] = 1
        self._arrived: list[list[ArrivedFrame]] = [[] for _ in range(hosts)]

    def take(self, station: int) -> list[ArrivedFrame]:
        """Return the frames that have arrived at an interface of a host, which is given by its
        number (`Topology.stations`), since this was last called, in order.

        Raises InputError if so many arrived at all hosts at a time that the ring had no room.
        """
        self._drain()
        lost = int(self._counts[station, 1])
        self._counts[station, 1] = 0
        taken, self._arrived[station] = self._arrived[station], []
        host, interface = self._fabric.topology.stations[station]
        refuse(
            lost,
            f"{host.name}, interface {interface.number}: {lost} frames found no room in the ring "
            f"of {self._ring.words * 8} bytes: take them more often",
        )
        return taken

    def _drain(self) -> None:
        ring, size = self._ring, len(self._records)
        data = self._records.view(np.uint8)
        position = int(ring.tail)
        while position < ring.head:
            at = position % size
            first = int(self._records[at])
            if first == SKIP:
                position += size - at
                continue
            length, host = first & 0xFFFFFFFF, first >> 32
            start = (at + 2) * 8
            frame = data[start : start + length].tobytes()
            self._arrived[host].append(ArrivedFrame(int(self._records[at + 1]), frame))
            position += 2 + (length + 7) // 8
        ring.tail = position

    def close(self) -> None:
        """End the capture."""
        self._fabric.hosts["captured"] = 0
        self._fabric.dataplane.context.capture = 0


def go_on_to(fabric: Fabric, time_ns: int) -> None:
    """Let virtual time pass, up to this one."""
    fabric.run(stop_ns=time_ns)
    fabric.advance_to(time_ns)


class TappedFrames(Frames):
    """Frames that scripts put on hosts' links, and those that a tap shows, as long as somebody
    hears. Hosts have no kernels that could send something by themselves."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._tap: HostTap | None = None
        self.most_bytes = fabric.dataplane.frame_bytes

    def close(self) -> None:
        """Hear nothing more."""
        if self._tap is not None:
            self._tap.close()
        self._tap = None

    def _listening(self) -> HostTap:
        if self._tap is None:
            self._tap = HostTap(self._fabric)
        return self._tap

    def send(self, station: int, frame: bytes) -> None:
        """Put a frame on the link of an interface."""
        self._listening()
        topology = self._fabric.topology
        host, interface = topology.stations[station]
        self._fabric.inject(topology.outward(host.name)[interface.number - 1].ends, frame)

    def sniff(self, station: int, timeout_s: float, count: int) -> list[tuple[float, bytes]]:
        """See `Frames.sniff`; time passes meanwhile."""
        tap = self._listening()
        begin_ns, timeout_ns = self._fabric.now_ns, round(timeout_s * 1e9)
        found = tap.take(station)
        for part in range(1, SLICES + 1):
            if count and len(found) >= count:
                break
            go_on_to(self._fabric, begin_ns + timeout_ns * part // SLICES)
            found += tap.take(station)
        return [(each.time_ns / 1e9, each.frame) for each in found]
