"""Weights that programs of PyTorch bring from one mesh to another, in the emulated world."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft as api
from weft import Net, TorchRun

pytestmark = [
    pytest.mark.system(alone=False),
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None,
        reason="torch is not installed: ./weft setup --torch",
    ),
]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def net() -> Iterator[Net]:
    with api.up(api.leaf_spine(leaves=2, spines=2, hosts_per_leaf=3)) as network:
        yield network


def run(net: Net, program: Path, *arguments: str, ranks: int) -> tuple[TorchRun, str]:
    output = io.StringIO()
    found = net.torch_run(
        program, *arguments, output=output, errors=output, timeout=400, ranks=ranks
    )  # fmt: skip
    return found, output.getvalue()


def test_state_dicts_go_from_mesh_to_mesh(net: Net) -> None:
    found, said = run(net, ROOT / "tests" / "pytorch_programs" / "transferring.py", ranks=6)
    assert found.status == 0, said
    assert "transfer: 12 state dicts from mesh to mesh" in said
    assert "transfer: 7 refused" in said
    assert ("transfer", "given") in found.collectives()


def test_engines_generate_with_the_weights_of_each_step(net: Net) -> None:
    found, said = run(net, ROOT / "examples" / "pytorch" / "sync_weights.py", ranks=4)
    assert found.status == 0, said
    assert said.count("engines have the trainer's weights") == 5
