"""A rank and a reduction server on one host: the same results, and no packets between the two."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.datagram_rows import Datagram
from tests.support.memory_network import Faults, MemoryNetwork
from tests.support.own_options import own_of
from tests.support.server_group import FIRST_RANK, ServerGroup

from weft.agents.collectives.agent import Done, Failed, HostAgent
from weft.agents.collectives.communicator import Communicator
from weft.agents.collectives.requests import Request
from weft.agents.collectives.workload import Workload
from weft.agents.datagrams import ipv4
from weft.agents.participant import AgentGroup
from weft.agents.servers import ReductionServer
from weft.agents.transport import CompletionKind, Endpoint, TransportMisuse
from weft.agents.transport.types import RemoteQueuePair
from weft.base.errors import InputError

ALLREDUCE = Request(0, "allreduce", "optcast", 3000, dtype="float32")
SCATTER = Request(0, "reduce-scatter", "optcast", 700, dtype="float32")
ADDRESS = ipv4("10.0.0.1")


@settings(max_examples=12, derandomize=True)
@given(
    size=st.integers(1, 6),
    fewer=st.integers(0, 3),
    fan_in=st.sampled_from([0, 2]),
    loss=st.sampled_from([0.0, 0.02]),
)
def test_results_are_right_with_servers_on_the_ranks_hosts(
    size: int, fewer: int, fan_in: int, loss: float
) -> None:
    servers = max(1, size - fewer)
    if fan_in and -(-size // fan_in) > servers:
        fan_in = 0
    group = ServerGroup(size, servers=servers, on_ranks=True, faults=Faults(loss=loss))
    group.complete(
        *[replace(each, own=own_of("optcast", fan_in=fan_in)) for each in (ALLREDUCE, SCATTER)]
    )
    group.settled()


def test_what_is_on_the_same_host_takes_no_link() -> None:
    """Of each rank's vector 1/P stays where it is, each way."""
    size, count = 4, 40_000
    seen = []

    def watch(datagram: Datagram, receiver: int) -> bool:
        seen.append((datagram.source, receiver, len(datagram.data)))
        return False

    group = ServerGroup(size, servers=size, path_mtu=4096, on_ranks=True, faults=Faults(only=watch))
    group.complete(replace(ALLREDUCE, counts=count))
    assert all(source != receiver for source, receiver, _ in seen)
    sent = sum(length for source, _, length in seen if source == FIRST_RANK)
    least = 2 * (size - 1) / size * 4 * count
    assert least < sent < 1.05 * least


def test_a_dead_host_is_named() -> None:
    group = ServerGroup(4, servers=4, on_ranks=True, rate_bps=50_000_000)
    group.network.faults = Faults(
        loss=1.0, only=lambda datagram, receiver: FIRST_RANK + 2 in (datagram.source, receiver)
    )
    group.start(ALLREDUCE)
    for rank, event in enumerate(group.finish(10**10)):
        assert isinstance(event, Failed)
        assert rank == 2 or "10.0.0.3" in event.error
        assert event.finished_ns <= 3_000_000_000


def test_other_collectives_run_beside_a_server() -> None:
    group = ServerGroup(3, servers=3, on_ranks=True)
    ring = Request(0, "reduce-scatter", "ring", 700, dtype="int32")
    group.complete(ALLREDUCE, ring, SCATTER)
    group.settled()


def test_a_host_of_servers_alone_serves() -> None:
    endpoint = Endpoint(ADDRESS, 256)
    host = AgentGroup(endpoint, [ReductionServer(endpoint)])
    assert (host.address, host.groups, host.due_ns, host.attentive) == (ADDRESS, [], None, False)
    assert host.deadline() is None


def test_agents_that_do_not_share_a_host_are_refused() -> None:
    endpoint, other = Endpoint(ADDRESS, 256), Endpoint(ADDRESS + 1, 256)
    with pytest.raises(InputError, match="share its endpoint"):
        AgentGroup(endpoint, [ReductionServer(other)])


