"""Which ports are up: the kernel's notices of interfaces (rtnetlink(7)), and failed patch links.

A port is up while its interface is set up and has a carrier. The packet loop does not need to know;
the P4Runtime server does, for members of groups that watch a port. A port whose interface is
deleted, or moved to another namespace, is down until there is one of that name again.
"""

import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from weft.base.errors import MachineError
from weft.switch.realtime.process import SwitchProcess

RTMGRP_LINK = 1
RTM_NEWLINK = 16
RTM_DELLINK = 17
RTM_GETLINK = 18
NLM_F_REQUEST_DUMP = 0x301
IFLA_IFNAME = 3
IFF_UP = 1
IFF_LOWER_UP = 0x10000
RECEIVE_BYTES = 1 << 18

_HEADER = struct.Struct("=IHHII")
_LINK = struct.Struct("=BxHiII")
_ATTRIBUTE = struct.Struct("=HH")

PortListener = Callable[[int, bool], None]
"""A function that is called with a port and whether it is up, in a thread of its own."""


@dataclass(frozen=True)
class LinkChange:
    """How an interface is, or that it has gone from this namespace."""

    index: int
    name: str
    there: bool
    up: bool


class LinkStates:
    """The states of links: each switch's listener hears when a port goes down or comes back; all
    are up at first.

    What becomes of interfaces is said, too: that one has gone, and that it is there again.
    """

    def __init__(
        self,
        process: SwitchProcess,
        listeners: Sequence[PortListener],
    ) -> None:
        """Take ``listeners``: one for each switch, in the order of the configuration."""
        self._listeners = listeners
        self._say = process.say
        self._sockets = process.sockets
        self._names = [switch.name for switch in process.config.switches]
        self._up: dict[tuple[int, int], bool] = {}
        self._there: dict[int, int] = {}
        """The places among the process's sockets of the ports whose interfaces are there, by the
        interfaces' indices."""
        self._gone: dict[str, int] = {}
        """Those whose interfaces are gone, by the interfaces' names."""
        self._left: set[int] = set()
        """The numbers of the switches that have ended: of their ports nothing is told."""
        process.on_link = self._tell
        self._kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._kernel.bind((0, RTMGRP_LINK))
        self._kernel.setblocking(False)
        for place, (_, _, interface) in enumerate(self._sockets.ports):
            try:
                self._there[socket.if_nametoindex(interface)] = place
            except OSError:  # it has gone since its sockets were opened
                self._lose(place)
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

    def leave(self, switch: int) -> None:
        """Tell no more of a switch's ports."""
        self._left.add(switch)

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
                self._look_for_all()
                self._ask()
                continue
            for change in link_changes(data):
                self._take(change)

    def _take(self, change: LinkChange) -> None:
        if change.index in self._there:
            if change.there:
                self._tell(*self._port(self._there[change.index]), change.up)
            else:
                self._lose(self._there.pop(change.index))
        elif change.there and change.name in self._gone:
            self._find(change)

    def _look_for_all(self) -> None:
        for index, place in list(self._there.items()):
            try:
                socket.if_indextoname(index)
            except OSError:
                del self._there[index]
                self._lose(place)

    def _port(self, place: int) -> tuple[int, int]:
        """Return the numbers of the switch and the port of a place."""
        switch, port, _ = self._sockets.ports[place]
        return switch, port

    def _lose(self, place: int) -> None:
        switch, port, interface = self._sockets.ports[place]
        if switch in self._left:
            return
        self._gone[interface] = place
        self._tell(switch, port, False)
        self._say(
            f"{self._names[switch]}, port {port}: interface {interface!r} is gone from this "
            "namespace; the port goes on when there is one of that name again"
        )

    def _find(self, change: LinkChange) -> None:
        place = self._gone[change.name]
        if self._port(place)[0] in self._left:
            return
        with suppress(MachineError):  # it may be gone again, of which the kernel has told then
            self._sockets.open_anew(place)
            del self._gone[change.name]
            self._there[change.index] = place
            switch, port = self._port(place)
            self._say(
                f"{self._names[switch]}, port {port}: interface {change.name!r} is there again, "
                "and the port goes on"
            )
            self._tell(switch, port, change.up)

    def _tell(self, switch: int, port: int, up: bool) -> None:
        if switch not in self._left and self._up.get((switch, port), True) != up:
            self._up[switch, port] = up
            self._listeners[switch](port, up)


def link_changes(data: bytes) -> Iterator[LinkChange]:
    """Yield what rtnetlink's messages say of interfaces."""
    at = 0
    while at + _HEADER.size + _LINK.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, at)
        if length < _HEADER.size:
            return
        if kind in (RTM_NEWLINK, RTM_DELLINK) and length >= _HEADER.size + _LINK.size:
            family, _, index, flags, _ = _LINK.unpack_from(data, at + _HEADER.size)
            if family == socket.AF_UNSPEC:  # a bridge tells of its ports in the same words
                running = IFF_UP | IFF_LOWER_UP
                there = kind == RTM_NEWLINK
                name = _name(data[at + _HEADER.size + _LINK.size : at + length])
                yield LinkChange(index, name, there, there and flags & running == running)
        at += (length + 3) & ~3


def _name(attributes: bytes) -> str:
    """Return the interface's name among the attributes of a message; empty if it has none."""
    at = 0
    while at + _ATTRIBUTE.size <= len(attributes):
        length, kind = _ATTRIBUTE.unpack_from(attributes, at)
        if length < _ATTRIBUTE.size:
            break
        if kind == IFLA_IFNAME:
            return os.fsdecode(attributes[at + _ATTRIBUTE.size : at + length].rstrip(b"\0"))
        at += (length + 3) & ~3
    return ""
