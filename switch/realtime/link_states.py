"""Which ports are up: the kernel's notices of interfaces (rtnetlink(7)), and failed patch links.

A port is up while its interface is set up and has a carrier. The packet loop does not need to know;
the P4Runtime server does, for members of groups that watch a port. A port whose interface is
deleted, or moved to another namespace, is down until there is one of that name again. If somebody
gives an interface a queueing discipline that limits it, the port is told to keep its queue itself.
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
from weft.base.rtnetlink import NLMSG_DONE, NLMSG_ERROR, messages, request, text
from weft.switch.realtime.process import SwitchProcess

RTMGRP_LINK = 1
RTMGRP_TC = 8
RTM_NEWLINK = 16
RTM_DELLINK = 17
RTM_GETLINK = 18
RTM_NEWQDISC = 36
RTM_DELQDISC = 37
IFLA_IFNAME = 3
IFLA_QDISC = 6
IFF_UP = 1
IFF_LOWER_UP = 0x10000
RECEIVE_BYTES = 1 << 18
UNLIMITED = {"", "noop", "noqueue", "mq", "pfifo_fast", "fq", "fq_codel"}
"""The queueing disciplines that interfaces have by default, which do not slow them down."""

_LINK = struct.Struct("=BxHiII")

PortListener = Callable[[int, bool], None]
"""A function that is called with a port and whether it is up, in a thread of its own."""


@dataclass(frozen=True)
class LinkChange:
    """How an interface is, or that it has gone from this namespace."""

    index: int
    name: str
    there: bool
    up: bool
    queueing: str = ""
    """The queueing discipline of what it sends; empty if that was not said."""


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
        self._asked = self._ask_again = False
        self._left: set[int] = set()
        """The numbers of the switches that have ended: of their ports nothing is told."""
        process.on_link = self._tell
        self._kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._kernel.bind((0, RTMGRP_LINK | RTMGRP_TC))
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
        """Have the kernel say how all interfaces are; it can be asked once at a time."""
        if self._asked:
            self._ask_again = True
            return
        self._asked, self._ask_again = True, False
        self._kernel.send(request(RTM_GETLINK, _LINK.pack(socket.AF_UNSPEC, 0, 0, 0, 0)))

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
                self._asked = False
                self._look_for_all()
                self._ask()
                continue
            for change in link_changes(data):
                self._take(change)
            if answered(data):
                self._asked = False
            if queueing_changed(data) or (self._ask_again and not self._asked):
                self._ask()

    def _take(self, change: LinkChange) -> None:
        if change.index in self._there:
            if change.there:
                place = self._there[change.index]
                self._tell(*self._port(place), change.up)
                self._sockets.keep_queue(place, keeps=change.queueing not in UNLIMITED)
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
            self._sockets.keep_queue(place, keeps=change.queueing not in UNLIMITED)
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
    for kind, message in messages(data):
        if kind in (RTM_NEWLINK, RTM_DELLINK) and len(message) >= _LINK.size:
            family, _, index, flags, _ = _LINK.unpack_from(message)
            if family == socket.AF_UNSPEC:  # a bridge tells of its ports in the same words
                running = IFF_UP | IFF_LOWER_UP
                there = kind == RTM_NEWLINK
                attributes = message[_LINK.size :]
                yield LinkChange(
                    index,
                    text(attributes, IFLA_IFNAME),
                    there,
                    there and flags & running == running,
                    text(attributes, IFLA_QDISC),
                )


def queueing_changed(data: bytes) -> bool:
    """Return whether one of rtnetlink's messages tells of a queueing discipline."""
    return any(kind in (RTM_NEWQDISC, RTM_DELQDISC) for kind, _ in messages(data))


def answered(data: bytes) -> bool:
    """Return whether one of rtnetlink's messages ends an answer."""
    return any(kind in (NLMSG_ERROR, NLMSG_DONE) for kind, _ in messages(data))
