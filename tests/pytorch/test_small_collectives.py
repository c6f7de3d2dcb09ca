"""Small collectives by messages, between ranks whose messages come in any order that keeps that of
each pair and tag."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

from weft.agents.collectives.mailbox import Bytes
from weft.agents.collectives.requests import Request
from weft.pytorch.collectives import combine_all
from weft.pytorch.comparing import Comparing
from weft.pytorch.small_collectives import SmallAllgather

Done = Callable[[str, int], None]


@dataclass
class Wire:
    """What is under way between ranks, and who waits for it, by (source, target, tag)."""

    sent: dict[tuple[int, int, int], deque[bytes]] = field(default_factory=dict)
    waiting: dict[tuple[int, int, int], deque[tuple[Bytes, Done]]] = field(default_factory=dict)
    told_others: list[str] = field(default_factory=list)

    def due(self) -> list[tuple[int, int, int]]:
        """Return of what a message and a receive are there."""
        return sorted(key for key, all_of in self.sent.items() if all_of and self.waiting.get(key))

    def pass_one(self, key: tuple[int, int, int]) -> None:
        """Let a message come."""
        payload, (memory, done) = self.sent[key].popleft(), self.waiting[key].popleft()
        memory[: len(payload)] = np.frombuffer(payload, np.uint8)
        done("", key[0])


class Agents:
    """The messages of one rank, as `GroupAgents` has them."""

    def __init__(self, wire: Wire, rank: int, size: int) -> None:
        self.wire, self.rank, self.size = wire, rank, size
        self.mailbox = self

    def exchange_of_all(self) -> Agents:
        return self

    def disagree(self, why: str) -> None:
        self.wire.told_others.append(why)

    def send(self, peer: int, tag: int, memory: Bytes, done: Done) -> None:
        self.wire.sent.setdefault((self.rank, peer, tag), deque()).append(memory.tobytes())

    def receive(
        self, source: int, tag: int, memory: Bytes, done: Done, *, at_most: bool = False
    ) -> None:
        waiting = self.wire.waiting.setdefault((source, self.rank, tag), deque())
        waiting.append((memory, done))


def begin(
    agents: Agents, call: str, own: Bytes, gathered: Bytes, done: Callable[[str], None]
) -> None:
    """Begin the Allgather of one rank, as a group does."""
    failures: list[str] = []
    comparing = Comparing(agents, failures.append, lambda: "".join(failures))  # type: ignore[arg-type]

    def compare(along: Bytes, theirs: Bytes, compared: Callable[[str], None]) -> None:
        comparing.compare(7, call, compared, along, theirs)

    SmallAllgather(agents, own, gathered, compare, done)  # type: ignore[arg-type]


@given(st.data(), st.integers(2, 9), st.integers(1, 5), st.integers(1, 3))
@settings(deadline=None)
def test_all_get_the_parts_of_all_in_order_whatever_comes_first(
    data: Any, size: int, length: int, calls: int
) -> None:
    wire = Wire()
    all_agents = [Agents(wire, rank, size) for rank in range(size)]
    parts = np.arange(calls * size * length, dtype=np.uint8).reshape(calls, size, length)
    gathered = np.zeros((size, calls, size, length), np.uint8)
    ended: list[tuple[int, int, str]] = []
    left = [(rank, call) for call in range(calls) for rank in range(size)]
    while left or wire.due():
        due = wire.due()
        choice = data.draw(st.integers(0, len(due)) if left else st.integers(1, len(due)))
        if choice == 0:  # the next call of some rank: calls of several may be under way at a time
            rank = data.draw(st.sampled_from(sorted({rank for rank, _ in left})))
            call = min(number for other, number in left if other == rank)
            left.remove((rank, call))
            begin(
                all_agents[rank], f"call {call}", parts[call, rank], gathered[rank, call],
                lambda error, rank=rank, call=call: ended.append((rank, call, error)),  # type: ignore[misc]
            )  # fmt: skip
        else:
            wire.pass_one(due[choice - 1])
    assert sorted(ended) == [(rank, call, "") for rank in range(size) for call in range(calls)]
    for rank in range(size):
        assert np.array_equal(gathered[rank], parts)
    assert not any(wire.sent.values()) and not wire.told_others


def test_ranks_that_do_not_call_the_same_are_told_what_was_called() -> None:
    wire, ended = Wire(), [""] * 4
    for rank in range(4):
        call = "barrier" if rank != 2 else "allreduce of 4 torch.float32 by sum (messages)"
        own = np.zeros(1 if rank != 2 else 16, np.uint8)
        gathered = np.zeros((4, len(own)), np.uint8)
        begin(Agents(wire, rank, 4), call, own, gathered, partial(ended.__setitem__, rank))
    while wire.due():
        wire.pass_one(wire.due()[0])
    assert [bool(error) for error in ended] == [False, False, True, True]
    assert "rank 2 calls allreduce" in ended[2] and "rank 1 barrier" in ended[2]
    assert len(wire.told_others) == 4  # of its mailbox and its exchange, by each of the two


@pytest.mark.parametrize("op", ["sum", "average", "min", "bitwise-xor"])
def test_vectors_of_all_ranks_are_reduced_in_their_order(op: str) -> None:
    vectors = np.array([[1, 5, 250], [7, 2, 3], [4, 4, 4]], np.uint8)
    out = np.zeros(3, np.uint8)
    combine_all(Request(0, "allreduce", "direct", 3, "uint8", op), vectors, out)
    expected = {
        "sum": [12, 11, 1], "average": [4, 3, 0], "min": [1, 2, 3],
        "bitwise-xor": [1 ^ 7 ^ 4, 5 ^ 2 ^ 4, 250 ^ 3 ^ 4],
    }  # fmt: skip
    assert out.tolist() == expected[op]
