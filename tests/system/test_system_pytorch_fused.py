"""Fused operators of PyTorch on hosts of the emulated world: the programs in pytorch_programs
compare them with plain computation, and say what they are told when something goes wrong."""

from __future__ import annotations

import importlib.util
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.system_support import weft

import weft as api
from weft import Net, TorchRun
from weft.experiments.families.programs.results import TorchRun as Document

pytestmark = [
    pytest.mark.system(alone=False),
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None,
        reason="torch is not installed: ./weft setup --torch",
    ),
]

PROGRAMS = Path(__file__).resolve().parents[1] / "pytorch_programs"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "pytorch"


@pytest.fixture(scope="module")
def net() -> Iterator[Net]:
    with api.up(api.leaf_spine(leaves=2, spines=2, hosts_per_leaf=2)) as network:
        yield network


def run(net: Net, program: Path, *arguments: str, **options: Any) -> tuple[TorchRun, str]:
    """What came of a program, and what it printed."""
    output = io.StringIO()
    options = {"timeout": 100, **options}
    found = net.torch_run(program, *arguments, output=output, errors=output, **options)
    return found, output.getvalue()


def test_all_operators_compute_what_plain_ones_do(net: Net) -> None:
    found, said = run(net, PROGRAMS / "fused.py", "--quick")
    assert found.status == 0, said
    assert said.count("checks") == 4
    assert {
        ("gemv_allreduce", "fused"), ("gemv_allreduce", "switch"),
        ("embedding_all_to_all", "fused"), ("embedding_all_to_all_backward", "fused"),
        ("gemm_all_to_all", "fused"), ("gemm_all_to_all_backward", "fused"),
        ("fused_all_gather_matmul", "fused"), ("fused_matmul_reduce_scatter", "fused"),
    } <= {*found.collectives()}  # fmt: skip
    assert found.management_bytes < 200_000


@pytest.mark.system
def test_what_does_not_fit_together_is_an_error_in_every_rank(net: Net) -> None:
    """No rank waits, the group is of no use any more, and other groups are."""
    found, said = run(net, PROGRAMS / "fused_failures.py", "apart")
    assert found.status == 0, said
    assert "not noticed" not in said
    assert said.count("the group of all ranks works") == 4
    differ = "do not call the same"
    why = {
        "size": (differ, "gemv_allreduce of 999 x 1", "gemv_allreduce of 1000 x 1", "rank 1"),
        "tiles": ("the sizes do not fit together", "14 slices of 2000 bytes", "8 slices of 2000"),
        "operator": (differ, "rank 1", "gemm_all_to_all of (1, 8, 8)", "gemv_allreduce of 1000"),
        "collective": (differ, "allreduce of 1000 torch.float32 by sum", "gemv_allreduce of 1000"),
        "collective_of_the_others": (
            differ,
            "allreduce of 1000 torch.float32",
            "gemv_allreduce of 1000",
        ),
        "refused_by_one": (
            "order 'backwards': choose from remote-first, local-first, interleaved",
        ),
        "refused_by_one_of_those_whose_sums_switches_make": ("slice_tiles -1: choose 1 or more",),
        "counts": ("rank 0 sends 1 slice of 64 bytes in all, and rank 1 expects 1 slice of 96",),
        "raises_inside": ("no memory is left",),
    }
    for name, texts in why.items():
        for attempt in ("told", "again"):
            lines = re.findall(rf"\[\d\] {name}: {attempt} after (.*?) s: (.*)", said)
            assert len(lines) == 4, (name, said)
            for took, line in lines:
                assert float(took) < 5, line
                assert attempt == "again" or all(text in line for text in texts), line


def test_what_all_ranks_refuse_is_a_value_error_and_does_no_harm(net: Net) -> None:
    found, said = run(net, PROGRAMS / "fused_failures.py", "bad")
    assert found.status == 0, said
    assert said.count("35 calls are refused, and what is right goes on") == 4


