"""The same calls over Weft and over Gloo, watched by torch's own tools: the profiler, CommDebugMode,
FakeTensorMode, and the flight recorder. What these see must be the same."""

import pickle
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
from torch.distributed.tensor.debug import CommDebugMode
from torch.profiler import ProfilerActivity, profile

BACKENDS = ("weft", "gloo")


def calls(group: dist.ProcessGroup) -> None:
    """All that a program may call of a group, so to say."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    one, many = torch.full((16,), rank + 1.0), torch.ones(16 * size)

    def parts() -> list[torch.Tensor]:
        return [torch.ones(16) for _ in range(size)]

    dist.all_reduce(one, group=group)
    assert one[0] == size * (size + 1) / 2
    dist.all_reduce(one, dist.ReduceOp.MAX, group=group, async_op=True).wait()
    dist.broadcast(one, 1, group=group)
    dist.all_gather(parts(), one, group=group)
    dist.all_gather_single(torch.empty(16 * size), one, group=group)
    dist.reduce_scatter_single(torch.empty(16), many, group=group)
    dist.reduce_scatter(torch.empty(16), parts(), group=group)
    dist.all_to_all_single(torch.empty(16 * size), many, group=group)
    dist.all_to_all(parts(), parts(), group=group)
    dist.gather(one, parts() if rank == 0 else None, dst=0, group=group)
    dist.scatter(one, parts() if rank == 0 else None, src=0, group=group)
    dist.reduce(one, 0, group=group)
    dist.barrier(group)
    if rank == 0:
        dist.send(one, 1, group=group)
    elif rank == 1:
        dist.recv(one, 0, group=group)
    functional.wait_tensor(functional.all_reduce(one, "sum", group))
    functional.wait_tensor(functional.all_gather_single(one, 0, group))


def by_profiler(work: Callable[[], None]) -> tuple[Counter[Any], Counter[Any]]:
    """Return the operators, and the operations that they begin, with the shapes of inputs."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as seen:
        work()
    operators, operations = Counter[Any](), Counter[Any]()
    for event in seen.events():
        if event.name.startswith(("c10d::", "_c10d_functional::")):
            operators[event.name, str(event.input_shapes)] += 1
        elif event.name.startswith(BACKENDS):
            operations[event.name.partition(":")[2], str(event.input_shapes)] += 1
    return operators, operations


def by_mode(work: Callable[[], None]) -> dict[str, int]:
    """Return how often CommDebugMode has seen which operator."""
    with CommDebugMode() as mode:
        work()
    return {str(packet): count for packet, count in mode.get_comm_counts().items()}


def recorded(group: dist.ProcessGroup) -> list[tuple[Any, ...]]:
    """Return what the flight recorder has of a group's collectives."""
    entries = pickle.loads(_dump_fr_trace(True, True, False))["entries"]
    found: list[tuple[Any, ...]] = []
    for entry in entries:
        if entry["process_group"][0] != group.group_name or entry["is_p2p"]:
            continue
        assert any(frame["name"] == "calls" for frame in entry["frames"]), entry
        assert entry["retired"] and entry["timeout_ms"] == 1_800_000
        backend, _, name = entry["profiling_name"].partition(":")
        assert backend in BACKENDS
        found.append(
            (name, entry["collective_seq_id"], entry["input_sizes"], entry["input_dtypes"])
        )
    return found


def check_fake_tensors(group: dist.ProcessGroup) -> None:
    """Nothing goes to the network where a program only looks at shapes."""
    begun = len(recorded(group))
    with FakeTensorMode():
        tensor = torch.ones(8)
        dist.all_reduce(tensor, group=group)
        work = dist.broadcast(tensor, 1, group=group, async_op=True)
        assert work is not None
        work.wait()
    assert len(recorded(group)) == begun


def check_promises(group: dist.ProcessGroup) -> None:
    """A tensor that is a promise of another comes to the group as that one."""
    promise = functional.all_reduce(torch.ones(3), "sum", group)
    dist.all_reduce(promise, group=group)
    assert promise.tolist() == [float(dist.get_world_size(group)) ** 2] * 3


def check_dtensors() -> None:
    """DTensors go from Shard to Shard by an all-to-all, of any shapes, and back in gradients."""
    rank, size = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (size,))
    for shape in ((8, 12), (7, 5, 3), (2, 9)):
        whole = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
        spread = distribute_tensor(whole, mesh, [Shard(0)]).requires_grad_()
        with CommDebugMode() as mode:
            found = spread.redistribute(placements=[Shard(1)])
        counts = {str(packet): count for packet, count in mode.get_comm_counts().items() if count}
        assert counts == {"_dtensor.shard_dim_alltoall": 1}, counts
        parts = whole.chunk(size, 1)
        own = parts[rank] if rank < len(parts) else whole[:, :0]
        assert torch.equal(found.to_local(), own), (shape, found.to_local(), own)
        (found * found).sum().backward()
        assert torch.equal(spread.grad.full_tensor(), 2 * whole), shape  # type: ignore[union-attr]


def main() -> None:
    dist.init_process_group()
    ranks = range(dist.get_world_size())
    groups = {name: dist.new_group(ranks, backend=name) for name in BACKENDS}
    seen = {name: by_profiler(lambda of=group: calls(of)) for name, group in groups.items()}
    operators, operations = seen["weft"]
    assert operators == seen["gloo"][0], operators - seen["gloo"][0] or seen["gloo"][0] - operators
    # Gloo's Reduce-Scatters are Allreduces; whether it sees all ends before the profile's is chance.
    apart = {"all_reduce", "reduce_scatter", "all_to_all"}
    for one in operations:
        assert one[0] in apart or one in seen["gloo"][1], (one, seen["gloo"][1])
    assert operations["all_reduce", "[[16]]"] == 3
    assert operations["reduce_scatter", f"[[{16 * len(ranks)}]]"] == 1

    counts = {name: by_mode(lambda of=group: calls(of)) for name, group in groups.items()}
    assert counts["weft"] == counts["gloo"], counts
    assert sum(counts["weft"].values()) >= 14

    ours, theirs = (recorded(group) for group in groups.values())
    assert [one[1] for one in ours] == [*range(1, len(ours) + 1)], ours
    names = Counter(one[0] for one in ours)
    assert names["all_reduce"] == 6 and names["reduce_scatter"] == 4, names
    for name in names.keys() - apart - {"scatter"}:  # one of its shapes is of them all there
        found = [[one[2:] for one in all_of if one[0] == name] for all_of in (ours, theirs)]
        assert found[0] == found[1], (name, found)
    assert b"weft:all_reduce" in _dump_fr_trace_json()
    active = pickle.loads(_dump_fr_trace(onlyActive=True))["entries"]
    assert not [each for each in active if each["profiling_name"].startswith("weft")]
    check_fake_tensors(groups["weft"])
    check_promises(groups["weft"])

    check_dtensors()
    print(f"{len(operators)} operators, {len(ours)} collectives: as over Gloo", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
