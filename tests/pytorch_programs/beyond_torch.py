"""Uses what torch does not have: eager 1F1B as a pipeline schedule, and DTensors that go from one
mesh to another."""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from weft.torch import ScheduleEager1F1B, reshard


def pipeline(schedule_class, rank, size, microbatches=8):
    torch.manual_seed(3)
    width = 24
    layers = [nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(size)]
    mine = layers[rank]
    stage = PipelineStage(mine, rank, size, torch.device("cpu"))
    schedule = schedule_class(stage, microbatches, loss_fn=F.mse_loss)
    optimizer = torch.optim.SGD(mine.parameters(), lr=0.1)
    draw = torch.Generator().manual_seed(5)
    found = []
    for _ in range(4):
        x, y = (torch.randn(4 * microbatches, width, generator=draw) for _ in range(2))
        optimizer.zero_grad()
        losses = []
        if rank == 0:
            schedule.step(x)
        elif rank == size - 1:
            schedule.step(target=y, losses=losses)
        else:
            schedule.step()
        optimizer.step()
        found += [loss.detach().clone() for loss in losses]
    return found, [each.detach().clone() for each in mine.parameters()]


def schedules(rank, size):
    losses, parameters = pipeline(Schedule1F1B, rank, size)
    eager_losses, eager_parameters = pipeline(ScheduleEager1F1B, rank, size)
    for one, other in zip(losses + parameters, eager_losses + eager_parameters, strict=True):
        assert torch.equal(one, other), (one, other)
    if rank == size - 1:
        print(f"eager 1F1B: {len(losses)} losses, the same bits as 1F1B's")


def tensors(rank, size):
    half = size // 2
    meshes = {
        "first half": DeviceMesh("cpu", list(range(half)), _init_backend=False),
        "second half": DeviceMesh("cpu", list(range(half, size)), _init_backend=False),
        "all, in a square": DeviceMesh(
            "cpu", torch.arange(size).reshape(2, half), _init_backend=False
        ),
        "backwards": DeviceMesh("cpu", list(range(size))[::-1], _init_backend=False),
    }
    placements = {
        1: [[Shard(0)], [Shard(1)], [Replicate()]],
        2: [[Shard(0), Shard(1)], [Replicate(), Shard(0)], [Shard(1), Replicate()]],
    }
    done = 0
    for dtype, shape in (
        (torch.float32, (37, 10)),
        (torch.bfloat16, (8, 6)),
        (torch.int64, (5, 3, 7)),
    ):
        whole = torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)
        for source_name, source in meshes.items():
            for target_name, target in meshes.items():
                if source is target:
                    continue
                number = done % 3
                here = placements[source.ndim][number]
                there = placements[target.ndim][(number + 1) % 3]
                strategy = ("broadcast", "multicast", "send-recv", "send-recv+allgather")[done % 4]
                tile = local_of(whole, source, here)
                given = DTensor.from_local(
                    tile, source, here, run_check=False, shape=whole.shape, stride=whole.stride()
                )
                found = reshard(given, target, there, strategy=strategy)
                assert found.shape == whole.shape and tuple(found.placements) == tuple(there)
                right = local_of(whole, target, there)
                assert torch.equal(found.to_local(), right), (source_name, target_name, strategy)
                done += 1
    if rank == 0:
        print(f"reshard: {done} tensors from mesh to mesh")


def local_of(whole, mesh, placements):
    """The tile of this rank, by slicing; nothing on a rank that is not in the mesh."""
    place = (mesh.mesh == dist.get_rank()).nonzero()
    if not len(place):
        return torch.empty(0, dtype=whole.dtype)
    tile = whole
    for dimension, placement in enumerate(placements):
        if isinstance(placement, Shard):
            parts = list(tile.chunk(mesh.mesh.shape[dimension], placement.dim))
            number = int(place[0, dimension])
            shape = list(tile.shape)
            shape[placement.dim] = 0
            tile = parts[number] if number < len(parts) else tile.new_empty(shape)
    return tile.contiguous()


def names_of_2_14(rank, size):
    """What torch 2.14 calls besides, called by hand."""
    group = dist.group.WORLD
    options = dist.GatherOptions()
    options.rootRank = size - 1
    output = torch.empty(size * 3)
    group.gather_single(output, torch.full((3,), float(rank)), options).wait()
    if rank == size - 1:
        assert torch.equal(output, torch.arange(float(size)).repeat_interleave(3))
    group.start_coalescing()
    tensors = [torch.full((n,), float(rank)) for n in (5, 50_000)]
    for tensor in tensors:
        group.allreduce([tensor])
    group.end_coalescing().wait()
    for tensor in tensors:
        assert torch.equal(tensor, torch.full_like(tensor, float(sum(range(size)))))


def main():
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    names_of_2_14(rank, size)
    for name in sys.argv[1:] or ["schedules", "tensors"]:
        {"schedules": schedules, "tensors": tensors}[name](rank, size)
    dist.barrier()
    assert distribute_tensor is not None
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
