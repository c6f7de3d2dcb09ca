"""Programs of PyTorch on hosts of the emulated world: each of the programs in pytorch_programs
checks itself, and knows nothing of Weft."""

from __future__ import annotations

import importlib.util
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.system_support import ENVIRONMENT, Machine, weft

import weft as api
from weft import Net, TorchRun
from weft.experiments.families.programs.results import TorchRun as Document

pytestmark = [
    pytest.mark.system(alone=False),
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None,
        reason="torch is not installed: ./weft setup --torch",
    ),
]

PROGRAMS = Path(__file__).resolve().parents[1] / "pytorch_programs"
GPT = Path(__file__).resolve().parents[2] / "examples" / "pytorch" / "train_gpt.py"


@pytest.fixture(scope="module")
def net() -> Iterator[Net]:
    with api.up(api.leaf_spine(leaves=2, spines=2, hosts_per_leaf=2)) as network:
        yield network


def run(net: Net, program: str, *arguments: str, **options: Any) -> tuple[TorchRun, str]:
    """What came of a program, and what it printed."""
    output = io.StringIO()
    found = net.torch_run(
        PROGRAMS / program, *arguments, output=output, errors=output, timeout=400, **options
    )
    return found, output.getvalue()


def printed(net: Net, folder: Path, text: str, *arguments: str, **options: Any) -> str:
    """What a program of this text printed, which ended well."""
    script = folder / "program.py"
    script.write_text(text)
    output = io.StringIO()
    found = net.torch_run(script, *arguments, output=output, errors=output, **options)
    assert found.status == 0, output.getvalue()
    return output.getvalue()


@pytest.mark.parametrize(
    "algorithms",
    [
        {},
        {"allreduce": "ring", "allgather": "ring", "broadcast": "pipelined-ring"},
        {"allreduce": "optcast", "reduce_scatter": "optcast"},
        {"allreduce": "switch", "reduce_scatter": "switch", "allgather": "multicast",
         "broadcast": "multicast"},
    ],
    ids=["default", "rings", "servers", "switches"],
)  # fmt: skip
def test_all_collectives_by_all_algorithms(net: Net, algorithms: dict[str, str]) -> None:
    quick = [] if not algorithms else ["--quick"]
    found, said = run(net, "collectives.py", *quick, **algorithms)
    assert found.status == 0, said
    assert said.count("checks") == 5  # of all ranks, and of four groups of some
    used = {algorithm for _, algorithm in found.collectives()}
    assert set(algorithms.values()) <= used


def test_every_call_of_the_interface_does_what_it_does_over_gloo(net: Net) -> None:
    """In a group of all ranks and in one of some; what Gloo lacks is as each rank computes it."""
    found, said = run(net, "beside_gloo.py")
    assert found.status == 0, said
    assert said.count("0 wrong; ") == 4 + 3, said


def test_torchs_own_tools_see_what_they_see_of_gloo(net: Net) -> None:
    """Profiler, CommDebugMode, FakeTensorMode, flight recorder; and DTensors go by all-to-all."""
    found, said = run(net, "watched.py")
    assert found.status == 0, said
    assert said.count("as over Gloo") == 4, said


def test_a_program_of_one_rank_and_of_three(net: Net) -> None:
    for ranks in (1, 3):
        found, said = run(net, "collectives.py", "--quick", ranks=ranks)
        assert found.status == 0, said
        assert len(found.ranks) == ranks


def test_training_by_every_wrapper_is_as_in_one_process(net: Net) -> None:
    found, said = run(net, "wrappers.py")
    assert found.status == 0, said
    for what in ("DDP", "FSDP2, clipped", "HSDP", "tensor parallel", "pipeline, 1F1B"):
        assert f"{what}: losses" in said
    rank = found.ranks[1]
    assert len(rank.step_ns) == len(rank.losses) >= 40
    assert rank.exposed_ns + rank.computation_ns == rank.total_ns
    assert found.groups_in_switches > 1


def test_what_torch_does_not_have(net: Net) -> None:
    """Eager 1F1B trains as 1F1B does, to the bit; DTensors go from mesh to mesh."""
    found, said = run(net, "beyond_torch.py")
    assert found.status == 0, said
    assert "32 losses, the same bits as 1F1B's" in said
    assert "reshard: 36 tensors from mesh to mesh" in said
    assert ("reshard", "given") in found.collectives()


