"""Figures that everything else hangs on, held to their definitions rather than to the code."""

from __future__ import annotations

import re
from typing import Any

import pytest

from weft import Fault, Scenario, run
from weft.agents.ranks import RankReport
from weft.experiments.runs.measured import completion_of
from weft.experiments.scenario.options import OPTIONS

P, N, B, MTU = 4, 1 << 18, 100_000_000, 4096
"""Ranks, bytes of each, bits a second, bytes of payload a packet."""
FRAME = 14 + 20 + 8 + 12 + 8 + 4 + MTU + 4
"""Ethernet, IPv4, UDP, BTH, DETH, immediate, a chunk, ICRC."""


def reported(*times_ns: int, failed: int | None = None) -> list[RankReport]:
    return [
        RankReport(rank, f"h{rank}", "ring", rank != failed, completion_ns=time_ns)
        for rank, time_ns in enumerate(times_ns)
    ]


def test_the_completion_time_is_that_of_the_slowest_rank() -> None:
    assert completion_of(reported(300, 900, 500)) == 900
    assert completion_of(reported(900, 300, 500)) == 900
    assert completion_of(reported(7)) == 7


def test_there_is_no_completion_time_unless_every_rank_verified() -> None:
    assert completion_of(reported(300, 900, 500, failed=0)) is None
    assert completion_of([]) is None


def test_a_run_is_done_when_its_last_rank_is() -> None:
    results = run(
        Scenario(
            world="simulated",
            collective="broadcast",
            topology="single",
            hosts_per_leaf=P,
            size_bytes=N,
            rate_bps=B,
            algorithms=("pipelined-ring",),
            block_bytes=N,
        )
    )
    (one,) = results.runs
    ends_ns = [rank.completion_ns or 0 for rank in one.ranks]
    # One block goes from rank to rank: each has it one link's time of the whole after the one
    # before, so that the last is P - 1 such times from the start, and the first far from it.
    whole_ns = N * 8 * 10**9 // B
    assert min(ends_ns) < 2.5 * whole_ns
    assert one.completion_ns == max(ends_ns)
    assert one.completion_ns >= (P - 1) * whole_ns


@pytest.mark.parametrize(("cutoff", "times"), [("paper", 5), ("adaptive", 1)])
def test_what_is_lost_is_fetched_after_the_papers_five_times_the_expected_time(
    cutoff: str, times: int
) -> None:
    """SC24: the cutoff timer is 5 x expected bytes / link bandwidth from the begin of the data."""
    results = run(
        Scenario(
            world="simulated",
            topology="single",
            hosts_per_leaf=P,
            size_bytes=N,
            rate_bps=B,
            mtu=MTU,
            algorithms=("multicast",),
            cutoff=cutoff,
            faults=(Fault.parse("leaf0>h2:lose=20,opcode=chunk"),),
        )
    )
    assert results.verified
    (one,) = results.runs
    hit, *others = sorted(one.ranks, key=lambda rank: rank.rank != 2)
    expected_ns = (P - 1) * (N // MTU) * FRAME * 8 * 10**9 / B
    assert hit.phases_ns["recovery"] > 0
    assert hit.phases_ns["data"] == pytest.approx(times * expected_ns, rel=0.1)
    for rank in others:  # they have everything in the expected time
        assert rank.phases_ns["data"] < 1.1 * expected_ns


SWITCH = {"collective": "allreduce", "algorithms": ("switch",)}


@pytest.mark.parametrize(
    ("field", "asked"),
    [
        ("leaves", {}), ("spines", {}), ("k", {"topology": "fat-tree"}),
        ("tiers", {"topology": "fat-tree"}), ("rate_bps", {}), ("rate_bps", {"switch": "bmv2"}),
        ("reorder_packets", {"recovery": "selective"}), ("reorder_packets", {"paths": "spray"}),
        ("slots", SWITCH), ("values", SWITCH), ("values", {**SWITCH, "switch": "bmv2"}),
        ("dtype", {}), ("dtype", {"collective": "allreduce"}),
        (
            "notice_after_ns",
            {"notice": "late", "faults": (Fault.parse("leaf0-spine1:fail,at=1ms"),)},
        ),
    ],
)  # fmt: skip
def test_the_default_that_help_shows_is_what_is_filled_in(
    field: str, asked: dict[str, Any]
) -> None:
    (row,) = (each for each in OPTIONS.values() if each.field == field)
    filled_in = row.kind.write(getattr(Scenario(**asked), field))
    assert filled_in in re.findall(r"\w+", row.default_text or "")
