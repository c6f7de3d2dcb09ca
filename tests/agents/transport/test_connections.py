"""Connections that are made together are those that are made one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from weft.agents.datagrams import ipv4
from weft.agents.transport.connections import connect
from weft.agents.transport.endpoint import Endpoint
from weft.agents.transport.types import RemoteQueuePair, TransportMisuse, TransportOptions

HOSTS = [ipv4(f"10.0.0.{number}") for number in range(2, 9)]


@pytest.mark.parametrize("congestion", ["window", "dctcp"])
@pytest.mark.parametrize("alternates", [1, 2])
def test_rows_of_queue_pairs_made_together_are_those_made_one_by_one(
    congestion: str, alternates: int
) -> None:
    options = TransportOptions(congestion=congestion, alternates=alternates, port_seed=7)
    one, other = (Endpoint(ipv4("10.0.0.1"), seed=3, options=options) for _ in range(2))
    alone = [one.create_rc_to(host) for host in HOSTS]
    together = other.create_rcs_to(HOSTS)
    assert [pair.local for pair in alone] == [pair.local for pair in together]
    remotes = [RemoteQueuePair(host, 5 + place, 11) for place, host in enumerate(HOSTS)]
    for pair, remote in zip(alone, remotes, strict=True):
        pair.connect(remote)
    connect(other, list(zip(together, remotes, strict=True)))
    for name in one.rows.dtype.names or ():
        if name != "ports":  # which are addresses
            np.testing.assert_array_equal(one.rows[name], other.rows[name], err_msg=name)
    assert [pair.remote for pair in together] == remotes
    assert one.state.changed == other.state.changed


def test_a_queue_pair_is_not_connected_twice() -> None:
    endpoint = Endpoint(ipv4("10.0.0.1"))
    pairs = endpoint.create_rcs_to(HOSTS)
    remotes = [RemoteQueuePair(host, 5, 11) for host in HOSTS]
    connect(endpoint, list(zip(pairs, remotes, strict=True)))
    with pytest.raises(TransportMisuse, match="is connected to"):
        connect(endpoint, [(pairs[0], RemoteQueuePair(HOSTS[0], 6, 11))])


def test_none_are_made_for_no_hosts() -> None:
    endpoint = Endpoint(ipv4("10.0.0.1"))
    assert endpoint.create_rcs_to([]) == []
    connect(endpoint, [])
