"""Results that are compared as they come and dropped: the same runs, with less memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.golden import recording
from tests.support.simulated_support import network

from weft.agents.collectives.dropped import DroppedResults, compare_all
from weft.agents.collectives.requests import Request
from weft.agents.collectives.workload import Workload
from weft.agents.transport.endpoint import Endpoint
from weft.agents.transport.payload_layout import Landing
from weft.base.errors import InputError, MachineError
from weft.experiments.runs import capacity
from weft.experiments.scenario.scenario import Scenario
from weft.topo.clos import single
from weft.topo.worlds.simulated.core import Idle
from weft.topo.worlds.simulated.landings import Landings

GIB = 1 << 30
LINES = (
    "allgather --algorithm multicast --size 40001",
    "allgather --algorithm multicast --loss 1% --size 64KiB --chunk 256",
    "allgather --algorithm recursive-doubling --size 10000 --jobs 2",
    "broadcast --algorithm pipelined-ring --size 100000 --root 3",
    "allgather --algorithm ring --size 20KiB --operations 3 --at-once 2",
)


@pytest.mark.parametrize("line", LINES)
def test_what_is_dropped_was_what_is_kept_otherwise(line: str) -> None:
    kept, dropped = recording.run(line), recording.run(f"{line} --keep none")
    assert dropped.verified, dropped.error
    assert (kept.digest, kept.completion_ns) == (dropped.digest, dropped.completion_ns)
    assert kept.ranks == dropped.ranks


def landed(*rows: tuple[int, int]) -> npt.NDArray[np.void]:
    """Return landings of so many bytes at addresses."""
    table = np.zeros(len(rows), Landing.dtype)
    for number, (target, length) in enumerate(rows):
        table[number]["target"], table[number]["length"] = target, length
    return table


def test_bytes_that_are_wrong_or_did_not_come_are_named() -> None:
    workload = Workload(Request(0, "allgather", "ring", 5000), 3, 1)
    results, right = DroppedResults(workload, 3), workload.result()
    buffers = [results.buffer(rank) for rank in range(3)]
    starts = [buffer.ctypes.data for buffer in buffers]
    for buffer in buffers:
        buffer[:] = right
    buffers[1][77] ^= 1
    results.compare(landed((starts[0] + 5000, 10000), (starts[1], 5000), (starts[2], 4000)))
    assert all(np.array_equal(buffer, right) for buffer in buffers), "what was compared is dropped"
    results.compare(landed((starts[1] + 10000, 5000), (starts[2] + 4000, 5999)))
    assert results.wrong() == {
        1: "byte 77 of the shard of rank 0 is wrong",
        2: "byte 4999 of the shard of rank 1 did not come",
    }


def test_bytes_that_come_twice_are_named_unless_they_were_fetched() -> None:
    workload = Workload(Request(0, "broadcast", "multicast", 1000), 2, 1)
    results = DroppedResults(workload, 2)
    start = results.buffer(1).ctypes.data
    rows = landed((start, 1000), (start + 10, 5))
    rows["fetched"] = [0, 1]
    results.compare(rows)
    assert results.wrong() == {}
    results.compare(landed((start + 5, 3)))
    assert "came twice" in results.wrong()[1]


@pytest.mark.parametrize("wrong", [None, 9000])
def test_what_comes_is_written_only_from_the_first_wrong_byte_on(wrong: int | None) -> None:
    size = 12288
    workload = Workload(Request(0, "broadcast", "multicast", size), 2, 1)
    results, right = DroppedResults(workload, 2), workload.result()
    with network(single(2)) as made:
        fabric = made.world.fabric
        fabric.landings = landings = Landings(noted=True, whole=True)
        fabric.world.landings = landings.location
        landings.expect(results.expected())
        sender, receiver = (Idle(Endpoint(host.address)) for host in fabric.topology.hosts)
        pair, other = sender.endpoint.create_rc(), receiver.endpoint.create_rc()
        pair.connect(other.local)
        other.connect(pair.local)
        data = right.copy()
        if wrong is not None:
            data[wrong] ^= 1
        target = receiver.endpoint.register(results.buffer(1))
        pair.post_write(sender.endpoint.register(data), 0, size, target.address, target.rkey)
        fabric.attach({0: sender, 1: receiver})
        fabric.run(stop_ns=1_000_000_000)
    assert np.array_equal(results.buffer(1), data)
    assert landings.unlike == (wrong is not None)
    compare_all([results], landings.rows, landings.unlike)
    found = results.wrong()
    assert found == ({} if wrong is None else {1: f"byte {wrong} of the shard of rank 0 is wrong"})


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"world": "emulated"}, "keep none: in the emulated world"),
        ({"collective": "allreduce"}, "keep none: allreduce has results of which each rank"),
        ({"payload": "none"}, "keep none: with payload none"),
        ({"cores": 2}, "keep none: with cores 2"),
    ],
)
def test_what_cannot_be_dropped_is_refused(asked: dict[str, object], said: str) -> None:
    fields: dict[str, Any] = {"collective": "allgather", "world": "simulated", **asked}
    with pytest.raises(InputError, match=said):
        Scenario(**fields, keep="none")


def test_what_memory_cannot_hold_is_refused_with_the_options_that_make_it_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(capacity, "available_bytes", lambda: 8 * GIB)
    asked: dict[str, Any] = {"world": "simulated", "leaves": 32, "spines": 32, "hosts_per_leaf": 32}
    kept = Scenario("allgather", size_bytes=64 << 10, payload="all", **asked)
    with pytest.raises(MachineError, match=r"or --keep none, which takes .*, or --payload none"):
        capacity.check_capacity(kept)
    with pytest.raises(MachineError, match=r"--keep none with --cores 1,.* none with --cores 1,"):
        capacity.check_capacity(Scenario("allgather", size_bytes=64 << 10, cores=2, **asked))
    dropped = Scenario("allgather", size_bytes=4096, keep="none", **asked)
    assert capacity.check_capacity(dropped) < 2 * GIB
    large = Scenario("allgather", size_bytes=1 << 20, keep="none", **asked)
    with pytest.raises(MachineError, match="even with --keep none"):
        capacity.check_capacity(large)
