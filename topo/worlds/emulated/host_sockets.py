"""Packet sockets in hosts' namespaces, by which scripts send frames and see what comes."""

import errno
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from weft.base.errors import refuse
from weft.switch.realtime.packet_sockets import (
    PACKET_AUXDATA,
    SOL_PACKET,
    open_receiver,
    open_sender,
)
from weft.topo.interfaces import ETHERNET_BYTES
from weft.topo.worlds.emulated.namespaces import in_namespace, run_batch
from weft.topo.worlds.world import Frames

VLAN_VALID = 1 << 4
ADDRESSES_BYTES = 12
_AUXDATA = struct.Struct("=IIIHHHH")
"""A struct tpacket_auxdata (packet(7))."""
FULL = (errno.EAGAIN, errno.ENOBUFS)
"""What a socket says whose own buffer, or whose interface's queue, is full."""
FULL_S = 0.001


class HostSockets(Frames):
    """Two sockets at each interface of a host, as long as somebody hears: one receives, one
    sends."""

    def __init__(self, places: Callable[[], list[tuple[int, str]]], link_mtu: int) -> None:
        """Open nothing yet.

        Args:
            places: returns, by station, a process in the host's namespace, and the interface.
        """
        self._places = places
        self.most_bytes = link_mtu + ETHERNET_BYTES
        self._receivers: list[socket.socket] = []
        self._senders: list[socket.socket] = []
        self._changing = threading.Lock()
        self._users = 0
        """How many threads send or receive frames just now."""

    def mute_hosts(self) -> None:
        """Let hosts' kernels send nothing by themselves: they have no addresses any more."""
        for pid, interface in self._places():
            lines = [f"addr flush dev {interface}", f"link set dev {interface} arp off"]
            in_namespace(pid, partial(run_batch, "ip", lines))

    def _listen(self) -> None:
        for pid, interface in self._places() if not self._receivers else ():
            self._receivers.append(in_namespace(pid, partial(open_receiver, interface)))
            sender = partial(open_sender, interface, bypass_qdisc=False)
            self._senders.append(in_namespace(pid, sender))

    def hush(self) -> None:
        """Hear nothing more. Raises InputError while a thread sends or sniffs."""
        with self._changing:
            refuse(
                self._users,
                "another thread sends or sniffs frames at a host just now: let it come to its end "
                "before a collective begins",
            )
            self.close()

    def close(self) -> None:
        """Hear nothing more, whoever does so now."""
        for each in self._receivers + self._senders:
            each.close()
        self._receivers, self._senders = [], []

    @contextmanager
    def used(self) -> Iterator[None]:
        """Keep the sockets open within the block."""
        with self._changing:
            self._listen()
            self._users += 1
        try:
            yield
        finally:
            with self._changing:
                self._users -= 1

    def send(self, station: int, frame: bytes) -> None:
        """See `Frames.send`."""
        with self.used():
            sender = self._senders[station]
            while True:
                try:
                    sender.send(frame)
                    return
                except OSError as error:
                    if error.errno not in FULL:
                        raise
                    time.sleep(FULL_S)  # the link carries no more

    def sniff(self, station: int, timeout_s: float, count: int) -> list[tuple[float, bytes]]:
        """See `Frames.sniff`."""
        found: list[tuple[float, bytes]] = []
        end = time.monotonic() + timeout_s
        with self.used():
            receiver = self._receivers[station]
            while not count or len(found) < count:
                left = end - time.monotonic()
                if not select.select([receiver], [], [], max(left, 0))[0]:
                    break
                with suppress(BlockingIOError):  # another thread took it
                    found.append((time.time(), _receive(receiver)))
        return found


def _receive(receiver: socket.socket) -> bytes:
    """Return the next frame of a packet socket, with the VLAN tag that the kernel took out of
    it. Raises BlockingIOError if there is none."""
    frame, told, _, _ = receiver.recvmsg(
        1 << 16, socket.CMSG_SPACE(_AUXDATA.size), socket.MSG_DONTWAIT
    )
    for level, kind, data in told:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            status, _, _, _, _, tag, protocol = _AUXDATA.unpack(data[: _AUXDATA.size])
            if status & VLAN_VALID:
                tagged = struct.pack(">HH", protocol, tag)
                return frame[:ADDRESSES_BYTES] + tagged + frame[ADDRESSES_BYTES:]
    return frame
