"""Which ports are up: the kernel's notices of interfaces (rtnetlink(7)), and failed patch links.

A port is up while its interface is set up and has a carrier. The packet loop does not need to know;
the P4Runtime server does, for members of groups that watch a port.
"""

import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence

from weft.switch.realtime.process import SwitchProcess

RTMGRP_LINK = 1
RTM_NEWLINK = 16
RTM_DELLINK = 17
RTM_GETLINK = 18
NLM_F_REQUEST_DUMP = 0x301
IFF_UP = 1
IFF_LOWER_UP = 0x10000
RECEIVE_BYTES = 1 << 18

_HEADER = struct.Struct("=IHHII")
_LINK = struct.Struct("=BxHiII")

PortListener = Callable[[int, bool], None]
"""A function that is called with a port and whether it is up, in a thread of its own."""


class LinkStates:
    """Tell each switch's listener when a port goes down or comes back; all are up at first."""

    def __init__(self, process: SwitchProcess, listeners: Sequence[PortListener]) -> None:
        """Take ``listeners``: one for each switch, in the order of the configuration."""
        self._listeners = listeners
        self._up: dict[tuple[int, int], bool] = {}
        self._ports: dict[int, tuple[int, int]] = {
            socket.if_nametoindex(interface): (number, port)
            for number, port, interface in process.sockets.ports
        }
        process.on_link = self._tell
        self._kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._kernel.bind((0, RTMGRP_LINK))
        self._kernel.setblocking(False)
        self._stop = os.eventfd(0, os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="link states", daemon=True)
        self._ask()
        self._thread.start()

    def close(self) -> None:
        """Tell of no more changes."""
        os.eventfd_write(self._stop, 1)
        self._thread.join()
        self._kernel.close()
        os.close(self._stop)

    def _ask(self) -> None:
        """Have the kernel say how all interfaces are."""
        size = _HEADER.size + _LINK.size
        header = _HEADER.pack(size, RTM_GETLINK, NLM_F_REQUEST_DUMP, 1, 0)
        self._kernel.send(header + _LINK.pack(socket.AF_UNSPEC, 0, 0, 0, 0))

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._kernel, select.POLLIN)
        poll.register(self._stop, select.POLLIN)
        while True:
            if self._stop in [descriptor for descriptor, _ in poll.poll()]:
                return
            try:
                data = self._kernel.recv(RECEIVE_BYTES)
            except BlockingIOError:
                continue
            except OSError:  # notices were lost, as the socket was full
                self._ask()
                continue
            for index, up in link_changes(data):
                if index in self._ports:
                    self._tell(*self._ports[index], up)

    def _tell(self, switch: int, port: int, up: bool) -> None:
        if self._up.get((switch, port), True) != up:
            self._up[switch, port] = up
            self._listeners[switch](port, up)


def link_changes(data: bytes) -> Iterator[tuple[int, bool]]:
    """Yield, from rtnetlink's messages, the index of each interface and whether it is up."""
    at = 0
    while at + _HEADER.size + _LINK.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, at)
        if length < _HEADER.size:
            return
        if kind in (RTM_NEWLINK, RTM_DELLINK) and length >= _HEADER.size + _LINK.size:
            _, _, index, flags, _ = _LINK.unpack_from(data, at + _HEADER.size)
            running = IFF_UP | IFF_LOWER_UP
            yield index, kind == RTM_NEWLINK and flags & running == running
        at += (length + 3) & ~3
