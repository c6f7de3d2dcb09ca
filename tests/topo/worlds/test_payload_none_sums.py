"""Sums of data that travel without bytes are counted: each rank's part of each element, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.golden.recording import run

from weft.agents.collectives.bare_results import find_wrong_results
from weft.agents.collectives.contents import Content, Memory
from weft.agents.collectives.coverage import Held
from weft.agents.collectives.requests import Request
from weft.agents.collectives.unicast import Pattern
from weft.agents.collectives.workload import Workload
from weft.agents.servers.server_operation import ServerOperation
from weft.agents.transport import aggregation
from weft.agents.transport.noted_sums import NotedSum
from weft.agents.transport.payload_layout import Landing, weight_of

ALLREDUCE = Workload(Request(0, "allreduce", "direct", 100, dtype="float32"), 3, 1)
BUFFERS = (1 << 20, 1 << 21, 1 << 22)
OUTPUTS = tuple(address + (1 << 16) for address in BUFFERS)
STAGING = tuple(address + (1 << 18) for address in BUFFERS)
HELD = [
    Held(ALLREDUCE, rank, *arrays) for rank, arrays in enumerate(zip(BUFFERS, OUTPUTS, strict=True))
]


def _to_first() -> tuple[np.ndarray[Any, np.dtype[np.void]], list[NotedSum]]:
    """Ranks 1 and 2 send their vectors to rank 0, which adds them and sends the sum to both."""
    rows = np.zeros(4, Landing.dtype)
    for rank in (1, 2):
        came = (STAGING[0] + 400 * rank, BUFFERS[rank], 400, 10 * rank, 10 * rank + 1,
                10 * rank + 2, 0, 0)  # fmt: skip
        went = (OUTPUTS[rank], OUTPUTS[0], 400, 50 + rank, 60 + rank, 70 + rank, 0, 0)
        rows[rank - 1], rows[rank + 1] = came, went
    sums = [
        NotedSum(40, OUTPUTS[0], (BUFFERS[0], STAGING[0] + 400), 100, 4, 4),
        NotedSum(41, OUTPUTS[0], (OUTPUTS[0], STAGING[0] + 800), 100, 4, 4),
    ]
    return rows, sums


def test_each_part_once_is_right() -> None:
    assert find_wrong_results(*_to_first(), HELD) == {}


@given(place=st.integers(1, 399))
def test_elements_that_are_not_added_are_found(place: int) -> None:
    rows, sums = _to_first()
    rows["length"][1] = place
    wrong = find_wrong_results(rows, sums, HELD)
    assert wrong == {
        rank: f"element {place // 4} of the result did not come, or is made of what did not"
        for rank in range(3)
    }


@pytest.mark.parametrize("rank", [1, 2])
def test_a_part_that_is_left_out_is_named(rank: int) -> None:
    rows, sums = _to_first()
    sums = [NotedSum(41, OUTPUTS[0], (BUFFERS[0], STAGING[0] + 400 * (3 - rank)), 100, 4, 4)]
    wrong = find_wrong_results(rows, sums, HELD)
    assert wrong == dict.fromkeys(range(3), f"element 0 of the result lacks rank {rank}'s part")


def test_a_part_that_is_added_twice_is_named() -> None:
    rows, sums = _to_first()
    sums.append(NotedSum(42, OUTPUTS[0] + 40, (OUTPUTS[0] + 40, STAGING[0] + 840), 3, 4, 4))
    wrong = find_wrong_results(rows, sums, HELD)
    assert wrong == dict.fromkeys(range(3), "element 10 of the result has rank 2's part twice")


@given(by=st.integers(-40, 40).filter(bool))
def test_elements_of_another_place_are_found(by: int) -> None:
    rows, sums = _to_first()
    rows["source"][3] += by
    found = find_wrong_results(rows, sums, HELD)
    assert set(found) == {2}
    assert "of the result" in found[2]


def test_what_changes_while_it_is_sent_is_found() -> None:
    rows, sums = _to_first()
    sums.append(NotedSum(55, OUTPUTS[0], (BUFFERS[0],), 1, 4, 4))
    found = find_wrong_results(rows, sums, HELD)
    assert found[1] == "element 0 of the result did not come, or is made of what did not"


def test_a_sum_that_is_sent_before_it_is_whole_is_found() -> None:
    rows, sums = _to_first()
    rows["sent"][2], rows["left"][2] = 40, 40
    sums[0] = sums[0]._replace(step=39)
    assert find_wrong_results(rows, sums, HELD) == {
        1: "element 0 of the result lacks rank 2's part"
    }


@given(
    writes=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20), st.booleans()), max_size=20)
)
def test_memory_holds_what_was_written_last(writes: list[tuple[int, int, bool]]) -> None:
    """Beside an array of bytes that is a model of it, across the border of two buckets."""
    start = (1 << 24) - 30
    memory, model = Memory(), [0] * 80
    for key, (first, count, known) in enumerate(writes, 1):
        piece = Content(start + first, start + first + count, key, 1, key, 1)
        memory.put(start + first, start + first + count, [piece] if known else [])
        model[first : first + count] = [key if known else 0] * count
    found = [0] * 80
    for each in memory.get(start, start + 80):
        assert each.start < each.end
        found[each.start - start : each.end - start] = [each.key] * (each.end - each.start)
    assert found == model


@given(ranks=st.integers(2, 4096))
def test_sums_of_weights_fit_31_bits(ranks: int) -> None:
    weights = [weight_of(rank, ranks) for rank in range(ranks)]
    assert min(weights) > 0
    assert sum(weights) < 1 << 30


def _left_out(self: Pattern, one: Any, other: Any, out: Any, *, ranks: int = 0) -> None:
    """Forget what came where the first block is added on rank 1."""
    if self._rank == 1 and not getattr(self, "_has_failed", False):
        self._has_failed = True  # type: ignore[attr-defined]
        self._copy(other if self.memories[0] is other else one, out)
    else:
        _combine(self, one, other, out, ranks=ranks)


_combine = Pattern._combine


@pytest.mark.parametrize(
    "line",
    [
        f"{collective} --algorithm {algorithm} --size 64KiB --payload none"
        for collective, algorithm in (
            ("allreduce", "ring"), ("allreduce", "halving-doubling"),
            ("allreduce", "double-binary-tree"), ("allreduce", "direct"),
            ("reduce-scatter", "ring"), ("reduce-scatter", "recursive-halving"),
        )
    ],
)  # fmt: skip
def test_a_rank_that_adds_too_little_is_found(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pattern, "_combine", _left_out)
    assert "of the result" in (run(line).error or "")


def test_a_server_that_adds_a_part_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    add: Callable[..., None] = ServerOperation._add

    def twice(self: ServerOperation, vectors: list[int], *rest: Any, **more: Any) -> None:
        add(self, [*vectors[:-1], vectors[0]], *rest, **more)

    monkeypatch.setattr(ServerOperation, "_add", twice)
    found = run("allreduce --algorithm optcast --size 64KiB --payload none").error or ""
    assert "does not have each rank's part once" in found


@pytest.mark.parametrize(
    "line", ["allreduce --size 64KiB", "reduce-scatter --size 8KiB", "allreduce --dtype int32"]
)
def test_a_switch_that_adds_a_part_twice_is_found(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def doubled(rank: int, ranks: int) -> int:
        return weight_of(rank, ranks) * (2 if rank == 3 else 1)

    monkeypatch.setattr(aggregation, "weight_of", doubled)
    found = run(f"{line} --algorithm switch --payload none").error or ""
    assert "element 0 of the result has rank 3's part twice" in found
