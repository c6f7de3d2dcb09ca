"""What a faulty or hostile peer may say, and requests that make no sense: errors with a name, and
never a traceback."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.collective_group import EVERY, Group, name_of

from weft.agents.collectives.agent import MAX_EARLY, Done, Failed
from weft.agents.collectives.control import MAGIC, Control, Kind
from weft.agents.collectives.registry import algorithm_of
from weft.agents.collectives.requests import Request
from weft.agents.transport.queue_pairs import RcQueuePair
from weft.base.errors import InputError

ALL = pytest.mark.parametrize("request_", EVERY, ids=name_of)
RING = Request(0, "allgather", "ring", 600)
MULTICAST = Request(0, "allgather", "multicast", 600)
SIZE = 4
LIMIT_NS = 5_000_000_000


def pair_to(group: Group, sender: int, receiver: int) -> RcQueuePair:
    return group.agents[sender].communicator.queue_pairs[receiver]


def say(group: Group, sender: int, receiver: int, data: bytes) -> None:
    pair_to(group, sender, receiver).post_send(data)


def announce(group: Group, sender: int, receiver: int, immediate: int) -> None:
    """An RDMA WRITE of nothing with immediate."""
    agent = group.agents[sender]
    region = agent.endpoint.register(np.zeros(1, np.uint8))
    pair_to(group, sender, receiver).post_write(region, 0, 0, 0, 0, immediate=immediate)


def outcome(group: Group) -> list[Done | Failed]:
    """How all ranks ended: together well, with the right bytes, or some with a failure."""
    events = group.finish(LIMIT_NS)
    if all(isinstance(event, Done) for event in events):
        return events
    assert any(isinstance(event, Failed) and "rank" in event.error for event in events)
    return events


WORD = st.one_of(st.integers(0, 8), st.integers(0, (1 << 32) - 1))
CONTROL = st.builds(
    Control,
    kind=st.sampled_from(list(Kind)),
    operation=st.one_of(st.just(0), st.just(1), WORD),
    stage=st.integers(0, 255),
    round=st.integers(0, 255),
    rank=WORD,
    address=st.one_of(st.integers(0, 1 << 41), st.integers(0, (1 << 64) - 1)),
    rkey=WORD,
    text=st.text(max_size=20),
    ranges=st.lists(st.tuples(WORD, WORD, WORD), max_size=4).map(tuple),
)
PAYLOAD = st.one_of(
    st.binary(max_size=60),
    st.binary(max_size=60).map(lambda rest: MAGIC.to_bytes(4, "big") + rest),
    CONTROL.map(Control.encode),
)
IMMEDIATE = st.one_of(st.integers(0, 40), st.integers(0, (1 << 32) - 1))
BOUND = replace(RING, timeout_ns=1_000_000_000).timeout_ns
"""What is said may leave a rank waiting, as if the peer were silent: it ends at the time limit."""


@given(
    request=st.sampled_from(EVERY),
    what=st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 3), st.one_of(PAYLOAD, IMMEDIATE)),
        min_size=1,
        max_size=4,
    ),
    early=st.booleans(),
)
def test_nothing_that_a_peer_says_brings_an_agent_down(
    request: Request, what: list[tuple[int, int, bytes | int]], early: bool
) -> None:
    group = Group(SIZE, rate_bps=100_000_000)
    number = group.prepare(replace(request, timeout_ns=BOUND))
    if not early:
        for rank in range(SIZE):
            group.start_on(rank, number)
    for sender, distance, said in what:
        receiver = (sender + distance) % SIZE
        if isinstance(said, bytes):
            say(group, sender, receiver, said)
        else:
            announce(group, sender, receiver, said)
    if early:
        group.network.settle()
        for rank in range(SIZE):
            if group.agents[rank].failure:
                return
        for rank in range(SIZE):
            if not group.agents[rank].failure:
                group.start_on(rank, number)
    outcome(group)


def refused(group: Group, receiver: int, sender: int, why: str) -> None:
    """The receiver fails, names the sender, and says why; so do all that were not done before."""
    for rank, event in enumerate(group.finish(LIMIT_NS)):
        if isinstance(event, Done) and rank != receiver:
            continue
        assert isinstance(event, Failed)
        assert f"rank {sender} (10.0.0.{sender + 1}) broke the protocol" in event.error
        assert why in event.error
        assert rank == receiver or f"rank {receiver} gave up" in event.error


@ALL
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"hello", "control message of 5 bytes"),
        (b"x" * 40, "control message begins with 0x78787878"),
        (MAGIC.to_bytes(4, "big") + b"\xff" * 24, "unknown kind 255"),
        (Control(Kind.FETCH, 0, rank=9).encode(), "FETCH"),
        (Control(Kind.ABORT, 0, rank=9).encode(), "ABORT by rank 9, which does not exist"),
    ],
    ids=["short", "no magic", "unknown kind", "fetch", "abort"],
)
def test_a_message_that_makes_no_sense_ends_the_operation(
    request_: Request, data: bytes, why: str
) -> None:
    group = Group(SIZE, rate_bps=1_000_000)
    group.start(replace(request_, counts=20_000))
    say(group, 3, 1, data)
    refused(group, 1, 3, why)


@pytest.mark.parametrize(
    ("sender", "message", "why"),
    [
        (0, Control(Kind.READY, 0), "READY in a multicast"),
        (2, Control(Kind.ACTIVATE, 0), "ACTIVATE"),
        (0, Control(Kind.HOLD, 0), "HOLD from the wrong neighbour"),
        (0, Control(Kind.HOLD_PART, 0), "HOLD_PART from the wrong neighbour"),
        (2, Control(Kind.FETCH, 0), "FETCH from the wrong neighbour"),
        (2, Control(Kind.FETCHED, 0), "FETCHED from the wrong neighbour"),
        (0, Control(Kind.FETCH, 0, rank=4), "FETCH for rank 4, which does not exist"),
        (2, Control(Kind.TOKEN, 0), "TOKEN"),
        (0, Control(Kind.TOKEN, 0, stage=2), "TOKEN"),
        (0, Control(Kind.TOKEN, 0, round=2), "TOKEN"),
    ],
)
def test_what_does_not_belong_to_a_multicast_operation_ends_it(
    sender: int, message: Control, why: str
) -> None:
    group = Group(SIZE, rate_bps=1_000_000)
    group.start(replace(MULTICAST, counts=20_000))
    say(group, sender, 1, message.encode())
    refused(group, 1, sender, why)


@pytest.mark.parametrize(
    ("sender", "message", "why"),
    [
        (0, Control(Kind.READY, 0), "READY, which does not belong"),
        (2, Control(Kind.READY, 0), "READY a second time"),
        (2, Control(Kind.TOKEN, 0), "TOKEN"),
        (0, Control(Kind.FETCHED, 0), "FETCHED"),
    ],
)
def test_what_does_not_belong_to_an_operation_of_writes_ends_it(
    sender: int, message: Control, why: str
) -> None:
    group = Group(SIZE, rate_bps=1_000_000)
    group.start(replace(RING, counts=20_000))
    say(group, sender, 1, message.encode())
    refused(group, 1, sender, why)


@pytest.mark.parametrize(
    ("request_", "sender", "immediate", "why"),
    [
        (RING, 2, 0, "block 0, which is not due"),
        (RING, 0, 1 << 23, "block 8388608, which is not its writer's"),
        (RING, 0, 8, "block 8, which is not its writer's"),
        (RING, 0, 5 << 24, "an RDMA WRITE of operation 5, which is not on"),
        (MULTICAST, 0, 0, "an RDMA WRITE in a multicast operation"),
        (Request(0, "allgather", "linear", 1), 0, 8, "block 8, which is not its writer's"),
        (Request(0, "allgather", "recursive-doubling", 1), 0, 8, "not its writer's"),
        (Request(0, "broadcast", "binary-tree", 1), 0, 99, "not its writer's"),
        (Request(0, "broadcast", "k-nomial", 1, root=1), 0, 0, "which is not due"),
        (Request(0, "reduce-scatter", "ring", 1), 0, 0, "not its writer's"),
        (Request(0, "reduce-scatter", "recursive-halving", 1), 0, 0, "not its writer's"),
    ],
)
def test_a_write_that_is_not_due_ends_the_operation(
    request_: Request, sender: int, immediate: int, why: str
) -> None:
    group = Group(SIZE, rate_bps=1_000_000)
    group.start(replace(request_, counts=20_000))
    announce(group, sender, 1, immediate)
    refused(group, 1, sender, why)


def test_a_block_announced_twice_ends_the_operation() -> None:
    group = Group(SIZE, rate_bps=1_000_000)
    group.start(replace(RING, counts=20_000))

    def first_block_has_come() -> bool:
        return group.agents[1].report(group.network.now_ns).received_bytes > 0

    group.network.run(first_block_has_come, LIMIT_NS)
    announce(group, 0, 1, 0)
    refused(group, 1, 0, "block 0, which is not due")


def test_a_write_of_another_length_than_its_block_ends_the_operation() -> None:
    group = Group(SIZE, rate_bps=1_000_000)
    group.start(replace(RING, counts=20_000))
    announce(group, 0, 1, 0)
    refused(group, 1, 0, "of 0 bytes announced block 0, which has")


@pytest.mark.parametrize(
    "message",
    [
        Control(Kind.READY, 0, address=1 << 40, rkey=1),
        Control(Kind.READY, 0, address=(1 << 64) - 1, rkey=(1 << 32) - 1),
    ],
)
def test_a_wrong_address_or_key_ends_the_operation_with_the_name_of_who_refused(
    message: Control,
) -> None:
    group = Group(3)
    group.start(RING, ranks=[0, 2])
    say(group, 1, 0, message.encode())
    for event in group.finish(LIMIT_NS, ranks=[0, 2]):
        assert isinstance(event, Failed)
        assert "lost rank 1 (10.0.0.2)" in event.error and "remote access error" in event.error


def test_messages_of_operations_that_never_begin_do_not_fill_the_memory() -> None:
    group = Group(2)
    for number in range(MAX_EARLY + 10):
        say(group, 1, 0, Control(Kind.TOKEN, 7 + number).encode())
    group.network.settle()
    assert len(group.agents[0]._early) == MAX_EARLY
    assert "rank 1 (10.0.0.2) broke the protocol" in group.agents[0].failure


def test_nonsense_that_came_before_the_operation_fails_it_when_it_starts() -> None:
    group = Group(2)
    say(group, 1, 0, Control(Kind.FETCH, 0).encode())
    group.network.settle()
    group.start(RING)
    refused(group, 0, 1, "FETCH")


def test_a_long_text_of_an_abort_is_cut_where_it_is_passed_on() -> None:
    group = Group(SIZE, rate_bps=1_000_000, requests=[RING])
    group.start(replace(RING, counts=20_000))
    say(group, 2, 1, Control(Kind.ABORT, 0, rank=2).encode() + "ä".encode() * 5000)
    for event in group.finish(LIMIT_NS):
        assert isinstance(event, Failed) and "rank 2 gave up" in event.error


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("collective", "gossip", "'gossip': choose from allgather, broadcast, reduce-scatter"),
        ("algorithm", "k-nomial", "allgather algorithm 'k-nomial': choose from multicast, ring"),
        ("op", "median", "op 'median': choose from sum, min, max"),
        ("dtype", "text", "dtype 'text' is no numpy type of numbers"),
        ("dtype", "", "dtype '' is no numpy type"),
        ("dtype", "(2,)f4", "is no numpy type"),
        ("dtype", "f4,f4", "is no numpy type"),
        ("dtype", "object", "is no numpy type"),
        ("dtype", "{", "is no numpy type"),
        ("counts", -1, "counts -1: a number of elements is not negative"),
        ("counts", (1, -1), r"counts \(1, -1\)"),
        ("counts", 1.5, "counts 1.5 is no whole number"),
        ("counts", (1, 2.0), "counts 2.0 is no whole number"),
        ("counts", "12", "counts '1' is no whole number"),
        ("counts", None, "counts None is no whole number"),
        ("number", -1, "number -1: at least 0"),
        ("number", 1 << 32, "number 4294967296: at most 4294967295"),
        ("root", -1, "root -1: at least 0"),
        ("timeout_ns", -5, "timeout_ns -5: at least 0"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(field: str, value: object, why: str) -> None:
    good = {"number": 0, "collective": "allgather", "algorithm": "ring", "counts": 1}
    with pytest.raises(InputError, match=why):
        Request(**{**good, field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("collective", "algorithm", "field", "value", "why"),
    [
        ("broadcast", "k-nomial", "radix", 1, "radix 1 is out of range: a whole number from 2"),
        ("broadcast", "k-nomial", "radix", 2.0, r"radix 2.0 is out of range: a whole number"),
        ("allgather", "multicast", "workers", 0, "workers 0 is out of range: .* from 1 to 16"),
        ("allgather", "multicast", "batch", 0, "batch 0 is out of range: a whole number from 1"),
        ("allgather", "multicast", "chunk_bytes", 0, "chunk 0 is out of range"),
        ("allgather", "multicast", "chunk_bytes", 1 << 17, "chunk 131072 .* from 1 to 65536"),
        ("allgather", "multicast", "cutoff", "soon", "cutoff 'soon': choose from adaptive, paper"),
        ("allreduce", "optcast", "fan_in", 1, "fan-in 1 is out of range"),
        ("allgather", "ring", "workers", 2, "options of ring: .*'workers'"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    collective: str, algorithm: str, field: str, value: object, why: str
) -> None:
    request = Request(0, collective, algorithm, 1, "float32", own={field: value})
    with pytest.raises(InputError, match=why):
        algorithm_of(collective, algorithm).own(request)


def test_other_requests_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InputError, match=r"counts \(1, 2\): Broadcast has one count, that of"):
        Request(0, "broadcast", "k-nomial", (1, 2))
    with pytest.raises(InputError, match=r"counts \(1, 2\): Allreduce has one count, of the"):
        Request(0, "allreduce", "ring", (1, 2))
    for dtype in ("complex64", "bool"):
        with pytest.raises(InputError, match=f"'{dtype}' cannot be reduced: integers and floats"):
            Request(0, "reduce-scatter", "ring", 1, dtype=dtype)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@given(st.text(max_size=12))
def test_any_text_is_a_type_of_numbers_or_refused(name: str) -> None:
    try:
        request = Request(0, "allgather", "ring", 1, dtype=name)
    except InputError as error:
        assert "dtype" in str(error)
    else:
        assert request.item_bytes > 0


def test_counts_may_be_of_any_type_of_integers() -> None:
    whole = Request(0, "allgather", "ring", np.int32(5))
    assert whole.counts == 5 and whole.elements(2) == (5, 5)
    listed = Request(0, "allgather", "ring", [1, np.uint8(2)])  # type: ignore[arg-type]
    assert listed.counts == (1, 2)
    array = Request(0, "allgather", "ring", np.array([3, 0]))  # type: ignore[arg-type]
    assert array.counts == (3, 0) and hash(array)


@pytest.mark.parametrize(
    ("buffer", "why"),
    [
        (np.zeros(1199, np.uint8), "it has 1199 elements; 1200 are needed"),
        (np.zeros(300, np.float32), "its elements are float32, the request's uint8"),
        (np.zeros((60, 20), np.uint8).T, "it is not C-contiguous"),
        (np.zeros(2400, np.uint8)[::2], "it is not C-contiguous"),
        (np.frombuffer(bytes(1200), np.uint8), "it is read-only"),
        (bytearray(1200), "it is a bytearray; pass a numpy array"),
        ([0] * 1200, "it is a list; pass a numpy array"),
        (None, "it is a NoneType; pass a numpy array"),
    ],
)
def test_an_array_that_does_not_fit_is_refused_and_the_next_is_taken(
    buffer: object, why: str
) -> None:
    group = Group(2)
    with pytest.raises(InputError, match=f"Allgather on 2 ranks, the buffer of rank 0: {why}"):
        group.agents[0].start(RING, buffer, 0)  # type: ignore[arg-type]
    assert group.agents[0].running == 0
    group.complete(RING)


def test_outputs_that_do_not_fit_are_refused() -> None:
    reduce = Request(0, "reduce-scatter", "ring", 600)
    agent = Group(2).agents[0]
    buffer, output = np.zeros(1200, np.uint8), np.zeros(600, np.uint8)
    with pytest.raises(InputError, match="works in place and has no output"):
        agent.start(RING, buffer, 0, output)
    with pytest.raises(InputError, match="pass the array for the result as output"):
        agent.start(reduce, buffer, 0)
    with pytest.raises(InputError, match="output of rank 0: it has 599 elements; 600 are"):
        agent.start(reduce, buffer, 0, output[:599])
    with pytest.raises(InputError, match="buffer and output overlap"):
        agent.start(reduce, buffer, 0, buffer[:600])


def test_what_does_not_fit_the_number_of_ranks_is_refused() -> None:
    agent = Group(2).agents[0]
    with pytest.raises(InputError, match="3 counts for 2 ranks"):
        agent.start(replace(RING, counts=(1, 2, 3)), np.zeros(6, np.uint8), 0)
    with pytest.raises(InputError, match="root 2 of 2 ranks: choose 0 to 1"):
        agent.start(Request(0, "broadcast", "k-nomial", 1, root=2), np.zeros(1, np.uint8), 0)


def test_an_algorithm_whose_queue_pairs_are_not_there_is_refused() -> None:
    group = Group(8, requests=[])
    with pytest.raises(InputError, match=r"linear: rank 0 has no queue pair with rank 3"):
        group.start(Request(0, "allgather", "linear", 1))