def test_what_comes_for_an_agent_that_has_gone_keeps_nobody_busy() -> None:
    endpoint = Endpoint(ADDRESS, 256)
    one, other = endpoint.create_local(), endpoint.create_local()
    one.connect(other.local)
    other.connect(one.local)
    host = AgentGroup(endpoint)
    one.post_send(b"to one that has gone")
    assert host.due_ns == 0
    host.look_after(0)
    assert host.due_ns is None


def test_local_queue_pairs_complete_in_order_and_check_keys() -> None:
    endpoint = Endpoint(ADDRESS, 256)
    one, other = endpoint.create_local(), endpoint.create_local()
    one.post_send(b"early", context="early")
    assert not endpoint.poll()
    one.connect(other.local)
    other.connect(one.local)
    source = endpoint.register(np.arange(100, dtype=np.uint8))
    target = endpoint.register(np.zeros(100, np.uint8))
    one.post_write(source, 10, 20, target.address + 5, target.rkey, immediate=7, context="write")
    found = [(each.kind, each.qp, each.context) for each in endpoint.poll()]
    assert found == [
        (CompletionKind.SENT, one, "early"),
        (CompletionKind.RECEIVED, other, None),
        (CompletionKind.SENT, one, "write"),
        (CompletionKind.WRITE_WITH_IMMEDIATE, other, None),
    ]
    assert target.buffer[5:25].tolist() == list(range(10, 30))
    one.post_write(source, 0, 100, target.address + 1, target.rkey, immediate=8)
    one.post_send(b"too late")
    assert [each.kind for each in endpoint.poll()] == [CompletionKind.ERROR] * 2
    assert "remote access error" in one.error
    with pytest.raises(TransportMisuse, match="no local queue pair"):
        endpoint.create_local().connect(RemoteQueuePair(ADDRESS, 5, 0))
    with pytest.raises(TransportMisuse, match="connected already"):
        one.connect(other.local)


@pytest.mark.parametrize("algorithm", ["ring", "recursive-doubling", "linear"])
def test_operations_of_one_number_run_in_several_communicators_at_once(algorithm: str) -> None:
    """Each host is a member of both, in another order; nothing of one goes to the other."""
    addresses = [ADDRESS + rank for rank in range(3)]
    endpoints = [Endpoint(address, 256, 10**9, seed=1) for address in addresses]
    groups = [AgentGroup(endpoint) for endpoint in endpoints]
    agents: list[list[HostAgent]] = []
    for order in ([0, 1, 2], [2, 0, 1]):
        members = [addresses[host] for host in order]
        made = [
            Communicator(endpoints[host], rank, members, (), {0, 1, 2} - {rank})
            for rank, host in enumerate(order)
        ]
        for rank, one in enumerate(made):
            told = {
                peer: other.introduction()[rank] for peer, other in enumerate(made) if peer != rank
            }
            one.connect(told)
        agents.append([HostAgent(endpoints[host], made[rank]) for rank, host in enumerate(order)])
        for rank, host in enumerate(order):
            groups[host].add(agents[-1][rank])
    workloads = [Workload(Request(0, "allgather", algorithm, 5000), 3, seed) for seed in (1, 2)]
    buffers = [[workload.buffer(rank) for rank in range(3)] for workload in workloads]
    for each, ours in zip(agents, buffers, strict=True):
        for agent, buffer in zip(each, ours, strict=True):
            agent.start(workloads[0].request, buffer, 0)
    network = MemoryNetwork(groups)
    network.run(
        until=lambda: not any(agent.running for each in agents for agent in each),
        timeout_ns=10**10,
    )
    for workload, each, ours in zip(workloads, agents, buffers, strict=True):
        for rank, (agent, buffer) in enumerate(zip(each, ours, strict=True)):
            assert isinstance(agent.next_event(), Done)
            assert not any(workload.checks(rank, buffer, None))
    groups[0].remove(agents[0][0])
    assert agents[0][0] not in groups[0].parts
    assert not agents[0][0].poll()
