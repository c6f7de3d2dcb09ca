"""Frames for the program of the tests of handles, and what it writes into them."""

from __future__ import annotations

from pathlib import Path

import weft

SOURCE = Path(__file__).resolve().parents[1] / "programs" / "handles.p4"
KIND = 0x88B5


def frame(target: int, *, source: int = 7) -> bytes:
    head = target.to_bytes(6, "big") + source.to_bytes(6, "big") + KIND.to_bytes(2, "big")
    return head + bytes(60 - len(head))


def marks(
    net: weft.Net, target: int, host: int, *, count: int = 1
) -> list[tuple[int, int, int, int]]:
    """Send a frame from h0, and return (rid, colour, parsed, length) of each of ``count`` copies
    that come to a host; of 0, what comes within a while."""
    for each in net.hosts:
        each.sniff(timeout=0)
    net.hosts[0].send(frame(target))
    heard = net.hosts[host].sniff(timeout=60 if count else 0.2, count=count)
    mine = [one for one in map(bytes, heard) if one[:6] == target.to_bytes(6, "big")]
    return [(int.from_bytes(one[14:16], "big"), one[16], one[17], len(one)) for one in sorted(mine)]
