"""Weights that move in the emulated world: real namespaces, packets and switches."""

from __future__ import annotations

import pytest

from weft import Scenario, run

pytestmark = pytest.mark.system


def test_weights_to_two_replicas() -> None:
    """Fused tensors and experts, as bfloat16 at the trainer and float8 at the engines; every byte
    is verified."""
    results = run(
        Scenario(
            "weights", model="qwen3-30b-a3b", layers=2, scale=0.0005, devices=2,
            from_mesh="pp=2,tp=2", to_mesh="tp=2,ep=2,replicas=2", to_dtype="float8_e4m3fn",
            strategies=("send-recv", "broadcast", "multicast"), rate_bps=50_000_000,
        )
    )  # fmt: skip
    assert [each.error for each in results.runs] == [None] * 3
    assert results.verified
    moved = {each.algorithm: each.weights for each in results.runs}
    assert moved["multicast"].trainer_bytes == moved["multicast"].model_bytes
