"""Whole collectives between state machines on a network in memory, in virtual time: right results
of every algorithm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from tests.support.collective_group import EVERY, Group, name_of
from tests.support.memory_network import Faults
from tests.support.own_options import own_of

from weft.agents.collectives.agent import Done
from weft.agents.collectives.names import OPS
from weft.agents.collectives.requests import Request
from weft.agents.datagrams import ipv4

MEBIBYTE = 1 << 20
ALL = pytest.mark.parametrize("request_", EVERY, ids=name_of)
REDUCING = [request for request in EVERY if request.collective == "reduce-scatter"]
GATHERING = [request for request in EVERY if request.collective == "allgather"]
BROADCASTING = [request for request in EVERY if request.collective == "broadcast"]
SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 16]

Array = npt.NDArray[np.generic]


@ALL
@pytest.mark.parametrize("size", SIZES)
def test_every_rank_gets_what_it_must(request_: Request, size: int) -> None:
    group = Group(size, requests=[request_])
    for counts in (0, 1, 3, 255, 256, 257, 1000, 5003 if size < 9 else 2049):
        done = group.complete(replace(request_, counts=counts))
        shares = {"allgather": size - 1, "broadcast": 1}
        if request_.collective in shares:
            roots = [0] if request_.collective == "broadcast" else []
            for rank, event in enumerate(done):
                least = 0 if rank in roots else shares[request_.collective] * counts
                assert event.report.received_bytes == least


@pytest.mark.parametrize("request_", [*GATHERING, *REDUCING], ids=name_of)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 11])
def test_shards_may_be_unequal_and_empty(request_: Request, size: int) -> None:
    group = Group(size, requests=[request_])
    for pattern in [(0, 700), (1, 0, 0, 1500), (3000, 1, 2), (0, 0, 0, 0, 257), (0,)]:
        for turn in range(2):
            counts = tuple(pattern[(rank + turn) % len(pattern)] for rank in range(size))
            group.complete(replace(request_, counts=counts, dtype="int16"))


@ALL
@pytest.mark.parametrize(
    "dtype", ["uint8", "int8", "uint16", "int32", "uint64", "float16", "float64", ">f4"]
)
def test_elements_may_be_of_any_type(request_: Request, dtype: str) -> None:
    group = Group(5, requests=[request_])
    group.complete(replace(request_, counts=333, dtype=dtype))


@pytest.mark.parametrize("request_", [*GATHERING, *BROADCASTING], ids=name_of)
def test_what_cannot_be_reduced_can_be_carried(request_: Request) -> None:
    group = Group(3, requests=[request_])
    for dtype in ("bool", "complex64", "complex128"):
        group.complete(replace(request_, counts=77, dtype=dtype))


@pytest.mark.parametrize("request_", REDUCING, ids=name_of)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64", "float32"])
def test_reductions_are_those_of_numpy(request_: Request, op: str, dtype: str) -> None:
    for size in (2, 3, 6, 8):
        request = replace(request_, counts=90, op=op, dtype=dtype)
        Group(size, requests=[request]).complete(request)


@pytest.mark.parametrize("request_", BROADCASTING, ids=name_of)
@pytest.mark.parametrize("size", [2, 3, 5, 8, 11])
def test_any_rank_may_be_the_root(request_: Request, size: int) -> None:
    for root in range(size):
        for radix in (2, 3, 4, 8) if request_.algorithm == "k-nomial" else (2,):
            request = replace(
                request_, counts=1500, root=root, own=own_of(request_.algorithm, radix=radix)
            )
            done = Group(size, requests=[request]).complete(request)
            received = [event.report.received_bytes for event in done]
            assert received == [0 if rank == root else 1500 for rank in range(size)]


@ALL
@pytest.mark.parametrize("block_bytes", [1, 256, 300, 4096, 1 << 30])
def test_blocks_may_have_any_size(request_: Request, block_bytes: int) -> None:
    for size in (3, 4):
        request = replace(
            request_, counts=3001, own=own_of(request_.algorithm, block_bytes=block_bytes)
        )
        Group(size, requests=[request]).complete(request)


@ALL
@pytest.mark.parametrize("path_mtu", [512, 1024, 4096])
def test_any_path_mtu_and_a_link_of_unknown_rate_will_do(request_: Request, path_mtu: int) -> None:
    for rate_bps in (0, 10**9):
        group = Group(4, requests=[request_], path_mtu=path_mtu, rate_bps=rate_bps)
        group.complete(replace(request_, counts=9001))


def run(group: Group, request: Request, buffers: list[Array], outputs: list[Array]) -> None:
    """An operation on arrays of the test's own."""
    for rank in range(group.size):
        output = outputs[rank] if outputs else None
        group.agents[rank].start(request, buffers[rank], group.network.now_ns, output)
    assert all(isinstance(event, Done) for event in group.finish(10**10))


