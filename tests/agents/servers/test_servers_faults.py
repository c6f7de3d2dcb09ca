"""Reduction servers and ranks that die, refuse, or say what makes no sense; lost packets."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.datagram_rows import Datagram
from tests.support.memory_network import Faults
from tests.support.server_group import FIRST_RANK, FIRST_SERVER, ServerGroup

from weft.agents.collectives.agent import Done, Failed
from weft.agents.collectives.control import MAGIC, Control, Kind
from weft.agents.collectives.requests import Request
from weft.agents.servers.server import LINGER_NS
from weft.agents.transport.queue_pairs import RcQueuePair

ALLREDUCE = Request(0, "allreduce", "optcast", 3000, dtype="float32")
SCATTER = Request(0, "reduce-scatter", "optcast", 800, dtype="float32")
TREE = replace(ALLREDUCE, own={"fan_in": 2})
TREE_SCATTER = replace(SCATTER, own={"fan_in": 2})
ALL = pytest.mark.parametrize("request_", [ALLREDUCE, SCATTER, TREE, TREE_SCATTER])

DEAD_PEER_LIMIT_NS = 3_000_000_000
"""Bound on finding out that a member is dead (agent.py), and telling all."""
LOSS_LIMIT_NS = 1_000_000_000


def dies(group: ServerGroup, address: int, at_ns: int) -> None:
    """From some time on a host's link loses everything, both ways."""

    def dead(datagram: Datagram, receiver: int) -> bool:
        return address in (datagram.source, receiver) and group.network.now_ns >= at_ns

    group.network.faults = Faults(loss=1.0, only=dead)


def is_free(group: ServerGroup) -> bool:
    """Whether the servers have given all memory back."""
    return not any(server.used_bytes for server in group.servers)


def duration_ns(request: Request, rate_bps: int) -> int:
    """Of an operation of four ranks on three servers."""
    group = ServerGroup(4, servers=3, rate_bps=rate_bps)
    group.start(request)
    return max(event.finished_ns for event in group.finish())


@ALL
@pytest.mark.parametrize("fault", ["lose", "duplicate", "late"])
def test_anything_may_happen_to_any_single_packet(request_: Request, fault: str) -> None:
    faults = Faults()
    request = replace(request_, counts=100 if request_.collective == "reduce-scatter" else 300)
    ServerGroup(3, servers=2, faults=faults).complete(request)
    packets = faults._number
    assert packets >= 12
    for number in range(packets):
        one = Faults(late_ns=5_000_000, **{fault: {number}})  # type: ignore[arg-type]
        ServerGroup(3, servers=2, faults=one).complete(request, timeout_ns=LOSS_LIMIT_NS)


@ALL
def test_a_server_may_die_at_any_moment(request_: Request) -> None:
    rate_bps, steps = 50_000_000, 6
    whole_ns = duration_ns(request_, rate_bps)
    for step in range(steps + 1):
        at_ns, dead = whole_ns * step // steps, step % 3
        group = ServerGroup(4, servers=3, rate_bps=rate_bps)
        dies(group, FIRST_SERVER + dead, at_ns)
        group.start(request_)
        for event in group.finish(10 * DEAD_PEER_LIMIT_NS):
            if isinstance(event, Failed):
                assert f"server {dead} (10.0.2.{dead + 1})" in event.error
                assert event.finished_ns <= at_ns + DEAD_PEER_LIMIT_NS
            else:
                assert step


@ALL
def test_a_rank_may_die_at_any_moment(request_: Request) -> None:
    rate_bps, steps = 50_000_000, 6
    whole_ns = duration_ns(request_, rate_bps)
    for step in range(steps + 1):
        at_ns, dead = whole_ns * step // steps, step % 4
        group = ServerGroup(4, servers=3, rate_bps=rate_bps)
        dies(group, FIRST_RANK + dead, at_ns)
        group.start(request_)
        for rank, event in enumerate(group.finish(10 * DEAD_PEER_LIMIT_NS)):
            if rank != dead and isinstance(event, Failed):
                assert f"rank {dead} (10.0.0.{dead + 1})" in event.error
                assert event.finished_ns <= at_ns + DEAD_PEER_LIMIT_NS
            else:
                assert step or rank == dead
        group.network.faults = Faults()
        group.network.run(partial(is_free, group), DEAD_PEER_LIMIT_NS + 2 * LINGER_NS)