DEATHS = {
    "killed": "lost rank 1 of the run: its process on host h1 was killed by signal 9",
    "raises": "lost rank 1 of the run: its process on host h1 ended with status 1",
    "backward": "lost rank 1 of the run: its process on host h1 ended with status 3",
    "ends": "the program of rank 1 of the run has come to its end, and takes no part in it",
    "stopped": "lost rank 1 of the run: its process on host h1 has been stopped (SIGSTOP) for",
}


QUICK = "killed"
LATER = [pytest.param(how, marks=pytest.mark.slow) for how in DEATHS if how != QUICK]


@pytest.mark.parametrize("how", [QUICK, *LATER])
def test_those_who_wait_for_flags_of_a_peer_that_is_gone_hear_who(net: Net, how: str) -> None:
    limit = 13 if how == "stopped" else 60  # a process that is stopped does not end by itself
    found, said = run(net, PROGRAMS / "fused_failures.py", how, timeout=limit)
    told = re.findall(r"\[[023]\] told after (.*) s: (.*)", said)
    assert len(told) == 3, said
    for took, why in told:
        assert DEATHS[how] in why
        assert float(took) < (15 if how == "stopped" else 5)
    assert (found.status == 0) == (how == "ends")


@pytest.mark.slow
def test_all_operators_in_groups_of_some_ranks(net: Net) -> None:
    found, said = run(net, PROGRAMS / "fused.py", "--groups")
    assert found.status == 0, said
    assert said.count("checks") == 5


@pytest.mark.slow
def test_with_loss_operators_compute_the_same(tmp_path: Path) -> None:
    done = weft(
        "torch", "run", "--leaves", "2", "--spines", "1", "--hosts-per-leaf", "1", "--loss", "1%",
        "--out", "out", str(PROGRAMS / "fused.py"), "--quick", "gemv", "embedding", "gemm",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("checks") == 2
    assert sum(link.lost for link in Document.read(tmp_path / "out").links) > 0


@pytest.mark.slow
def test_layers_train_as_unfused_and_as_in_one_process(net: Net) -> None:
    """And operators are compiled as whole graphs, and pass torch.library.opcheck."""
    found, said = run(net, PROGRAMS / "fused_layers.py")
    assert found.status == 0, said
    for what in ("DLRM: losses", "linear: losses", "mixture of experts: losses"):
        assert said.count(what) == 4
    assert "compiled: five operators, whole graphs" in said
    assert "opcheck: five operators" in said


DISPATCH = """
import sys, torch, torch.distributed as dist
from weft.torch import MixtureOfExperts
dist.init_process_group()
layer = MixtureOfExperts(256, 8, dist.get_world_size(), top_k=4, dispatch=sys.argv[1])
with torch.no_grad():
    layer(torch.ones(512, 256))
"""


@pytest.mark.slow
def test_by_multicast_a_token_leaves_its_host_once(net: Net, tmp_path: Path) -> None:
    """Each of 512 tokens of each of 4 ranks is wanted by all, and comes back from all."""
    script = tmp_path / "dispatch.py"
    script.write_text(DISPATCH)
    all_tokens = 4 * 512 * 256 * 4
    for dispatch, leaves in (("unicast", 3), ("multicast", 1)):
        found, said = run(net, script, dispatch)
        assert found.status == 0, said
        up = (leaves + 3) * all_tokens
        assert up < found.tiers["host_up"] < 1.25 * up


@pytest.mark.slow
@pytest.mark.parametrize(
    ("example", "arguments", "equal"),
    [
        ("train_dlrm.py", ["--steps", "10"], "fused and unfused: all losses are the same bits"),
        ("decode.py", [], "the same letters as by one rank"),
        ("train_moe.py", ["--dispatch", "multicast"], "fused and unfused: losses differ by"),
    ],
)
def test_examples_are_equal_to_themselves_unfused(
    net: Net, example: str, arguments: list[str], equal: str
) -> None:
    found, said = run(net, EXAMPLES / example, *arguments)
    assert found.status == 0, said
    assert said.count(equal) == 1
    losses = [float(loss) for loss in re.findall(r"] fused, .*: loss (\S+),", said)]
    assert not losses or losses[-1] < 0.9 * losses[0]
