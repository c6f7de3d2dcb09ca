"""What is said at the end of a run of a PyTorch program that went otherwise than one may think."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


@pytest.fixture(scope="module")
def net() -> Iterator[Net]:
    with api.up(api.leaf_spine(leaves=2, spines=2, hosts_per_leaf=2)) as network:
        yield network


def run(net: Net, folder: Path, text: str, *arguments: str, **options: Any) -> tuple[TorchRun, str]:
    """What came of a program of this text, which ended well, and what it printed."""
    script = folder / "program.py"
    script.write_text(text)
    output = io.StringIO()
    found = net.torch_run(script, *arguments, output=output, errors=output, timeout=120, **options)
    assert found.status == 0, output.getvalue()
    return found, output.getvalue()


AS_ACCELERATE = """
import sys, torch, torch.distributed as dist
dist.init_process_group(backend=sys.argv[1])  # as Accelerate does where there is no accelerator
tensor = torch.ones(50_000)
dist.all_reduce(tensor)
assert bool((tensor == dist.get_world_size()).all())
print("groups are of", dist.get_backend())
"""


def test_groups_of_gloo_that_a_program_names_are_told(net: Net, tmp_path: Path) -> None:
    found, said = run(net, tmp_path, AS_ACCELERATE, "gloo")
    assert said.count("groups are of gloo") == 4
    assert found.groups == {"gloo": 1} and not found.collectives()
    (note,) = found.notes
    assert "1 group of ranks is of the backend gloo, which the program named" in note
    assert "as the kernel's TCP" in note and "--as gloo makes them Weft's" in note


@pytest.mark.parametrize(
    ("named", "as_weft"),
    [("gloo", "gloo"), ("cpu:gloo,cuda:nccl", "gloo"), ("nccl", ("gloo", "nccl"))],
)
def test_names_of_other_backends_mean_weft_if_asked(
    net: Net, tmp_path: Path, named: str, as_weft: str | tuple[str, ...]
) -> None:
    found, said = run(net, tmp_path, AS_ACCELERATE, named, as_weft=as_weft)
    assert said.count("groups are of weft") == 4
    assert found.groups == {"weft": 1} and found.notes == []
    assert [name for name, _ in found.collectives()] == ["allreduce"]


SUMS = """
import sys, torch, torch.distributed as dist
dist.init_process_group()
rank, size = dist.get_rank(), dist.get_world_size()
wrong = sys.argv[1] == "wrong"

def total(dtype, value, beside=None):
    vector = torch.full((1024,), value, dtype=dtype)  # 4 blocks, of which the first is another
    if wrong and beside is not None and rank == 1:
        vector[5] = beside
    dist.all_reduce(vector)
    assert bool((vector[256:] == size * value).all()), dtype
    return vector

total(torch.float32, 1.0, 1e-12)
total(torch.bfloat16, 1.0, 1e-12)
total(torch.float16, 16384.0, 1e-7)
nan = total(torch.float32, 2.0, float("inf"))
assert bool(nan[:256].isnan().all()) == wrong
whole = total(torch.int32, 1000)
if wrong:
    large = torch.tensor([1 << 30] * 4, dtype=torch.int32)
    dist.all_reduce(large)
    assert large.tolist() == [(1 << 31) - 1] * 4
"""


def test_what_sums_lost_in_switches_is_told_in_one_note_of_a_kind(net: Net, tmp_path: Path) -> None:
    found, _ = run(net, tmp_path, SUMS, "right", allreduce="switch")
    assert found.notes == []
    found, _ = run(net, tmp_path, SUMS, "wrong", allreduce="switch")
    fixed_point, integers = found.notes
    assert "in 3 of 16 blocks (19 %) values other than 0 became 0" in fixed_point
    assert "1 of 16 blocks (6.2 %) became NaN" in fixed_point
    assert "in 1 block a sum did not fit into 32 bits" in integers
    assert all("with --allreduce ring" in each for each in found.notes)


GROUPS = """
import torch, torch.distributed as dist
dist.init_process_group()
for _ in range(100):
    group = dist.new_group()
    tensor = torch.ones(5_000)
    dist.all_reduce(tensor, group=group)
    assert bool((tensor == dist.get_world_size()).all())
"""


def test_a_hundred_groups_give_one_note(net: Net, tmp_path: Path) -> None:
    found, _ = run(net, tmp_path, GROUPS)
    assert found.groups == {"weft": 101}
    (note,) = found.notes
    assert note.startswith("of 101 groups of ranks that there were, ") and "go by rings" in note
