"""Frames that are waited for: as many as are expected, however long a busy machine takes."""

from __future__ import annotations

from collections.abc import Callable

from scapy.packet import Packet

import weft
from weft.interface.handles import HostHandle, InterfaceHandle

LOST_S = 60.0
"""After so long what has not come will not come."""


def hear(
    net: weft.Net,
    target: HostHandle | InterfaceHandle,
    wanted: Callable[[Packet], bool],
    count: int = 1,
    quiet_s: float = 0.2,
) -> list[Packet]:
    """The frames that are wanted of those that come to a host or an interface of it, in their
    order: once they are ``count``, and with them any more that come within ``quiet_s``."""
    found: list[Packet] = []
    end = net.now + LOST_S
    while True:
        found += filter(wanted, target.sniff(timeout=quiet_s))
        if len(found) >= count or net.now > end:
            return found
