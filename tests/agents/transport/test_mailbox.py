"""Messages between ranks: order, tags, any source, loss, and what must be refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.memory_network import Faults, MemoryNetwork, NetworkTimeout

from weft.agents.collectives.mailbox import (
    KEPT_NS,
    MAGIC,
    GivenUp,
    Mailbox,
    NotPassed,
    Passed,
    PeerLost,
)
from weft.agents.transport.endpoint import Endpoint
from weft.agents.transport.types import TransportOptions

FIRST = 0x0A000001


class Mailboxes:
    """Some mailboxes that know each other, joined in memory."""

    def __init__(
        self, size: int, faults: Faults | None = None, options: TransportOptions | None = None
    ) -> None:
        addresses = [FIRST + rank for rank in range(size)]
        self.boxes = [
            Mailbox(Endpoint(address, 256, 10**9, seed=rank, options=options), rank, addresses)
            for rank, address in enumerate(addresses)
        ]
        for rank, box in enumerate(self.boxes):
            box.members.connect(
                {
                    other: self.boxes[other].members.introduction()[rank]
                    for other in range(size)
                    if other != rank
                }
            )
        self.network = MemoryNetwork(self.boxes, faults=faults)
        self.events: list[dict[int, Passed | NotPassed]] = [{} for _ in self.boxes]
        self.given_up: dict[int, str] = {}
        """What ranks have heard of a peer that gives up."""
        self.lost: dict[int, str] = {}
        """Why ranks have lost a peer."""

    def settle(self, wanted: int, timeout_ns: int = 20_000_000_000) -> None:
        """Run until so many events have come."""

        def done() -> bool:
            for rank, (events, box) in enumerate(zip(self.events, self.boxes, strict=True)):
                while (event := box.next_event()) is not None:
                    if isinstance(event, GivenUp):
                        self.given_up[rank] = event.reason
                        continue
                    if isinstance(event, PeerLost):
                        self.lost[rank] = event.reason
                        continue
                    assert event.key not in events
                    events[event.key] = event
            return sum(map(len, self.events)) >= wanted

        self.network.run(until=done, timeout_ns=timeout_ns)

    def send(self, source: int, key: int, to: int, tag: int, data: np.ndarray) -> None:
        self.boxes[source].send_to(key, to, tag, data, self.network.now_ns)

    def receive(
        self,
        rank: int,
        key: int,
        source: int | None,
        tag: int,
        memory: np.ndarray,
    ) -> None:
        self.boxes[rank].receive_from(key, source, tag, memory, self.network.now_ns)


def data_of(number: int, size: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, size, np.uint8)


message = st.tuples(
    st.integers(0, 2), st.integers(1, 2), st.integers(0, 1), st.sampled_from([0, 1, 200, 5000])
)
"""(the sender, how far behind it the receiver is, the tag, the size)."""


@given(
    messages=st.lists(message, min_size=1, max_size=12),
    late=st.lists(st.booleans(), min_size=12, max_size=12),
    loss=st.sampled_from([0.0, 0.05]),
    seed=st.integers(0, 1000),
    any_source=st.booleans(),
)
def test_all_messages_come_whole_and_in_order(
    messages: list[tuple[int, int, int, int]], late: list[bool], loss: float, seed: int,
    any_source: bool,
) -> None:  # fmt: skip
    """Receives are asked for before or after the sends, whatever is lost or late."""
    faults = Faults(loss=loss, lateness=loss, duplication=loss, seed=seed)
    boxes = Mailboxes(3, faults)
    # From any source, one sender a receiver, so that sizes are known.
    if any_source:
        messages = [(sender, 1, tag, size) for sender, _, tag, size in messages]
    memories = {}
    for number, (sender, step, tag, size) in enumerate(messages):
        to = (sender + step) % 3
        memories[number] = np.zeros(size, np.uint8)
        source = None if any_source else sender
        receive = (to, 1000 + number, source, tag, memories[number])
        if late[number]:
            boxes.send(sender, number, to, tag, data_of(number, size))
        # In order for each sender and tag.
        boxes.receive(*receive)
        if not late[number]:
            boxes.send(sender, number, to, tag, data_of(number, size))
    boxes.settle(2 * len(messages))
    for number, (sender, step, _tag, size) in enumerate(messages):
        assert boxes.events[(sender + step) % 3][1000 + number] == Passed(1000 + number, sender)
        assert boxes.events[sender][number] == Passed(number, sender)
        assert np.array_equal(memories[number], data_of(number, size))


def test_tags_are_taken_in_the_receivers_order() -> None:
    boxes = Mailboxes(2)
    for tag in (5, 6, 7):
        boxes.send(0, tag, 1, tag, data_of(tag, 3000))
    memories = {tag: np.zeros(3000, np.uint8) for tag in (7, 5, 6)}
    for tag, memory in memories.items():
        boxes.receive(1, tag, 0, tag, memory)
    boxes.settle(6)
    for tag, memory in memories.items():
        assert np.array_equal(memory, data_of(tag, 3000))


@pytest.mark.parametrize("size", [10, 4000])
def test_another_length_than_was_expected_fails_at_both_ends(size: int) -> None:
    boxes = Mailboxes(2)
    boxes.receive(1, 1, 0, 0, np.zeros(100, np.uint8))
    boxes.send(0, 1, 1, 0, data_of(1, size))
    boxes.settle(2)
    failed = boxes.events[1][1]
    assert isinstance(failed, NotPassed)
    assert f"rank 0 sent {size} bytes with tag 0 to rank 1, which receives 100" in failed.error
    sent = boxes.events[0][1]
    # A short one has left before anybody knows.
    assert isinstance(sent, Passed if size == 10 else NotPassed)


def test_a_peer_that_is_gone_is_named_and_others_go_on() -> None:
    def gone(datagram: object, receiver: int) -> bool:
        return receiver == FIRST + 2

    options = TransportOptions(give_up_ns=100_000_000)
    boxes = Mailboxes(3, Faults(loss=1.0, only=gone), options)
    memory = np.zeros(5000, np.uint8)
    boxes.receive(0, 1, 2, 0, np.zeros(8, np.uint8))
    boxes.receive(0, 2, 1, 0, memory)
    boxes.send(1, 3, 0, 0, data_of(3, 5000))
    boxes.settle(3)
    lost = boxes.events[0][1]
    assert isinstance(lost, NotPassed) and "lost rank 2 (10.0.0.3)" in lost.error
    assert boxes.lost == {0: lost.error} and not boxes.given_up
    assert np.array_equal(memory, data_of(3, 5000))
    boxes.send(0, 4, 2, 0, data_of(4, 8))
    boxes.receive(0, 5, None, 0, np.zeros(8, np.uint8))
    boxes.settle(5)
    assert all(isinstance(boxes.events[0][key], NotPassed) for key in (4, 5))


def test_what_is_given_up_fails() -> None:
    boxes = Mailboxes(2)
    boxes.receive(0, 1, 1, 0, np.zeros(8, np.uint8))
    boxes.receive(0, 2, None, 0, np.zeros(8, np.uint8))
    boxes.send(0, 3, 1, 0, data_of(1, 9000))
    boxes.boxes[0].give_up("the rank has had enough")
    boxes.settle(3)
    assert {event.error for event in boxes.events[0].values() if isinstance(event, NotPassed)} == {
        "the rank has had enough"
    }


def test_who_disagrees_lets_all_peers_give_up_even_those_that_do_not_wait_for_it() -> None:
    boxes = Mailboxes(3)
    boxes.receive(0, 1, 1, 0, np.zeros(8, np.uint8))
    boxes.receive(1, 2, 0, 0, np.zeros(8, np.uint8))
    boxes.boxes[2].disagree("the ranks do not call the same")
    boxes.settle(2)
    assert boxes.given_up == dict.fromkeys((0, 1), "the ranks do not call the same")
    for rank, key in ((0, 1), (1, 2)):
        assert boxes.events[rank][key] == NotPassed(key, "the ranks do not call the same")


def test_long_messages_to_a_rank_that_begins_nothing_more_fail() -> None:
    """But for those of what it has begun before, whose tags are negative."""
    boxes = Mailboxes(2)
    memory = np.zeros(5000, np.uint8)
    boxes.send(0, 1, 1, 0, data_of(1, 5000))
    boxes.send(0, 2, 1, -1, data_of(2, 5000))
    boxes.boxes[0].silent(1, "rank 1 has come to its end")
    boxes.send(0, 3, 1, 0, data_of(3, 5000))
    boxes.receive(1, 4, 0, -1, memory)
    boxes.settle(4)
    for key in (1, 3):
        assert boxes.events[0][key] == NotPassed(key, "rank 1 has come to its end")
    assert boxes.events[0][2] == Passed(2, 0)
    assert np.array_equal(memory, data_of(2, 5000))


def test_a_receive_that_is_withdrawn_takes_no_message() -> None:
    boxes = Mailboxes(2)
    memories = [np.zeros(8, np.uint8) for _ in range(2)]
    boxes.receive(0, 1, 1, 0, memories[0])
    boxes.boxes[0].withdraw(1, "no end within 2 s")
    boxes.send(1, 2, 0, 0, data_of(2, 8))
    boxes.receive(0, 3, 1, 0, memories[1])
    boxes.settle(3)
    assert boxes.events[0][1] == NotPassed(1, "no end within 2 s")
    assert not memories[0].any() and np.array_equal(memories[1], data_of(2, 8))
    boxes.boxes[0].withdraw(3, "too late")
    assert boxes.boxes[0].next_event() is None


def test_memory_is_registered_no_longer_than_needed() -> None:
    boxes = Mailboxes(2)
    for number in range(5):
        boxes.send(0, number, 1, 0, data_of(number, 5000))
        boxes.receive(1, number, 0, 0, np.zeros(5000, np.uint8))
    boxes.settle(10)
    endpoint = boxes.boxes[0].endpoint
    assert len(endpoint._regions) == 5
    assert not boxes.boxes[1].endpoint._regions
    with pytest.raises(NetworkTimeout):
        boxes.network.run(until=lambda: False, timeout_ns=2 * KEPT_NS)
    assert not endpoint._regions


HEAD = struct.Struct("!IBxxxiIQQI")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"short", "a message of 5 bytes"),
        (HEAD.pack(1, 1, 0, 0, 0, 0, 0), "begins with 0x00000001"),
        (HEAD.pack(MAGIC, 9, 0, 0, 0, 0, 0), "unknown kind 9"),
        (HEAD.pack(MAGIC, 1, 0, 0, 3, 0, 0), "0 bytes follow a message of 3"),
        (HEAD.pack(MAGIC, 3, 0, 77, 0, 0, 0), "TAKEN of message 77, which is not under way"),
    ],
)
def test_a_peer_that_breaks_the_protocol_is_lost(data: bytes, why: str) -> None:
    boxes = Mailboxes(2)
    boxes.receive(0, 1, 1, 0, np.zeros(8, np.uint8))
    boxes.boxes[1].members.queue_pairs[0].post_send(data)
    boxes.settle(1)
    failed = boxes.events[0][1]
    assert isinstance(failed, NotPassed)
    assert "rank 1 (10.0.0.2) broke the protocol" in failed.error and why in failed.error


@given(st.binary(max_size=200))
def test_any_bytes_at_all_lose_a_peer_or_mean_something(data: bytes) -> None:
    boxes = Mailboxes(2)
    boxes.receive(0, 1, 1, 0, np.zeros(8, np.uint8))
    boxes.boxes[1].members.queue_pairs[0].post_send(data)
    boxes.settle(1)
    assert isinstance(boxes.events[0][1], NotPassed)
