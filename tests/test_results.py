"""The results document and what theory says of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.bounds import completion_bound_ns, tier_model_bytes
from experiments.results import Fidelity, LinkResult, RankResult, Results, Run, tier_bytes
from experiments.scenario import Scenario
from switch.errors import InputError
from topo import clos


def a_run(verified: bool = True) -> Run:
    links = [LinkResult("h0", "leaf0", "host_up", 10, 1000, 1, 2)]
    return Run(
        scenario=Scenario().to_dict(),
        algorithm="ring",
        repetition=0,
        verified=verified,
        completion_ns=5 if verified else None,
        bound_ns=4,
        goodput_bps=1.0,
        ranks=[RankResult(0, "h0", verified, 5, None, 3)],
        links=links,
        tiers=tier_bytes(links),
        fidelity=Fidelity("ok", [], 0.5, 0.0, {}, {}, 0),
    )


def test_a_document_that_was_written_reads_back_the_same(tmp_path: Path) -> None:
    results = Results([a_run()], "abcdef", "2026-01-01T00:00:00Z", notes=["a note"])
    results.write(tmp_path)
    assert Results.read(tmp_path) == results
    assert Results.read(tmp_path / "results.json") == results


def test_the_document_has_the_documented_names() -> None:
    document = Results([a_run()], "abcdef", "now").to_dict()
    assert (document["schema"], document["schema_version"]) == ("weft.results", 1)
    run = document["runs"][0]
    assert {"scenario", "algorithm", "verified", "completion_ns", "ranks", "links", "tiers"} <= set(
        run
    )
    link = run["links"][0]
    assert (link["from"], link["to"], link["tx_packets"], link["tx_bytes"]) == (
        "h0", "leaf0", 10, 1000,
    )  # fmt: skip
    assert link["dropped"] == 3
    json.dumps(document)


def test_results_are_verified_only_if_every_run_is() -> None:
    assert Results([a_run()], "x", "now").verified
    assert not Results([a_run(), a_run(False)], "x", "now").verified
    assert not Results([], "x", "now").verified


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": "weft.results", "schema_version": 9}']
)
def test_what_is_no_results_document_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(InputError, match="results"):
        Results.read(tmp_path)


def test_bounds_are_the_papers() -> None:
    n_over_b = (1 << 20) * 8 * 10**9 // 100_000_000
    assert completion_bound_ns(Scenario(), "ring") == 7 * n_over_b // 1
    assert completion_bound_ns(Scenario(), "multicast") == 7 * n_over_b
    assert completion_bound_ns(Scenario(chains=2), "multicast") == 8 * n_over_b
    assert completion_bound_ns(Scenario(chains=3), "multicast") == 9 * n_over_b


@pytest.mark.parametrize("ranks", [4, 8, 16])
def test_below_one_switch_ring_moves_two_minus_two_over_p_times_the_bytes(ranks: int) -> None:
    network = clos.single(ranks)
    ring = sum(tier_model_bytes(network, 1000, "ring").values())
    multicast = sum(tier_model_bytes(network, 1000, "multicast").values())
    assert ring / multicast == pytest.approx(2 - 2 / ranks)


def test_the_traffic_model_on_trees() -> None:
    assert tier_model_bytes(clos.leaf_spine(4, 2, 2), 1, "multicast") == {
        "host_up": 8, "host_down": 56, "fabric_up": 8, "fabric_down": 24,
    }  # fmt: skip
    assert tier_model_bytes(clos.leaf_spine(4, 2, 2), 1, "ring") == {
        "host_up": 56, "host_down": 56, "fabric_up": 28, "fabric_down": 28,
    }  # fmt: skip
    # k = 4: 16 hosts, 8 leaves, 4 pods; a tree is 8 leaf links and 4 pod links; 2 of 12 lead up.
    assert tier_model_bytes(clos.fat_tree(4), 1, "multicast") == {
        "host_up": 16, "host_down": 240, "fabric_up": 32, "fabric_down": 160,
    }  # fmt: skip
    # Of 16 ring hops 8 stay below a leaf, 4 below a pod, 4 cross the core.
    assert tier_model_bytes(clos.fat_tree(4), 1, "ring") == {
        "host_up": 240, "host_down": 240, "fabric_up": 12 * 15, "fabric_down": 12 * 15,
    }  # fmt: skip