@ALL
def test_a_dead_rank_does_no_harm_to_another_job(request_: Request) -> None:
    group = ServerGroup(4, 4, servers=3, rate_bps=50_000_000)
    dies(group, FIRST_RANK + 1, 1_000_000)
    group.start(request_)
    group.start(request_, team=1)
    assert all(isinstance(event, Done) for event in group.finish(team=1))
    group.verify(0, team=1)
    assert all(isinstance(event, Failed) for event in group.finish())
    group.complete(request_, team=1)


def test_a_rank_that_never_starts_is_named_at_the_time_limit() -> None:
    group = ServerGroup(4, servers=2)
    ranks = [0, 1, 3]
    group.start(replace(ALLREDUCE, timeout_ns=2_000_000_000), ranks=ranks)
    for event in group.finish(2_100_000_000, ranks=ranks):
        assert isinstance(event, Failed)
        assert "rank 2 (10.0.0.3)" in event.error


@ALL
def test_an_abort_reaches_all_ranks_and_frees_the_servers(request_: Request) -> None:
    group = ServerGroup(5, servers=3, rate_bps=10_000_000)
    group.start(replace(request_, counts=20_000))
    group.network.run(lambda: group.network.now_ns > 5_000_000, 10**9)
    group.teams[0].agents[3].abort("the user asked for it", group.network.now_ns)
    for rank, event in enumerate(group.finish(1_000_000_000)):
        assert isinstance(event, Failed)
        assert "the user asked for it" in event.error
        assert rank == 3 or "rank 3 gave up" in event.error
    group.settled()


def test_what_does_not_fit_in_memory_is_refused_on_every_rank() -> None:
    group = ServerGroup(3, 3, servers=2, memory_bytes=100_000)
    group.start(replace(ALLREDUCE, counts=100_000, own={"block_bytes": 64 * 1024}))
    reasons = set()
    for event in group.finish(1_000_000_000):
        assert isinstance(event, Failed)
        assert "refused operation 0: it needs" in event.error
        assert "of 100000 are free" in event.error
        reasons.add("server 0 (10.0.2.1)" in event.error or "server 1 (10.0.2.2)" in event.error)
    assert reasons == {True}
    group.complete(ALLREDUCE, team=1)
    group.settled()


def test_a_second_job_is_refused_by_itself() -> None:
    group = ServerGroup(3, 3, servers=1, most_operations=1)
    group.start(replace(ALLREDUCE, counts=30_000))
    group.network.run(lambda: group.servers[0].running == 1, 10**9)
    group.start(ALLREDUCE, team=1)
    for event in group.finish(10**9, team=1):
        assert isinstance(event, Failed)
        assert "server 0 (10.0.2.1) refused operation 0: 1 operations are under way" in event.error
    assert all(isinstance(event, Done) for event in group.finish())
    group.verify(0)


def test_a_refusal_by_the_server_of_another_group_ends_a_tree() -> None:
    group = ServerGroup(4, servers=2)
    group.servers[1].memory_bytes = 1000
    group.start(replace(TREE, own={"fan_in": 2, "split": 1}))
    for event in group.finish(1_000_000_000):
        assert isinstance(event, Failed)
        assert "server 1 (10.0.2.2) refused operation 0" in event.error


