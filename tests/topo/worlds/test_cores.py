"""Networks that several threads drive, a part each: what happens is the same as on one core."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden.recording import scenario_of

from weft import Scenario
from weft.base.errors import InputError
from weft.experiments.runs.inputs import program_of
from weft.experiments.runs.notes import notes_on
from weft.experiments.runs.simulation import simulate
from weft.experiments.scenario.sweep import Point
from weft.topo.clos import fat_tree, leaf_spine, single
from weft.topo.network import Topology
from weft.topo.worlds.simulated.cut import cut

FLOWS = "flows --workload tests/golden/permutation.cm --leaves 4 --delay 1us --rate 10Gbit"


def ran(scenario: Scenario) -> dict[str, Any]:
    """What came of a run, but for what links carried by time, which is not counted on several
    cores."""
    (algorithm,) = scenario.algorithms
    run = simulate(scenario, program_of(scenario), algorithm, 0, lambda _: None).to_dict()
    for link in run["links"]:
        del link["load_bytes"]
    del run["load_bin_ns"], run["scenario"]
    return run


@pytest.mark.parametrize(
    "more",
    [
        "",
        "--paths spray --loss 1%",
        "--paths reps --fault leaf0-spine1:fail,at=20us,for=300us",
        "--paths ethereal --fault leaf2-spine0:slow,rate=0.25,at=10us --congestion dctcp",
        "--topology fat-tree --k 4 --paths ecmp-4 --fault leaf1-agg0:loss=0.05",
    ],
)
def test_any_number_of_cores_gives_the_same_run(more: str) -> None:
    line = f"{FLOWS} {more}".replace("--leaves 4", "" if "fat-tree" in more else "--leaves 4")
    scenario = scenario_of(line)
    one = ran(scenario)
    assert one["verified"]
    for cores in (2, 3):
        assert ran(replace(scenario, cores=cores)) == one, f"with {cores} cores"