@pytest.mark.parametrize("request_", GATHERING, ids=name_of)
def test_an_array_of_two_dimensions_is_gathered_where_it_is(request_: Request) -> None:
    group = Group(4)
    expected = np.arange(4 * 7 * 30, dtype="float64").reshape(4, 7, 30)
    buffers: list[Array] = []
    for rank in range(4):
        own = np.full((4, 7, 30), -1.0)
        own[rank] = expected[rank]
        buffers.append(own)
    places = [buffer.ctypes.data for buffer in buffers]
    run(group, replace(request_, counts=210, dtype="float64"), buffers, [])
    for buffer, place in zip(buffers, places, strict=True):
        assert np.array_equal(buffer, expected)
        assert buffer.ctypes.data == place


@pytest.mark.parametrize("request_", BROADCASTING, ids=name_of)
def test_a_part_of_a_larger_array_is_written_and_nothing_around_it(request_: Request) -> None:
    group = Group(3)
    whole = [np.full(1000, rank, "int32") for rank in range(3)]
    buffers: list[Array] = [array[100:900].reshape(20, 40) for array in whole]
    run(group, replace(request_, counts=800, dtype="int32", root=1), buffers, [])
    for rank in range(3):
        assert (whole[rank][100:900] == 1).all()
        assert (whole[rank][:100] == rank).all() and (whole[rank][900:] == rank).all()


@pytest.mark.parametrize("request_", REDUCING, ids=name_of)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_a_reduction_leaves_its_input_alone_and_float_sums_repeat(
    request_: Request, size: int
) -> None:
    """Real numbers, whose sum depends on the order: with and without faults the same bits."""
    chance = np.random.default_rng(size)
    inputs = [(chance.standard_normal((size, 300)) * 100).astype("float32") for _ in range(size)]
    results = []
    for loss in (0.0, 0.0, 0.1):
        group = Group(size, faults=Faults(loss=loss, lateness=loss, seed=4))
        buffers: list[Array] = [array.copy() for array in inputs]
        outputs: list[Array] = [np.empty((30, 10), "float32") for _ in range(size)]
        run(group, replace(request_, counts=300, dtype="float32"), buffers, outputs)
        assert all(np.array_equal(*pair) for pair in zip(buffers, inputs, strict=True))
        results.append(b"".join(output.tobytes() for output in outputs))
    assert len(set(results)) == 1
    total = np.sum(np.array(inputs, "float64"), axis=0).reshape(-1)
    assert np.allclose(np.frombuffer(results[0], "float32"), total, rtol=1e-4, atol=1e-3)


@ALL
def test_a_rank_alone_sends_nothing(request_: Request) -> None:
    group = Group(1, keep_trace=True)
    for chains in (0, 1):
        group.complete(
            replace(request_, counts=5000, own=own_of(request_.algorithm, chains=chains))
        )
    assert group.network.trace == []


@ALL
def test_only_multicast_sends_to_groups(request_: Request) -> None:
    group = Group(4, keep_trace=True)
    group.complete(request_)
    to_groups = any(
        datagram.destination >= ipv4("224.0.0.0") for _, _, datagram in group.network.trace
    )
    assert to_groups == (request_.algorithm == "multicast")


@ALL
def test_the_same_seed_gives_the_same_packets(request_: Request) -> None:
    traces = []
    for _ in range(2):
        group = Group(4, faults=Faults(loss=0.05, seed=2), keep_trace=True)
        group.complete(replace(request_, counts=5000), replace(request_, counts=3000))
        traces.append(group.network.trace)
    assert traces[0] == traces[1]


def bound_ns(shards: int, rate_bps: int, shard: int) -> int:
    return shards * shard * 8 * 10**9 // rate_bps


@pytest.mark.parametrize(
    ("collective", "algorithm", "more", "shards", "slack"),
    [
        ("allgather", "multicast", {}, 7, 1.05),
        ("allgather", "multicast", {"chains": 4}, 8, 1.05),
        ("allgather", "multicast", {"chains": 1}, 8, 1.05),
        ("allgather", "multicast", {"workers": 2}, 7, 1.05),
        ("allgather", "multicast", {"batch": 8}, 7, 1.05),
        ("allgather", "ring", {}, 7, 1.10),
        ("allgather", "recursive-doubling", {}, 7, 1.10),
        ("allgather", "swing", {}, 7, 1.10),
        ("allgather", "pat", {}, 7, 1.10),
        ("reduce-scatter", "ring", {}, 7, 1.10),
        ("reduce-scatter", "recursive-halving", {}, 7, 1.10),
        ("broadcast", "multicast", {}, 1, 1.15),
        ("broadcast", "pipelined-ring", {}, 1, 1.60),
        ("broadcast", "k-nomial", {}, 3, 1.10),
        ("broadcast", "binary-tree", {}, 2, 1.30),
    ],
)
def test_completion_is_near_the_bound(
    collective: str, algorithm: str, more: dict[str, int], shards: int, slack: float
) -> None:
    rate = 100_000_000
    group = Group(
        8, rate_bps=rate, path_mtu=4096, delay_ns=1_000_000, queue_bytes=256 * 1024, groups=2
    )
    request = Request(0, collective, algorithm, MEBIBYTE, own=more)
    done = group.complete(request)
    ratio = group.duration_ns / bound_ns(shards, rate, MEBIBYTE)
    print(f"{ratio:.4f} of the bound, phases of rank 0 {done[0].report.phases_ns}")
    assert group.network.dropped == 0
    assert ratio < slack