def say(pair: RcQueuePair, group: ServerGroup, rank: int, said: bytes | int) -> None:
    """A control message, or an RDMA WRITE of nothing with an immediate."""
    if isinstance(said, bytes):
        pair.post_send(said)
        return
    region = group.teams[0].agents[rank].endpoint.register(np.zeros(1, np.uint8))
    pair.post_write(region, 0, 0, 0, 0, immediate=said)


WORD = st.one_of(st.integers(0, 8), st.integers(0, (1 << 32) - 1))
CONTROL = st.builds(
    Control,
    kind=st.sampled_from(list(Kind)),
    operation=st.one_of(st.just(0), st.just(1), WORD),
    rank=WORD,
    address=st.one_of(st.integers(0, 1 << 41), st.integers(0, (1 << 64) - 1)),
    rkey=WORD,
    text=st.text(max_size=20),
    ranges=st.lists(st.tuples(WORD, WORD, WORD), max_size=4).map(tuple),
    data=st.binary(max_size=60),
)
PAYLOAD = st.one_of(
    st.binary(max_size=60),
    st.binary(max_size=60).map(lambda rest: MAGIC.to_bytes(4, "big") + rest),
    CONTROL.map(Control.encode),
)
IMMEDIATE = st.one_of(st.integers(0, 40), st.integers(0, (1 << 32) - 1))


@given(
    request=st.sampled_from([ALLREDUCE, SCATTER, TREE]),
    what=st.lists(
        st.tuples(
            st.integers(0, 3), st.integers(0, 2), st.booleans(), st.one_of(PAYLOAD, IMMEDIATE)
        ),
        min_size=1,
        max_size=4,
    ),
    spoil=st.lists(st.tuples(st.integers(0, 59), st.integers(0, 255)), max_size=3),
)
def test_nothing_that_a_member_says_brings_another_down(
    request: Request,
    what: list[tuple[int, int, bool, bytes | int]],
    spoil: list[tuple[int, int]],
) -> None:
    """And another job on the same servers goes on."""
    group = ServerGroup(4, 2, servers=3, rate_bps=100_000_000)
    group.start(replace(request, timeout_ns=1_000_000_000))
    open_ = Control(Kind.OPEN, 1, data=_terms_of(group)).encode()
    spoiled = bytearray(open_)
    for place, value in spoil:
        spoiled[min(28 + place, len(spoiled) - 1)] = value
    for number, (rank, server, to_server, said) in enumerate(what):
        agent = group.teams[0].agents[rank]
        if to_server:
            pair = agent.communicator.queue_pairs[4 + server]
            say(pair, group, rank, bytes(spoiled) if spoil and not number else said)
        elif isinstance(said, bytes):
            group.servers[server].jobs[0].members.queue_pairs[rank].post_send(said)
    events = group.finish(5_000_000_000)
    if not all(isinstance(event, Done) for event in events):
        assert any(
            isinstance(event, Failed) and ("rank" in event.error or "server" in event.error)
            for event in events
        )
    group.complete(ALLREDUCE, team=1)


def _terms_of(group: ServerGroup) -> bytes:
    operation = group.teams[0].agents[0]._running[0].operation
    terms: bytes = operation._plan.terms.encode()  # type: ignore[attr-defined]
    return terms


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"abc", "control message of 3 bytes"),
        (Control(Kind.READY, 0).encode(), "READY, which does not belong to reduction servers"),
        (Control(Kind.OPEN, 1, data=b"short").encode(), "OPEN with terms of 5 bytes"),
        (Control(Kind.ADMIT, 0).encode(), "ADMIT of operation 0, which was not asked for"),
        (Control(Kind.ABORT, 0, rank=99).encode(), "ABORT by member 99, which does not exist"),
        (9 << 24, "an RDMA WRITE of operation 9, which is not on"),
        (0xFFFFFF, "announced chunk 16777215, which does not exist"),
    ],
)
def test_a_rank_that_breaks_the_protocol_is_named(said: bytes | int, why: str) -> None:
    group = ServerGroup(3, servers=1, rate_bps=10_000_000)
    group.start(replace(ALLREDUCE, counts=20_000))
    server = group.servers[0]
    group.network.run(lambda: server.running == 1, 10**9)
    say(group.teams[0].agents[1].communicator.queue_pairs[3], group, 1, said)
    for event in group.finish(5_000_000_000):
        assert isinstance(event, Failed)
        assert "rank 1 (10.0.0.2) broke the protocol" in event.error
        assert why in event.error


