"""Connections of an endpoint that are made, and named their peers, many at a time: their rows are
written by columns."""

import random
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from weft.agents.transport import layout as at
from weft.agents.transport.congestion.control import CongestionControl
from weft.agents.transport.groups import MulticastGroups, check_group
from weft.agents.transport.posting import Owner, check_word
from weft.agents.transport.queue_pairs import RcQueuePair, UdQueuePair
from weft.agents.transport.types import RemoteQueuePair
from weft.agents.wire.headers import PSN_MASK

_PSNS = (
    "unacknowledged", "send_next", "send_highest", "posted_end", "recovery_end",
    "acknowledge_asked", "round_end",
)  # fmt: skip
"""What is the first PSN at first."""


class Home(Owner, Protocol):
    """An endpoint as its connections are made."""

    congestion: CongestionControl
    draws: random.Random

    @property
    def rows(self) -> npt.NDArray[np.void]:
        """Return the rows of its queue pairs, which are valid until the next one is made."""

    def new_rows(self, kind: int, source_ports: Sequence[int | None], tos: int) -> tuple[int, int]:
        """Return the first of so many rows that follow each other, and its number."""


def make_connections(
    home: Home, source_ports: Sequence[int | None], tos: int, initial_psn: int | None = None
) -> list[RcQueuePair]:
    """Return new queue pairs, one for each source port; their first PSNs are drawn if none is
    given. Nothing but numbers, ports and PSNs tells one from another."""
    index, number = home.new_rows(at.RC, source_ports, tos)
    psns = [home.draws.randrange(1 << 24) for _ in source_ports]
    if initial_psn is not None:
        psns = [initial_psn & PSN_MASK] * len(psns)
    rows = home.rows[index : index + len(psns)]
    for name in _PSNS:
        rows[name] = psns
    rows["timed_psn"] = rows["rewound_at"] = -1
    rows["explore"] = home.state.explore_packets
    first = home.row_of(index)
    first.window = home.congestion.first_window(home.state, first)
    if len(psns) > 1:
        for name in ("window", "control"):
            rows[name][1:] = rows[name][0]
    return [RcQueuePair(home, index + place, number + place, psn) for place, psn in enumerate(psns)]


def make_group_pairs(
    home: Home, groups: MulticastGroups, addresses: Sequence[int], qkey: int,
    source_port: int | None, tos: int,
) -> list[UdQueuePair]:  # fmt: skip
    """Return new queue pairs, one on each of some multicast groups."""
    for address in addresses:
        check_group(address)
    check_word("Q_Key", qkey)
    index, number = home.new_rows(at.UD, [source_port] * len(addresses), tos)
    places = range(index, index + len(addresses))
    rows = home.rows[index : places.stop]
    rows["state"], rows["qkey"], rows["chunks_idle"] = at.READY, qkey, 1
    rows["peer_address"] = addresses
    joined = groups.add(addresses, qkey, places)
    return [
        UdQueuePair(home, place, number + place - index, address, qkey, group)
        for place, address, group in zip(places, addresses, joined, strict=True)
    ]


def connect(home: Home, peers: Sequence[tuple[RcQueuePair, RemoteQueuePair]]) -> None:
    """Name the peers of queue pairs of an endpoint. Raises TransportMisuse if there is one
    already."""
    several = [each for each in peers if type(each[0]) is RcQueuePair and each[0].remote is None]
    places = [pair.row for pair, _ in several]
    columns: dict[str, Any] = {
        "peer_address": [remote.address for _, remote in several],
        "peer_number": [remote.number for _, remote in several],
        "expected": [remote.initial_psn for _, remote in several],
        "state": at.READY,
    }
    for name, values in columns.items():
        home.rows[name][places] = values
    for pair, remote in several:
        pair.remote = remote
        home.changed(pair.row)
    for pair, remote in peers:
        if pair.remote is not remote:
            pair.connect(remote)  # within a host, or a second time
