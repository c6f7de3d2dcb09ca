"""Every collective in the emulated world: real namespaces, switches, packets and threads.

Runs share networks, for what takes time is bringing one up.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.support.collective_names import COLLECTIVES
from tests.support.emulated_support import needs_machine
from tests.support.system_support import UNEQUAL_NUMBERS, on_one_network, runs_of
from tests.support.theory_support import OFFLOADED

from weft.base.progress import Progress
from weft.experiments.results.results import Run
from weft.topo.faults import Fault
from weft.topo.worlds.emulated.cleanup import marked_processes
from weft.topo.worlds.emulated.switch_processes import BMV2

pytestmark = [needs_machine, pytest.mark.system]

UNEQUAL = {"sizes_bytes": (100_000, 0, 3, 65_536)}
LOSS = {"loss": 0.01}
MULTICAST = {"algorithms": ("multicast",)}
SLOW: dict[str, Any] = {"rate_bps": 20_000_000}
LONG = dict.fromkeys(("allgather", "reduce-scatter"), 4 << 20)
LONG |= dict.fromkeys(("broadcast", "allreduce", "alltoall", "many-to-one"), 16 << 20)
"""Bytes that take slow links seconds longer than all waits here before it breaks the operation."""


def unicast(collective: str) -> tuple[str, ...]:
    """Those without the sums in the network, which test_system_aggregation.py has."""
    return tuple(name for name in COLLECTIVES[collective] if name not in OFFLOADED)


def check_verified(runs: list[Run]) -> None:
    for one in runs:
        assert one.verified, f"{one.scenario['collective']} by {one.algorithm}: {one.error}"
        assert [rank.verified for rank in one.ranks] == [True] * 4


def test_nothing_is_sent_twice_where_nothing_is_lost_on_slow_links() -> None:
    """On slow links hosts hold small messages and acknowledgements back for long, as their bursts
    take long: with timeouts that did not count this, eight messages were always sent twice."""
    asked = {"collective": "allreduce", "algorithms": ("ring",), "size_bytes": 256 << 10}
    single = {"topology": "single", "leaves": None, "spines": None, "hosts_per_leaf": 8}
    twice: list[int] = []
    while min(twice, default=3) > 2 and len(twice) < 3:  # or a processor was busy
        [[one]] = on_one_network({**asked, **single}, rate_bps=5_000_000)
        assert one.verified
        twice.append(sum(rank.statistics["retransmitted_packets"] for rank in one.ranks))
    assert min(twice) <= 2, twice


def test_every_collective_by_every_algorithm_takes_unequal_shards() -> None:
    points = on_one_network(
        {"collective": "allgather", "algorithms": COLLECTIVES["allgather"], **UNEQUAL},
        {
            "collective": "broadcast", "algorithms": COLLECTIVES["broadcast"], "root": 2,
            "size_bytes": 100_003,
        },
        *(
            {
                "collective": "reduce-scatter", "algorithms": unicast("reduce-scatter"),
                "dtype": dtype, "op": op, **UNEQUAL_NUMBERS,
            }
            for dtype, op in (("float32", "sum"), ("int32", "max"))
        ),
    )  # fmt: skip
    for runs in points:
        check_verified(runs)


class ThreadCounter(Progress):
    """Counts the threads of a rank while an operation runs."""

    def __init__(self) -> None:
        super().__init__(Console(quiet=True), quiet=True)
        self.threads: list[int] = []
        """The most that a process of the launcher's had, by stage."""

    @contextmanager
    def stage(self, name: str, description: str) -> Iterator[Callable[[float], None]]:
        with super().stage(name, description) as advance:
            if not name.startswith("multicast"):
                yield advance
                return
            self.threads.append(0)

            def count(fraction: float) -> None:
                self.threads[-1] = max(self.threads[-1], threads_of_ranks())
                advance(fraction)

            yield count


def threads_of_ranks() -> int:
    """The most threads that a rank of this process's run has now."""
    (run_id,) = runs_of(os.getpid())
    processes = sorted(marked_processes(run_id), key=lambda one: one.started)
    counts = []
    for process in processes:
        try:
            line = Path(f"/proc/{process.pid}/cmdline").read_bytes()
            if b"weft.agents.drivers.launcher" in line:
                counts.append(len(os.listdir(f"/proc/{process.pid}/task")))
        except OSError:
            continue
    return max(counts[1:], default=0)  # the first is the launcher