def losses_of(said: str) -> list[float]:
    """The losses that the GPT prints."""
    lines = (line for line in said.splitlines() if ": loss " in line)
    return [float(line.split("loss ")[1].split(",")[0]) for line in lines]


@pytest.fixture(scope="module")
def alone() -> list[float]:
    """The losses of ten steps of the GPT in one process."""
    done = subprocess.run(
        [sys.executable, str(GPT), "--parallel", "none"], capture_output=True, text=True, check=True
    )
    return losses_of(done.stdout)


@pytest.mark.parametrize("how", ["ddp", "fsdp", "hsdp", "tp"])
def test_a_gpt_trains_as_in_one_process(net: Net, alone: list[float], how: str) -> None:
    """Sums of float32 in another order are off by some units of 2**-24 of what is summed; in ten
    steps losses come to differ by less than 1e-4."""
    output = io.StringIO()
    found = net.torch_run(GPT, "--parallel", how, output=output, errors=output)
    assert found.status == 0, output.getvalue()
    losses = losses_of(output.getvalue())
    assert len(losses) == 10 and losses[-1] < 0.6 * losses[0]
    for one, other in zip(losses, alone, strict=True):
        assert abs(one - other) < 1e-4
    again = io.StringIO()
    found = net.torch_run(GPT, "--parallel", how, output=again)
    assert losses_of(again.getvalue()) == losses, "sums are the same bits in every run"


@pytest.mark.parametrize("how", [["ddp"], ["fsdp", "--prefetch"]], ids=["buckets", "prefetch"])
def test_communication_hides_behind_computation(net: Net, how: list[str]) -> None:
    """Of DDP's buckets while the backward pass goes on, and of FSDP2's layers gathered ahead."""
    found = net.torch_run(GPT, "--steps", 4, "--batch", 64, "--parallel", *how)
    assert found.status == 0, found.error
    hidden = sum(rank.hidden_ns for rank in found.ranks)
    exposed = sum(rank.exposed_ns for rank in found.ranks)
    assert hidden > 0.1 * (hidden + exposed)


def test_the_same_script_over_gloo_goes_over_the_fabric_too(net: Net) -> None:
    found, said = run(net, "wrappers.py", "ddp", "fsdp", backend="gloo")
    assert found.status == 0, said
    assert found.tiers["host_up"] > 100_000
    assert found.management_bytes < found.tiers["host_up"]


