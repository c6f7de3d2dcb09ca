"""Reshardings and training steps in the emulated world: real namespaces, packets and switches."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.resharding_support import asked_of, reshardings

from weft import Scenario, run
from weft.experiments.families.resharding.meshes import Mesh
from weft.experiments.families.resharding.plan import Tensor, plan

pytestmark = pytest.mark.system


def test_a_resharding_by_each_strategy() -> None:
    """Two hosts to three with a host in common, uneven shards; every byte is verified."""
    results = run(
        Scenario(
            "reshard", source="h0,h2x2:S0R", destination="h2,h5,h7x2:S1R", shape="501,300",
            dtype="float16", paths="ethereal", rate_bps=50_000_000,
            strategies=("broadcast", "multicast", "send-recv", "send-recv+allgather",
                        "global-allgather"),
        )
    )  # fmt: skip
    assert [each.error for each in results.runs] == [None] * 5
    assert results.verified


def test_a_resharding_with_loss() -> None:
    results = run(
        Scenario(
            "reshard", one_to_many="3x2", shape="200000", loss=0.01, rate_bps=50_000_000,
            strategies=("broadcast", "multicast"),
        )
    )  # fmt: skip
    assert [each.error for each in results.runs] == [None] * 2
    assert results.verified


@pytest.mark.slow
def test_a_training_step() -> None:
    """With the strategy that multicasts; the times of all actions come back."""
    results = run(
        Scenario(
            "pipeline", model="u-transformer-1b", micro_batches=4, stage_mesh="2x2",
            sharding="S1RRR", slowdown=0.05, rate_bps=50_000_000,
            strategies=("broadcast", "multicast"),
        )
    )  # fmt: skip
    assert results.verified, [each.error for each in results.runs]
    for each in results.runs:
        assert each.step is not None
        assert len(each.step.kind) == 2 * 2 * 2 * 4
        assert each.step.step_ns >= each.step.alone_ns


@settings(max_examples=5)
@given(reshardings(5), st.sampled_from([0.0, 0.02]))
def test_random_reshardings(asked: tuple[Mesh, Mesh, list[Tensor]], loss: float) -> None:
    source, destination, tensors = asked
    if not plan(source, destination, tensors).senders:
        return
    results = run(
        Scenario(
            "reshard", strategies=("broadcast", "multicast"), loss=loss, rate_bps=50_000_000,
            predict=False, **asked_of((source, destination), tensors),
        )
    )  # fmt: skip
    assert results.verified, [each.error for each in results.runs]
