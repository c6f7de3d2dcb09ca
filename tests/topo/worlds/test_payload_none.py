"""Data that travel without bytes: the same packets at the same times, and results verified by what
came where."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import PAGESIZE
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.golden.recording import lines_of, read, run_entry, scenario_of

from weft import Scenario
from weft.agents.collectives.coverage import Held, find_wrong
from weft.agents.collectives.requests import Request
from weft.agents.collectives.workload import Workload
from weft.agents.transport.payload_layout import Landing
from weft.base.errors import InputError, MachineError
from weft.controller import Controller
from weft.experiments.runs import capacity
from weft.experiments.runs.inputs import own_programs, program_of
from weft.experiments.runs.operate import operate
from weft.experiments.runs.testbed import Testbed as Bed
from weft.topo.worlds.simulated.world import SimulatedWorld

LINES = [
    line
    for line in lines_of("runs")
    if not scenario_of(line).family.payload_reader(scenario_of(line))
]
SUMS = [
    "allreduce --algorithm switch --loss 1% --size 64KiB",
    "allreduce --algorithm optcast --servers 2 --fan-in 4 --dtype float16 --size 64KiB",
    "reduce-scatter --algorithm switch --dtype int32 --size 16KiB",
    "fsdp-interleave --algorithm in-network --size 16KiB",
]


@contextmanager
def _testbed(scenario: Scenario, payload: bool) -> Iterator[Bed]:
    program = program_of(scenario)
    world = SimulatedWorld(
        scenario.network(), seed=scenario.seed, path_mtu=scenario.mtu, payload=payload,
        headers_alone=True,
    )  # fmt: skip
    others = own_programs(world.topology)
    with world, Controller(world.topology, world.switch_addresses, program, others=others) as it:
        yield Bed(scenario, world, it)


def _run(line: str, payload: bool) -> dict[str, Any]:
    scenario = scenario_of(line)
    with _testbed(scenario, payload) as testbed:
        (algorithm,) = scenario.algorithms
        document: dict[str, Any] = operate(testbed, algorithm, 0, lambda _: None).to_dict()
        return document


def test_every_collective_is_among_the_lines() -> None:
    assert {line.split()[0] for line in LINES} >= {
        "allgather", "broadcast", "alltoall", "many-to-one", "flows", "reduce-scatter",
        "allreduce", "fsdp-interleave",
    }  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=[pytest.mark.slow] if number % 6 else [])
        for number, line in enumerate(LINES)
    ],
)
def test_without_bytes_a_run_is_the_same_to_the_nanosecond(line: str) -> None:
    kept = read("runs")[line]
    found = run_entry(f"{line} --payload none")
    assert {**found, "digest": None} == {**kept, "digest": None}


@pytest.mark.parametrize("line", [*LINES[::16], *SUMS])
def test_without_bytes_headers_have_the_same_digest(line: str) -> None:
    assert _run(line, payload=False) == _run(line, payload=True)


def test_without_bytes_buffers_take_no_memory() -> None:
    line = "allgather --algorithm multicast --size 16MiB --rate 100Gbit --loss 0.1%"
    with _testbed(scenario_of(line), payload=False) as testbed:
        kept = []
        world = testbed.world
        assert isinstance(world, SimulatedWorld)
        reserve = world.memory

        def memory(size: int) -> Any:
            kept.append(reserve(size))
            return kept[-1]

        world.memory = memory  # type: ignore[method-assign]
        assert operate(testbed, "multicast", 0, lambda _: None).verified
        (buffers,) = kept
        assert len(buffers) == 8 * 8 << 24
        assert _resident_pages(buffers) == 0


def _resident_pages(memory: np.ndarray[Any, np.dtype[np.uint8]]) -> int:
    """How many pages of an array are in memory. Its mapping may be one with its neighbours', so
    that what the kernel says of mappings tells nothing of it."""
    first, last = memory.ctypes.data // PAGESIZE, (memory.ctypes.data + memory.size) // PAGESIZE
    with open("/proc/self/pagemap", "rb") as pages:
        pages.seek(8 * first)
        flags = np.frombuffer(pages.read(8 * (last - first)), "<u8")
    assert len(flags) == last - first
    return int(np.count_nonzero(flags >> np.uint64(62)))  # present, or swapped out


ALLGATHER = Workload(Request(0, "allgather", "ring", 100), 3, 1)
BUFFERS = (1 << 20, 1 << 21, 1 << 22)
HELD = [Held(ALLGATHER, rank, address, None) for rank, address in enumerate(BUFFERS)]


def _ring() -> np.ndarray[Any, np.dtype[np.void]]:
    """What comes where in an Allgather of 100 bytes around a ring of three."""
    rows = np.zeros(6, Landing.dtype)
    for step in range(2):
        for rank in range(3):
            part = (rank - step) % 3
            to = (rank + 1) % 3
            rows[3 * step + rank] = (
                BUFFERS[to] + 100 * part, BUFFERS[rank] + 100 * part, 100,
                10 * step + rank + 1, 10 * step + rank + 1, 10 * step + rank + 5, 0, 0,
            )  # fmt: skip
    return rows


def test_a_ring_that_brings_everything_once_is_right() -> None:
    assert find_wrong(_ring(), HELD) == {}


@given(row=st.integers(0, 5), length=st.integers(0, 99))
def test_bytes_that_do_not_come_are_found(row: int, length: int) -> None:
    rows = _ring()
    rows["length"][row] = length
    rows = rows[rows["length"] > 0]
    holder = (row % 3 + 1) % 3
    part = (row % 3 - row // 3) % 3
    wrong = find_wrong(rows, HELD)
    assert wrong[holder] == f"byte {length} of the shard of rank {part} did not come"


@given(row=st.integers(0, 5), by=st.integers(-250, 250).filter(bool))
def test_bytes_from_another_place_are_found(row: int, by: int) -> None:
    rows = _ring()
    rows["source"][row] += by
    assert "is wrong" in find_wrong(rows, HELD)[(row % 3 + 1) % 3]


@given(row=st.integers(0, 5), first=st.integers(0, 99), data=st.data())
def test_bytes_that_come_twice_are_found_unless_they_were_fetched(
    row: int, first: int, data: st.DataObject
) -> None:
    rows = _ring()
    length = data.draw(st.integers(1, 100 - first))
    again = rows[row : row + 1].copy()
    again["target"] += first
    again["source"] += first
    again["length"] = length
    again["sent"] += 100
    again["landed"] += 100
    holder = (row % 3 + 1) % 3
    part = (row % 3 - row // 3) % 3
    wrong = find_wrong(np.concatenate([rows, again]), HELD)
    assert re.fullmatch(rf"byte \d+ of the shard of rank {part} came twice", wrong[holder])
    again["fetched"] = 1
    assert find_wrong(np.concatenate([rows, again]), HELD) == {}


def test_bytes_that_are_sent_on_before_they_came_are_found() -> None:
    rows = _ring()
    rows["sent"][3] = rows["landed"][2] - 1
    assert find_wrong(rows, HELD) == {
        1: "byte 0 of the shard of rank 2 was sent on before it had come"
    }


def test_bytes_that_a_rank_has_are_not_written() -> None:
    rows = _ring()
    own = rows[:1].copy()
    own["target"], own["source"] = BUFFERS[0], BUFFERS[2]
    wrong = find_wrong(np.concatenate([rows, own]), HELD)
    assert wrong == {0: "byte 0 of the shard of rank 0 is wrong"}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"collective": "allreduce", "world": "simulated", "data": "mixed"},
            "allreduce needs the bytes of data, since it measures how far sums of mixed data",
        ),
        ({"collective": "allgather", "world": "emulated"}, "packets are real"),
        (
            {"collective": "fused", "world": "simulated", "operator": "gemv-allreduce"},
            "fused needs the bytes of data, since it computes with them",
        ),
    ],
)
def test_payload_none_is_refused_where_bytes_are_needed(
    asked: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Scenario(**asked, payload="none")


def test_what_does_not_fit_a_quarter_of_memory_travels_without_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = {"MemTotal": 1 << 30, "MemAvailable": 1 << 29}
    monkeypatch.setattr(capacity, "_told_bytes", told.__getitem__)
    fits = Scenario("allgather", world="simulated", size_bytes=1 << 20)
    large = Scenario("allgather", world="simulated", size_bytes=1 << 24)
    assert capacity.carries_bytes(fits)
    assert not capacity.carries_bytes(large)
    assert capacity.check_capacity(large) < 1 << 25
    with pytest.raises(MachineError, match=r"or --payload none, which takes \d"):
        capacity.check_capacity(
            Scenario("allgather", world="simulated", size_bytes=1 << 24, payload="all")
        )
    with pytest.raises(MachineError, match="choose a smaller --size"):
        capacity.check_capacity(
            Scenario("allreduce", world="simulated", size_bytes=1 << 28, data="mixed")
        )
    with pytest.raises(MachineError, match="even without bytes of data"):
        capacity.check_capacity(
            Scenario(
                "allgather", world="simulated", size_bytes=1 << 32, mtu=256, algorithms=("ring",)
            )
        )
