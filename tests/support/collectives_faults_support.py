"""What tests of collectives faults share with others."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from tests.support.collective_group import EVERY, Group
from tests.support.datagram_rows import Datagram
from tests.support.memory_network import Faults
from tests.support.own_options import own_of

from weft.agents.collectives.names import VECTORS
from weft.agents.collectives.requests import Request
from weft.agents.datagrams import ipv4

LOSS_LIMIT_NS = 1_000_000_000
"""Bound on a small operation that lost some packets: a few retransmission timeouts."""


DEAD_PEER_LIMIT_NS = 3_000_000_000
"""Bound on finding out that a rank or a link is dead (agent.py), and telling all."""


@st.composite
def requests(draw: st.DrawFn, size: int) -> Request:
    """Any request of small size."""
    request = draw(st.sampled_from(EVERY))
    count = st.integers(0, 3000)
    counts: int | tuple[int, ...] = draw(count)
    if request.collective not in ("broadcast", *VECTORS) and draw(st.booleans()):
        counts = draw(st.tuples(*[count] * size))
    return replace(
        request,
        counts=counts,
        dtype=draw(st.sampled_from(["uint8", "int16"])),
        op=draw(st.sampled_from(["sum", "max", "average"])),
        root=draw(st.integers(0, size - 1)),
        own=own_of(
            request.algorithm,
            radix=draw(st.sampled_from([2, 3, 4])),
            chains=draw(st.integers(0, size)),
            workers=draw(st.integers(1, 3)),
            chunk_bytes=draw(st.sampled_from([0, 100, 256, 768])),
            batch=draw(st.sampled_from([1, 4, 128])),
            cutoff=draw(st.sampled_from(["adaptive", "paper", "fetch-only"])),
        ),
    )


def dies(group: Group, rank: int, at_ns: int) -> None:
    """From some time on a host's link loses everything, both ways."""
    host = ipv4("10.0.0.1") + rank

    def dead(datagram: Datagram, receiver: int) -> bool:
        return host in (datagram.source, receiver) and group.network.now_ns >= at_ns

    group.network.faults = Faults(loss=1.0, only=dead)
