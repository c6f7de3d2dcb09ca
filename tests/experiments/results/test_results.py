"""The results document and what theory says of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft.base.errors import InputError
from weft.experiments.results.results import (
    Fidelity,
    LinkResult,
    RankResult,
    Results,
    Run,
    tier_bytes,
)
from weft.experiments.scenario.scenario import Scenario


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


def test_a_document_from_before_experiments_had_points_is_read(tmp_path: Path) -> None:
    results = Results([a_run()], "abcdef", "now")
    document = results.to_dict()
    del document["swept"], document["plots"]
    assert Results.from_dict(document) == results


def test_a_failed_run_that_an_older_document_calls_ok_is_read_as_failed() -> None:
    results = Results.from_dict(Results([a_run(False), a_run()], "abcdef", "now").to_dict())
    failed, good = results.runs
    assert (failed.fidelity.verdict, good.fidelity.verdict) == ("failed", "ok")
    assert failed.fidelity.reasons == ["the run failed, so it has no times that could be judged"]
    assert Results.from_dict(results.to_dict()) == results


def test_what_is_swept_must_be_options() -> None:
    document = Results([a_run()], "abcdef", "now", swept=["size"]).to_dict()
    document["swept"].append("sise")
    with pytest.raises(InputError, match=r"damaged: swept\[1\] is 'sise', which is no option"):
        Results.from_dict(document)


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
