"""The check of a result's data finds any single byte that is wrong, on every rank."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from weft.agents.collectives.requests import Request
from weft.agents.collectives.workload import SLICE_BYTES, Workload

RANKS = 3
COUNTS = (700, 0, 1500)
REQUESTS = [
    Request(4, "allgather", "ring", COUNTS),
    Request(4, "broadcast", "k-nomial", 2000, root=1),
    Request(4, "many-to-one", "direct", COUNTS, root=2),
    Request(4, "alltoall", "direct", 1000),
    Request(4, "reduce-scatter", "ring", COUNTS, dtype="int32"),
    Request(4, "allreduce", "ring", 1000, dtype="float32"),
    Request(4, "allreduce", "ring", 1000, dtype="int8", op="max"),
]


def right_results(workload: Workload) -> list[tuple[npt.NDArray[np.generic], bool]]:
    """What every rank must hold, by numpy's definition, and whether that is an array of its own."""
    request = workload.request
    given = [workload.buffer(rank) for rank in range(RANKS)]
    elements = request.elements(RANKS)
    starts = [sum(elements[:rank]) for rank in range(RANKS)]
    if request.collective in ("reduce-scatter", "allreduce"):
        whole = given[0].copy()
        for other in given[1:]:
            request.ufunc(whole, other, out=whole)
        if request.collective == "allreduce":
            return [(whole.copy(), True) for _ in range(RANKS)]
        ends = zip(starts, elements, strict=True)
        return [(whole[start : start + count].copy(), True) for start, count in ends]
    if request.collective == "alltoall":
        parts = [np.split(each, np.cumsum(elements)[:-1]) for each in given]
        return [(np.concatenate([part[rank] for part in parts]), True) for rank in range(RANKS)]
    if request.collective == "broadcast":
        return [(given[request.root].copy(), False) for _ in range(RANKS)]
    gathered = np.concatenate(
        [given[rank][starts[rank] : starts[rank] + elements[rank]]
         if len(given[rank]) > elements[rank] else given[rank] for rank in range(RANKS)]
    )  # fmt: skip
    if request.collective == "allgather":
        return [(gathered.copy(), False) for _ in range(RANKS)]
    return [
        (gathered.copy() if rank == request.root else given[rank], False) for rank in range(RANKS)
    ]


@pytest.mark.parametrize("keep", [False, True], ids=["computed", "kept"])
@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: f"{one.collective}-{one.op}")
def test_a_byte_that_is_wrong_is_found_wherever_it_is(request_: Request, keep: bool) -> None:
    workload = Workload(request_, RANKS, seed=5, keep=keep)
    for _ in range(2):  # the second time, what is kept is looked up
        for rank, (result, own) in enumerate(right_results(workload)):
            buffer = workload.buffer(rank) if own else result
            output = result if own else None
            assert workload.check(rank, buffer, output) == ""
            data = result.view(np.uint8)
            for place in {0, len(data) // 3, len(data) - 1} if len(data) else ():
                data[place] ^= 1
                said = workload.check(rank, buffer, output)
                assert "wrong" in said or f"element {place // result.itemsize} of" in said
                data[place] ^= 1
    some = request_.root if request_.collective == "many-to-one" else 0
    assert workload.check(some, workload.buffer(some), workload.output(some)) != ""  # as it began


@pytest.mark.parametrize("keep", [False, True], ids=["computed", "kept"])
def test_all_slices_of_a_large_result_are_checked(keep: bool) -> None:
    size = 2 * SLICE_BYTES + 5
    gather = Workload(Request(0, "allgather", "ring", size), 2, seed=1, keep=keep)
    whole = np.concatenate([gather.buffer(rank)[rank * size :][:size] for rank in range(2)])
    assert gather.check(0, whole, None) == ""
    whole[-1] ^= 1
    assert gather.check(0, whole, None) == f"byte {size - 1} of the shard of rank 1 is wrong"
    count = SLICE_BYTES // 8 + 3
    reduce = Workload(Request(0, "allreduce", "ring", count, dtype="int32"), 2, seed=1, keep=keep)
    total = np.add(reduce.buffer(0), reduce.buffer(1))
    assert reduce.check(1, reduce.buffer(1), total) == ""
    total[-1] += 1
    assert f"element {count - 1} of the result is" in reduce.check(1, reduce.buffer(1), total)