def test_with_loss_it_trains_the_same(tmp_path: Path) -> None:
    done = weft(
        "torch", "run", "--leaves", "2", "--spines", "1", "--loss", "1%", "--out", "out",
        str(PROGRAMS / "wrappers.py"), "ddp", "fsdp", "tp", "pipeline", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = Document.read(tmp_path / "out")
    assert sum(link.lost for link in found.links) > 0
    pictures = (tmp_path / "out" / "report.html").read_text().count("<svg")
    assert pictures == 3, "of steps, ranks and what links carried"
    assert (tmp_path / "out" / "timeline.trace.json").stat().st_size > 1000


ALLREDUCE = """
import torch, torch.distributed as dist
dist.init_process_group()
assert dist.get_backend() == "weft", dist.get_backend()
tensor = torch.ones(1_000_000)
dist.all_reduce(tensor)
whole = torch.empty(4_000_000)
dist.all_gather_single(whole, tensor)
"""


@pytest.mark.parametrize("by", ["switches", "rings"])
def test_bytes_on_links_are_as_models_say_and_none_on_the_management_network(
    net: Net, tmp_path: Path, by: str
) -> None:
    """An Allreduce of 4 MB and an Allgather of 4 MB a rank, on 4 hosts; the group is not
    destroyed."""
    script = tmp_path / "bytes.py"
    script.write_text(ALLREDUCE)
    rings = {"allreduce": "ring", "allgather": "ring"} if by == "rings" else {}
    found = net.torch_run(script, **rings)  # type: ignore[arg-type]
    assert found.status == 0, found.error
    vector = 4_000_000
    # Up: each rank sends the vector once, and its shard once. Down: the sum, and three shards.
    up = 4 * (vector + vector) if by == "switches" else 4 * (1.5 * vector + 3 * vector)
    down = 4 * (vector + 3 * vector)
    assert up < found.tiers["host_up"] < 1.12 * up
    if by == "switches":
        assert down < found.tiers["host_down"] < 1.12 * down
    assert found.management_bytes < 200_000


DIES = """
import os, signal, sys, time, torch, torch.distributed as dist
dist.init_process_group()
rank, how = dist.get_rank(), sys.argv[1]
tensor = torch.ones(500_000)
dist.all_reduce(tensor)
begun = time.monotonic()
if rank == 2 and how == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if rank == 2 and how == "raises":
    raise ValueError("bad luck")
try:
    if how == "any source" and rank == 0:
        dist.recv(tensor)
    elif how == "any source" and rank == 2:
        os._exit(3)
    dist.all_reduce(tensor)
    dist.all_reduce(tensor)
except RuntimeError as error:
    print(f"{time.monotonic() - begun:.1f} s: {error}")
    sys.exit(7)
"""


@pytest.mark.system
@pytest.mark.parametrize("how", ["killed", "raises", "any source"])
def test_every_rank_hears_of_one_that_dies_by_name(net: Net, tmp_path: Path, how: str) -> None:
    script = tmp_path / "dies.py"
    script.write_text(DIES)
    output = io.StringIO()
    found = net.torch_run(script, how, output=output, errors=output)
    assert found.fidelity.verdict == "failed", "as of all runs that fail"
    told = [line for line in output.getvalue().splitlines() if " s: " in line]
    assert len(told) == 3, output.getvalue()
    for line in told:
        assert "rank 2" in line
        assert float(line.split("] ")[1].split(" s:")[0]) < 5
    status = {"killed": 128 + signal.SIGKILL, "raises": 1, "any source": 3}[how]
    assert found.status == status
    assert "rank 2 (host h2)" in found.error
    after = net.allgather(size="64KiB", algorithm="multicast")
    assert after.verified


MISMATCH = """
import sys, torch, torch.distributed as dist
dist.init_process_group()
rank, how = dist.get_rank(), sys.argv[1]
odd = rank == 1
try:
    if how == "size":
        dist.all_reduce(torch.ones(400 if odd else 20_000))
    elif how == "type":
        dist.all_reduce(torch.ones(400, dtype=torch.int32 if odd else torch.float32))
    elif how == "operation":
        dist.all_reduce(torch.ones(400), dist.ReduceOp.MIN if odd else dist.ReduceOp.MAX)
    elif how == "root":
        dist.broadcast(torch.ones(400), 2 if odd else 0)
    elif how == "collective":
        dist.barrier() if odd else dist.broadcast(torch.ones(400), 0)
    elif how == "none" and not odd:
        dist.barrier()
    print("not noticed" if not (how == "none" and odd) else "ended")
except RuntimeError as error:
    print("noticed:", error)
"""


@pytest.mark.parametrize("how", ["size", "type", "operation", "root", "collective", "none"])
def test_ranks_that_do_not_call_the_same_are_told_who_calls_what(
    net: Net, tmp_path: Path, how: str
) -> None:
    """Or that a rank has come to its end, and calls nothing."""
    said = printed(net, tmp_path, MISMATCH, how, timeout=60)
    assert "not noticed" not in said
    assert said.count("noticed:") == (3 if how == "none" else 4)
    if how == "none":
        assert said.count("the program of rank 1 of the run has come to its end") == 3
    else:
        assert "call the same" in said and "calls " in said


UNLIKE = """
import time, torch, torch.distributed as dist
from datetime import timedelta
dist.init_process_group()
rank, size = dist.get_rank(), dist.get_world_size()
odd = rank == 1
dtype = torch.int32 if odd else torch.float32
some, whole = torch.ones(2, dtype=dtype), torch.ones(2 * size, dtype=dtype)
parts = [torch.ones(2, dtype=dtype) for _ in range(size)]
plain = [torch.ones(2) for _ in range(size)]


def gathered(root, tensor, into, group):
    dist.gather(tensor, into if rank == root else None, root, group=group)


def reduced(group):
    if odd:
        dist.reduce_scatter_single(torch.ones(2), torch.ones(2 * size), group=group)
    else:
        dist.reduce(torch.ones(2 * size), 0, group=group)


calls = {
    "types of a broadcast": lambda g: dist.broadcast(some, 0, group=g),
    "types of gathered vectors": lambda g: dist.all_gather_single(whole, some, group=g),
    "types of gathered lists": lambda g: dist.all_gather(parts, some, group=g),
    "types to all": lambda g: dist.all_to_all_single(whole.clone(), whole, group=g),
    "types of a gather": lambda g: gathered(0, some, parts, g),
    "types of a scatter": lambda g: dist.scatter(some, None if rank else parts, 0, group=g),
    "no elements": lambda g: dist.all_reduce(torch.ones(0 if odd else 4), group=g),
    "roots of a reduction": lambda g: dist.reduce(torch.ones(4), rank % 2, group=g),
    "a reduction and a Reduce-Scatter": reduced,
    "roots of a gather": lambda g: gathered(int(odd), torch.ones(2), plain, g),
    "sum and barrier": lambda g: dist.barrier(g) if odd else dist.all_reduce(some, group=g),
    "sum and barrier again": lambda g: dist.all_reduce(some, group=g) if odd else dist.barrier(g),
    "gather and barrier": lambda g: dist.barrier(g) if odd else gathered(0, some, parts, g),
}
for name, call in calls.items():
    group = dist.new_group(timeout=timedelta(seconds=60))
    begun = time.monotonic()
    try:
        call(group)
        dist.barrier(group)  # a rank that only sends may not have heard of it yet
        print("not noticed:", name)
    except RuntimeError as error:
        assert "do not call the same" in str(error) and " calls " in str(error), error
        assert time.monotonic() - begun < 8, name
        print("noticed:", name)
    dist.barrier()
for wrong in (
    lambda: dist.all_gather_single(torch.ones(2 * size), torch.ones(2, dtype=torch.int32)),
    lambda: dist.all_to_all_single(torch.tensor(1.0), torch.tensor(1.0)),
):
    try:
        wrong()
        print("not noticed")
    except ValueError as error:
        print("noticed:", error)
# Whether sizes are given is each rank's own matter.
given = [2] * size if odd else None
rows = torch.arange(2.0 * size) + 100 * rank
come = torch.zeros(2 * size)
dist.all_to_all_single(come, rows, given, given)
assert come.tolist() == [100.0 * r + 2 * rank + k for r in range(size) for k in range(2)], come
"""


@pytest.mark.system
def test_ranks_compare_all_that_must_be_the_same_whatever_the_collective(
    net: Net, tmp_path: Path
) -> None:
    said = printed(net, tmp_path, UNLIKE, timeout=120)
    assert "not noticed" not in said
    assert said.count("noticed:") == 4 * 15


LEAVES = """
import time, torch, torch.distributed as dist
from datetime import timedelta
dist.init_process_group(timeout=timedelta(seconds=40))
rank = dist.get_rank()
dist.barrier()
if rank != 1:
    begun = time.monotonic()
    for call in (
        lambda: dist.send(torch.ones(20_000_000), 1),
        lambda: dist.gather(torch.ones(4), [torch.ones(4)] * 4 if rank == 1 else None, 1),
        lambda: dist.scatter(torch.ones(4), None if rank else [torch.ones(4)] * 4, 0),
    ):
        try:
            call()
            print("not noticed")
        except RuntimeError as error:
            assert "the program of rank 1 of the run has come to its end" in str(error), error
            print("noticed")
    assert time.monotonic() - begun < 20
"""


@pytest.mark.system
def test_nobody_sends_to_a_rank_that_has_come_to_its_end(net: Net, tmp_path: Path) -> None:
    said = printed(net, tmp_path, LEAVES, timeout=120)
    assert "not noticed" not in said
    assert said.count("noticed") == 9


CALLBACKS = """
import torch, torch.distributed as dist, torch.nn as nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd
dist.init_process_group()
rank, size = dist.get_rank(), dist.get_world_size()


def again(future):
    return dist.all_reduce(future.value()[0], async_op=True).get_future().wait()[0]


for _ in range(4):  # the program's own collectives go on meanwhile
    hung = []
    for number in range(24):
        future = dist.all_reduce(torch.full((400,), float(number)), async_op=True).get_future()
        hung.append(future.then(again).then(lambda future: future.value() + 1))
    dist.barrier()
    found = [each.wait()[0].item() for each in hung]
    assert found == [number * size**2 + 1 for number in range(24)], found

torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(
    nn.Sequential(*[nn.Linear(64, 64) for _ in range(12)]), bucket_cap_mb=0.02
)
state = powersgd.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=2)
model.register_comm_hook(state, powersgd.powerSGD_hook)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 64) + rank).pow(2).mean().backward()
    optimizer.step()
own = torch.cat([each.detach().flatten() for each in model.parameters()])
of_all = [torch.empty_like(own) for _ in range(size)]
dist.all_gather(of_all, own)
assert all(torch.equal(own, each) for each in of_all)
dist.destroy_process_group()
print("all the same")
"""


def test_callbacks_of_futures_begin_collectives(net: Net, tmp_path: Path) -> None:
    """They are those of the same callback on all ranks, whatever the programs begin meanwhile."""
    said = printed(net, tmp_path, CALLBACKS, timeout=200)
    assert said.count("all the same") == 4


INFINITE = """
import warnings, torch, torch.distributed as dist
warnings.simplefilter("error")
dist.init_process_group()
for dtype, most in ((torch.float32, 3e38), (torch.float16, 6e4), (torch.bfloat16, 3e38)):
    for count in (4, 40_000):
        vector = torch.full((count,), most, dtype=dtype)
        dist.all_reduce(vector)
        assert vector.isinf().all(), vector
"""


def test_sums_that_overflow_are_infinite_without_a_warning(net: Net, tmp_path: Path) -> None:
    said = printed(net, tmp_path, INFINITE, timeout=60, allreduce="direct")
    assert "Warning" not in said


LATE = """
import atexit, threading, time, torch, torch.distributed as dist
dist.init_process_group()


def bye():
    dist.barrier()
    print("barrier at the exit")
    dist.destroy_process_group()


def go():
    for _ in range(5):
        time.sleep(0.1)
        dist.all_reduce(torch.ones(4), async_op=True).get_future().then(lambda _: None).wait()
    print("thread done")


atexit.register(bye)
threading.Thread(target=go).start()
"""


def test_threads_and_exit_functions_have_the_network_yet(net: Net, tmp_path: Path) -> None:
    said = printed(net, tmp_path, LATE, timeout=60)
    assert said.count("thread done") == said.count("barrier at the exit") == 4, said
    assert "Error" not in said


COMPILED = """
import torch, torch.distributed as dist, torch.nn as nn
import torch.distributed._functional_collectives as functional
dist.init_process_group()
rank, size = dist.get_rank(), dist.get_world_size()


def program(vector):
    vector = vector + rank
    dist.broadcast(vector, 0)
    work = dist.all_reduce(vector, async_op=True)
    work.wait()
    dist.reduce(vector, 0)
    dist.barrier()
    if rank == 0:
        dist.send(vector, 1)
    elif rank == 1:
        dist.recv(vector, 0)
    found = torch.empty(size)
    dist.all_to_all_single(found, torch.full((size,), float(rank)))
    return vector * 2, found


vector, found = torch.compile(program, backend="eager")(torch.ones(3))
if rank < 2:
    assert vector.tolist() == [2.0 * size**2] * 3, vector
assert found.tolist() == list(range(size))


@torch.compile(backend="eager", fullgraph=True)
def whole(vector):
    return functional.all_reduce(vector * 2, "sum", dist.group.WORLD) + 1


assert whole(torch.ones(3)).tolist() == [2.0 * size + 1] * 3
model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
trained = torch.compile(nn.parallel.DistributedDataParallel(model), backend="eager")
trained(torch.ones(3, 4) * rank).sum().backward()
print("compiled")
"""


def test_compiled_programs_call_collectives(net: Net, tmp_path: Path) -> None:
    said = printed(net, tmp_path, COMPILED, timeout=120)
    assert said.count("compiled") == 4


WITHDRAWN = """
import time, torch, torch.distributed as dist
from datetime import timedelta
dist.init_process_group()
rank = dist.get_rank()
if rank == 0:
    late, again = torch.zeros(4), torch.zeros(4)
    try:
        dist.irecv(late, 1).wait(timedelta(seconds=0.5))
    except RuntimeError as error:
        assert "no end within 0.5 s" in str(error), error
dist.barrier()
if rank == 1:
    dist.send(torch.ones(4), 0)
elif rank == 0:
    dist.recv(again, 1)
    assert again.tolist() == [1.0] * 4 and late.tolist() == [0.0] * 4
    print("taken once")
"""


def test_a_receive_that_nobody_waits_for_any_longer_takes_no_message(
    net: Net, tmp_path: Path
) -> None:
    said = printed(net, tmp_path, WITHDRAWN, ranks=2, timeout=60)
    assert "taken once" in said


AGAIN = """
import time, torch, torch.distributed as dist
for number in range(4):
    dist.init_process_group()
    rank = dist.get_rank()
    tensor = torch.full((5,), float(rank + 100 * number))
    dist.all_reduce(tensor)
    assert torch.equal(tensor, torch.full((5,), 6.0 + 400 * number)), tensor
    if rank == number % 4:
        time.sleep(0.5)
    dist.destroy_process_group()
"""


def test_groups_of_all_ranks_come_one_after_the_other(net: Net, tmp_path: Path) -> None:
    """Whoever is quick does not read what was said before."""
    printed(net, tmp_path, AGAIN, timeout=60)


@pytest.mark.system
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    script = tmp_path / "forever.py"
    script.write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group()\n"
        "print('begun', flush=True)\n"
        "while True: dist.all_reduce(torch.ones(10_000))\n"
    )
    before = Machine()
    process = subprocess.Popen(
        [sys.executable, "-m", "weft", "torch", "run", "--leaves", "2", "--spines", "1",
         str(script)],
        cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if "begun" in line:
            break
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    assert process.wait(60) == 130, rest
    assert "Traceback" not in rest
    assert not Machine().more_than(before)
    running = subprocess.run(["ps", "axo", "args"], capture_output=True, text=True, check=True)
    assert "weft.pytorch" not in running.stdout


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["nowhere.py"], "script 'nowhere.py': there is no such file"),
        (["--allreduce", "rign", "x.py"], "--allreduce 'rign': algorithm 'rign' is unknown"),
        (["-m", "x.py"], "module 'x.py': this is a file; name a module"),
        (["--ranks", "9", "x.py"], "--ranks 9: the network has 8 hosts"),
        (["--backend", "nccl", "x.py"], "--backend 'nccl': choose weft or gloo"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path: Path, arguments: list[str], why: str) -> None:
    (tmp_path / "x.py").write_text("")
    done = weft("torch", "run", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") <= 2 and why in done.stderr, done.stderr
    assert sorted(os.listdir(tmp_path)) == ["x.py"]


def test_what_is_not_supported_names_operation_type_and_what_to_use(
    net: Net, tmp_path: Path
) -> None:
    script = tmp_path / "wrong.py"
    script.write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group()\n"
        "for dtype, op in ((torch.float32, dist.ReduceOp.BAND), (torch.bool, dist.ReduceOp.AVG),\n"
        "                  (torch.float8_e4m3fn, dist.ReduceOp.SUM)):\n"
        "    try:\n"
        "        dist.all_reduce(torch.ones(4).to(dtype), op)\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__, error)\n"
        "try:\n"
        "    dist.all_reduce(torch.ones(4).to_sparse())\n"
        "except Exception as error:\n"
        "    print(error)\n"
        "try:\n"
        "    dist.send(torch.ones(4), dist.get_rank())\n"
        "except Exception as error:\n"
        "    print(error)\n"
    )
    output = io.StringIO()
    found = net.torch_run(script, output=output, errors=output, ranks=2)
    said = output.getvalue()
    assert found.status == 0, said
    assert "allreduce of torch.float32 by bitwise-and: it is for integers; choose SUM" in said
    assert "allreduce of torch.bool by average: choose SUM, PRODUCT" in said
    assert "allreduce of torch.float8_e4m3fn by sum: it cannot be reduced" in said
    assert "layout torch.sparse_coo" in said


def test_names_of_torch_2_14_are_there_with_their_parameters() -> None:
    """They are untested with it: torch 2.13 does not call them."""
    import inspect

    from weft.pytorch.process_group import WeftProcessGroup as Group

    for name, parameters in {
        "all_gather_single": ["output", "input", "opts"],
        "reduce_scatter_single": ["output", "input", "opts"],
        "gather_single": ["output", "input", "opts"],
        "start_coalescing": ["device"],
        "end_coalescing": ["device"],
        "_get_backend": ["device"],
    }.items():
        assert list(inspect.signature(getattr(Group, name)).parameters)[1:] == parameters
    assert Group.supports_coalescing is False