def test_multicast_is_received_by_a_thread_for_each_worker_and_recovers_from_loss() -> None:
    counter = ThreadCounter()
    workers = (1, 2, 3)
    points = on_one_network(
        *({**MULTICAST, "workers": count, "size_bytes": 300_000, **LOSS} for count in workers),
        progress=counter,
    )
    for runs in points:
        check_verified(runs)
    assert sum(runs[0].dropped for runs in points) > 0
    assert sum(rank.statistics["chunks_fetched"] for (one,) in points for rank in one.ranks) > 0
    alone = counter.threads[0]
    assert counter.threads == [alone, alone + 2, alone + 3]


def test_large_chunks_batches_and_several_operations_at_once_survive_loss() -> None:
    several = {"operations": 6, "at_once": 3}
    reduced = {"collective": "reduce-scatter", "algorithms": ("ring",), **UNEQUAL_NUMBERS}
    points = on_one_network(
        {**MULTICAST, **UNEQUAL, "chunk_bytes": 16_384},
        {**MULTICAST, **UNEQUAL, "chunk_bytes": 8_192, "workers": 2, **LOSS},
        {**MULTICAST, **UNEQUAL, "batch": 4, **LOSS},
        {"algorithms": ("multicast", "ring"), **UNEQUAL, **several, **LOSS},
        {
            "collective": "broadcast", "algorithms": ("multicast", "binary-tree"), "root": 3,
            "size_bytes": 200_001, "workers": 2, **several, **LOSS,
        },
        {**reduced, **several, **LOSS},
    )  # fmt: skip
    for runs in points:
        check_verified(runs)
    assert sum(one.dropped for runs in points for one in runs) > 0


def test_a_rank_killed_in_any_collective_is_named_and_the_next_run_on_the_network_works() -> None:
    kinds = [(collective, name) for collective in COLLECTIVES for name in unicast(collective)]
    killed = (Fault.parse("h3:kill,at=40ms"),)
    points = on_one_network(
        *(
            {"collective": collective, "algorithms": (name,), **more}
            for collective, name in kinds
            for more in (
                {"size_bytes": LONG[collective], "faults": killed},
                {"size_bytes": 10_000, "seed": 1},
            )
        ),
        **SLOW,
    )
    for (collective, name), (broken,), whole in zip(kinds, points[::2], points[1::2], strict=True):
        assert not broken.verified
        assert broken.completion_ns is None
        assert broken.error is not None
        assert re.search(
            rf"^rank 3 \(host h3, pid \d+\): .*SIGKILL.* {collective.title()} by {name}$",
            broken.error,
        )
        check_verified(whole)


DEAD_PEER = r"lost rank 3 \(10\.0\.1\.2\) .* acknowledged nothing for 2(\.\d+)? s"
"""What is said of a peer that is given up by the transport, and not at the operation's limit."""


@pytest.mark.slow
def test_ranks_behind_a_link_that_fails_for_good_are_named_long_before_the_operations_limit() -> (
    None
):
    failed = (Fault.parse("h3-leaf1:fail,at=40ms"),)
    kinds = [
        ("allgather", "multicast"), ("allgather", "recursive-doubling"),
        ("broadcast", "multicast"), ("broadcast", "binary-tree"), ("reduce-scatter", "ring"),
    ]  # fmt: skip
    points = on_one_network(
        *(
            {
                "collective": collective, "algorithms": (name,), "size_bytes": LONG[collective],
                "faults": failed,
            }
            for collective, name in kinds
        ),
        {"algorithms": ("multicast", "ring"), "size_bytes": 10_000},
        **SLOW,
    )  # fmt: skip
    *broken, whole = points
    for (one,) in broken:
        assert not one.verified
        # In a Broadcast who has everything and has passed it on is done.
        survivors = [rank.error for rank in one.ranks[:3] if not rank.verified]
        assert survivors
        for error in survivors:
            assert error is not None
            assert re.search(DEAD_PEER, error), error
        assert one.ranks[3].error
        assert one.error is not None
        assert re.search(DEAD_PEER, one.error), one.error
    check_verified(whole)


@pytest.mark.skipif(shutil.which(BMV2) is None, reason=f"{BMV2} (BMv2) is not on PATH")
def test_bmv2_carries_every_collective_with_workers_and_loss() -> None:
    points = on_one_network(
        {"algorithms": ("multicast", "ring"), **UNEQUAL},
        {
            "algorithms": ("multicast", "linear"), **UNEQUAL, **LOSS,
            "workers": 2, "chunk_bytes": 8_192, "operations": 3, "at_once": 2,
        },
        {
            "collective": "broadcast", "algorithms": ("multicast", "k-nomial"), "root": 2,
            "size_bytes": 100_003, "workers": 2, "batch": 4, **LOSS,
        },
        {
            "collective": "reduce-scatter", "algorithms": unicast("reduce-scatter"),
            **UNEQUAL_NUMBERS,
        },
        switch="bmv2",
    )  # fmt: skip
    for runs in points:
        check_verified(runs)
