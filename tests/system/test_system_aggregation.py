"""Sums in switches and on reduction servers in the emulated world: real namespaces and packets.

Rates are low, so that a busy machine changes nothing but times, which no test looks at.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support.collective_names import COLLECTIVES
from tests.support.emulated_support import needs_machine
from tests.support.system_support import (
    NETWORK,
    UNEQUAL_NUMBERS,
    count_frames,
    left_as_it_was,
    on_one_network,
    weft,
)

from weft import Scenario, run
from weft.experiments.results.results import Run
from weft.topo.faults import Fault
from weft.topo.worlds.emulated.switch_processes import BMV2

pytestmark = [needs_machine, pytest.mark.system]

SLOW: dict[str, Any] = {"rate_bps": 20_000_000, "spines": 1}
SMALL = {"collective": "allreduce", "size_bytes": 50_000}
LONG = {"collective": "allreduce", "size_bytes": 1 << 20}
"""Longer than anything waits here before it breaks the operation."""
SERVERS: dict[str, Any] = {"algorithms": ("optcast",), "servers": 2}
SWITCHES = {"algorithms": ("switch",)}


def check_verified(runs: list[Run]) -> None:
    for one in runs:
        assert one.verified, f"{one.scenario['collective']} by {one.algorithm}: {one.error}"
        assert [rank.verified for rank in one.ranks] == [True] * 4


def test_every_algorithm_sums_on_links_that_lose() -> None:
    lossy = {"loss": 0.005, "servers": 2, **SLOW}
    points = on_one_network(
        {**SMALL, "algorithms": COLLECTIVES["allreduce"], "dtype": "int32", "op": "average"},
        {
            "collective": "reduce-scatter", "algorithms": ("optcast", "switch"),
            "operations": 3, "at_once": 2, **UNEQUAL_NUMBERS,
        },
        **lossy,
    )  # fmt: skip
    for runs in points:
        check_verified(runs)
    assert sum(one.dropped for runs in points for one in runs) > 0


def test_servers_may_share_the_ranks_hosts_and_jobs_the_network() -> None:
    shared = {**SMALL, "server_placement": "ranks", **SLOW}
    points = on_one_network(
        {**shared, **SERVERS, "servers": 4, "fan_in": 2, "split": 6},
        {**shared, "algorithms": ("optcast", "switch"), "servers": 3, "jobs": 2, "slots": 16},
    )
    for runs in points:
        check_verified(runs)


def test_sums_of_gradients_have_the_same_errors_as_in_the_simulated_world() -> None:
    options = {
        **SMALL, **SLOW, "algorithms": ("ring", "optcast", "switch"), "servers": 2, "jobs": 2,
        "data": "mixed",
    }  # fmt: skip
    (runs,) = on_one_network(options)
    check_verified(runs)
    simulated = run(Scenario(**{**NETWORK, **options, "world": "simulated"})).runs
    assert all(one.accuracy is not None for one in runs)
    assert [one.accuracy for one in runs] == [one.accuracy for one in simulated]


def test_who_is_killed_is_named_and_the_next_run_on_the_network_works() -> None:
    both = {"algorithms": ("optcast", "switch")}
    points = on_one_network(
        {**LONG, **SERVERS, "faults": (Fault.parse("h2:kill,at=40ms"),)},
        {**LONG, **SERVERS, **both, "faults": (Fault.parse("h4:kill,at=40ms"),)},
        {**SMALL, **SERVERS, **both},
        **SLOW,
    )
    *broken, whole = points
    for runs, who in zip(broken, (r"server 0 \(host h2", r"rank 3 \(host h4"), strict=True):
        for one in runs:
            assert not one.verified
            assert re.search(who + r", pid \d+\): .*SIGKILL", one.error or ""), one.error
    check_verified(whole)


def test_captures_of_sums_hold_rocev2_with_the_right_icrc(tmp_path: Path) -> None:
    with left_as_it_was():
        done = weft(
            "run", "allreduce", "--json", "--out", "out", "--algorithm", "switch",
            "--algorithm", "optcast", "--servers", "2", "--leaves", "2", "--spines", "1",
            "--size", "8KB", "--rate", "20Mbit", "--pcap", "--no-predict", cwd=tmp_path,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    files = sorted((tmp_path / "out" / "pcap").glob("*.pcap"))
    assert len(files) == 2 * (6 + 2)
    for file in files:
        assert count_frames(file)[0] > 0, file


@pytest.mark.skipif(shutil.which(BMV2) is None, reason=f"{BMV2} (BMv2) is not on PATH")
def test_bmv2_sums() -> None:
    (runs,) = on_one_network(
        {
            **SWITCHES, "collective": "allreduce", "size_bytes": 8_000, "values": 16,
            "rate_bps": 500_000, "spines": 1,
        },
        switch="bmv2",
    )  # fmt: skip
    check_verified(runs)
