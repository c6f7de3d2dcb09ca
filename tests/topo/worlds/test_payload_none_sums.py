"""Sums of data that travel without bytes are counted: each rank's part of each element, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.golden.recording import run

from weft import Scenario
from weft.agents.collectives.bare_results import find_wrong_results
from weft.agents.collectives.contents import Content, Memory
from weft.agents.collectives.coverage import Held
from weft.agents.collectives.requests import Request
from weft.agents.collectives.tensors import (
    Box,
    DeviceTile,
    Piece,
    Tensors,
    TensorShape,
    runs,
)
from weft.agents.collectives.unicast import Pattern
from weft.agents.collectives.workload import Workload
from weft.agents.servers.server_operation import ServerOperation
from weft.agents.transport import aggregation
from weft.agents.transport.noted_sums import NotedSum
from weft.agents.transport.payload_layout import Landing, weight_of
from weft.experiments.runs.inputs import program_of
from weft.experiments.runs.simulation import simulate

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


@st.composite
def _boxes(draw: st.DrawFn) -> tuple[tuple[int, ...], Box]:
    """A shape and a slice of it."""
    shape = tuple(draw(st.lists(st.integers(1, 5), max_size=4)))
    ends = [sorted((draw(st.integers(0, size - 1)), draw(st.integers(1, size)))) for size in shape]
    return shape, tuple((begin, max(end, begin + 1)) for begin, end in ends)


@given(drawn=_boxes())
def test_runs_of_a_slice_are_its_elements_in_their_order(
    drawn: tuple[tuple[int, ...], Box],
) -> None:
    shape, box = drawn
    places = np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)
    starts, length = runs(shape, box)
    found = (starts[:, None] + np.arange(length)).reshape(-1)
    slices = tuple(slice(begin, end) for begin, end in box)
    assert found.tolist() == places[slices].reshape(-1).tolist()


@pytest.mark.parametrize(
    ("strategy", "case", "loss"),
    [("send-recv+allgather", 3, 0.0), ("broadcast", 9, 0.0), ("multicast", 8, 0.01)],
)
def test_tensors_without_bytes_come_at_the_same_times(
    strategy: str, case: int, loss: float
) -> None:
    def moved(payload: str) -> dict[str, Any]:
        scenario = Scenario(
            "reshard", world="simulated", topology="single", shape="48,16,8", case=case,
            strategies=(strategy,), loss=loss, rate_bps=10**9, payload=payload, predict=False,
        )  # fmt: skip
        (algorithm,) = scenario.algorithms
        came = simulate(scenario, program_of(scenario), algorithm, 0, lambda _: None)
        return {**came.to_dict(), "digest": None, "scenario": None}

    found = moved("none")
    assert found["verified"]
    assert found == moved("all")


SLICES = Tensors(
    (TensorShape((2, 4), 4),),
    ((Piece(0, ((0, 2), (0, 2)), 0, 0),), (Piece(0, ((0, 2), (2, 4)), 0, 0),)),
    ((DeviceTile("d0", 0, ((0, 2), (0, 4)),
                 (Piece(0, ((0, 2), (0, 2)), 0, 0), Piece(0, ((0, 2), (2, 4)), 1, 0))),), ()),
)  # fmt: skip


@pytest.mark.parametrize(
    ("source", "length", "wrong"),
    [
        (0, 16, ""),
        (0, 8, "byte 0 of a slice of tensor 0 on device d0 did not come"),
        (8, 8, "byte 0 of a slice of tensor 0 on device d0 belongs elsewhere"),
    ],
)
def test_slices_that_do_not_come_or_belong_elsewhere_are_found(
    source: int, length: int, wrong: str
) -> None:
    class Work:
        request = type("Asked", (), {"tensors": SLICES, "collective": "flows"})()

    work = Work()
    held = [
        Held(work, rank, BUFFERS[rank], OUTPUTS[rank])  # type: ignore[arg-type]
        for rank in (0, 1)
    ]
    rows = np.zeros(1, Landing.dtype)
    rows[0] = (OUTPUTS[0], BUFFERS[1] + source, length, 1, 2, 3, 0, 0)
    found = find_wrong_results(rows, (), held).get(0, "")
    assert found.startswith(wrong) and bool(found) == bool(wrong)