@pytest.mark.parametrize(
    "changes",
    [
        {"op": "max"},
        {"counts": 2999},
        {"own": {"fan_in": 2, "split": 3}},
        {"own": {"block_bytes": 512}},
    ],
)
def test_ranks_that_contradict_each_other_are_told(changes: dict[str, object]) -> None:
    group = ServerGroup(2, servers=1)
    number = group.prepare(ALLREDUCE)
    group.start_on(0, number)
    other = replace(ALLREDUCE, **changes)  # type: ignore[arg-type]
    buffer, output = (np.zeros(sum(other.elements(2)), np.float32) for _ in range(2))
    group.teams[0].agents[1].start(other, buffer, group.network.now_ns, output)
    for event in group.finish(5_000_000_000):
        assert isinstance(event, Failed)
        assert "broke the protocol: OPEN of operation 0 as" in event.error


def test_a_server_that_breaks_the_protocol_is_named() -> None:
    for said, why in (
        (Control(Kind.ADMIT, 0, rkey=1).encode(), "ADMIT a second time"),
        (Control(Kind.WAITING, 0, rank=77).encode(), "WAITING for member 77"),
        (Control(Kind.TOKEN, 0).encode(), "TOKEN, which does not belong"),
    ):
        group = ServerGroup(3, servers=1, rate_bps=10_000_000)
        group.start(replace(ALLREDUCE, counts=20_000))
        while group.network.now_ns < 2_000_000:
            group.network.step()
        group.servers[0].jobs[0].members.queue_pairs[2].post_send(said)
        for event in group.finish(5_000_000_000):
            assert isinstance(event, Failed)
            assert "server 0 (10.0.2.1) broke the protocol" in event.error
            assert why in event.error


def test_a_server_that_answers_with_another_length_than_its_chunk_is_named() -> None:
    group = ServerGroup(4, servers=2, rate_bps=10_000_000)
    group.start(replace(TREE, counts=20_000))
    waiting: list[tuple[int, int, int]] = []

    def a_server_waits_for_another() -> bool:
        for number, server in enumerate(group.servers):
            for operation in server.jobs[0].operations.values():
                for parent, outgoing in operation._outgoing.items():
                    waiting.extend((number, parent, chunk) for chunk in outgoing.unanswered)
        return bool(waiting)

    group.network.run(a_server_waits_for_another, 10**9)
    child, parent, chunk = waiting[0]
    root = group.servers[parent - 4]
    region = root.endpoint.register(np.zeros(1, np.uint8))
    root.jobs[0].members.queue_pairs[4 + child].post_write(region, 0, 0, 0, 0, immediate=chunk)
    for event in group.finish(5_000_000_000):
        assert isinstance(event, Failed)
        assert f"server {parent - 4} (" in event.error
        assert f"an RDMA WRITE of 0 bytes announced chunk {chunk}, which has " in event.error


def test_a_server_waits_for_those_that_have_not_said_where_to_write_or_not_answered() -> None:
    group = ServerGroup(4, servers=2, rate_bps=10_000_000)
    group.start(replace(TREE, counts=20_000), ranks=[0, 1])
    seen: set[int] = set()

    def no_answer_is_due() -> bool:
        for server in group.servers:
            for operation in server.jobs[0].operations.values():
                asked = {each for each, one in operation._outgoing.items() if one.window is None}
                assert asked <= operation.waits_on()
                seen.update(asked)
        return bool(seen)

    group.network.run(no_answer_is_due, 10**9)
    assert seen <= {4, 5}
