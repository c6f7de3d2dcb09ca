"""Trains small models by DDP, FSDP2, HSDP, tensor parallelism and a pipeline, and compares each
with the same training in one process. It knows nothing of Weft."""

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

STEPS = 10
BATCH = 8
IN, HIDDEN, OUT = 19, 37, 5


class Mlp(nn.Module):
    def __init__(self, hidden=HIDDEN):
        super().__init__()
        self.up = nn.Linear(IN, hidden)
        self.mid = nn.Linear(hidden, hidden)
        self.down = nn.Linear(hidden, OUT)

    def forward(self, x):
        return self.down(torch.relu(self.mid(torch.relu(self.up(x)))))


def model_of(hidden=HIDDEN):
    torch.manual_seed(7)
    return Mlp(hidden)


def batches():
    draw = torch.Generator().manual_seed(3)
    for _ in range(STEPS):
        yield torch.randn(BATCH, IN, generator=draw), torch.randn(BATCH, OUT, generator=draw)


def part(tensor, rank, size):
    return tensor.chunk(size)[rank]


def alone(hidden=HIDDEN, clip=None):
    """Train in one process; return the losses and the parameters."""
    model = model_of(hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for x, y in batches():
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss.item())
    return losses, {name: each.detach() for name, each in model.state_dict().items()}


def train(model, parameters, rank, size, clip=None):
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    losses = []
    for x, y in batches():
        optimizer.zero_grad()
        loss = F.mse_loss(model(part(x, rank, size)), part(y, rank, size))
        loss.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item() / dist.get_world_size())
    return losses


def compare(what, losses, state, expected, tolerance=2e-5):
    right_losses, right_state = expected
    for one, other in zip(losses, right_losses, strict=True):
        assert abs(one - other) <= tolerance * max(1.0, abs(other)), (what, losses, right_losses)
    for name, right in right_state.items():
        found = state[name]
        worst = (found - right).abs().max().item()
        assert worst <= 50 * tolerance, (what, name, worst)
    if dist.get_rank() == 0:
        print(f"{what}: losses {losses[0]:.6f} to {losses[-1]:.6f}, as one process")


def full_state(model):
    return get_model_state_dict(
        model,
        options=StateDictOptions(
            full_state_dict=True, cpu_offload=True, broadcast_from_rank0=False
        ),
    )


def ddp(rank, size):
    model = DistributedDataParallel(model_of())
    losses = train(model, model.parameters(), rank, size)
    compare("DDP", losses, model.module.state_dict(), alone())


def fsdp(rank, size):
    model = model_of()
    for layer in (model.up, model.mid, model.down):
        fully_shard(layer)
    fully_shard(model)
    losses = train(model, model.parameters(), rank, size, clip=0.5)
    state = full_state(model)
    if rank == 0:
        compare("FSDP2, clipped", losses, state, alone(clip=0.5))


def hsdp(rank, size):
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("replicate", "shard"))
    model = model_of()
    for layer in (model.up, model.mid, model.down):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    losses = train(model, model.parameters(), rank, size)
    full = {name: each.full_tensor() for name, each in model.state_dict().items()}
    compare("HSDP", losses, full, alone())


def tensor_parallel(rank, size):
    hidden = 8 * size
    mesh = init_device_mesh("cpu", (size,))
    model = model_of(hidden)
    parallelize_module(
        model,
        mesh,
        {
            "up": ColwiseParallel(),
            "mid": RowwiseParallel(),
            "down": ColwiseParallel(output_layouts=torch.distributed.tensor.Replicate()),
        }
        if OUT % size == 0
        else {"up": ColwiseParallel(), "mid": RowwiseParallel()},
    )
    losses = train(model, model.parameters(), 0, 1)
    full = {
        name: each.full_tensor() if hasattr(each, "full_tensor") else each
        for name, each in model.state_dict().items()
    }
    compare("tensor parallel", losses, full, alone(hidden))


def pipeline(rank, size):
    model = model_of()
    layers = [nn.Sequential(model.up, nn.ReLU()), nn.Sequential(model.mid, nn.ReLU()), model.down]
    while len(layers) < size:
        layers.insert(2, nn.Identity())
    cuts = (
        [layers[index] for index in range(size)]
        if size >= 3
        else [nn.Sequential(layers[0], layers[1]), layers[2]]
    )
    stage = PipelineStage(cuts[rank], rank, size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, 4, loss_fn=F.mse_loss)
    parameters = list(cuts[rank].parameters())
    optimizer = torch.optim.Adam(parameters, lr=0.01) if parameters else None
    losses = []
    for x, y in batches():
        if optimizer is not None:
            optimizer.zero_grad()
        found = []
        if rank == 0:
            schedule.step(x)
        elif rank == size - 1:
            schedule.step(target=y, losses=found)
        else:
            schedule.step()
        if optimizer is not None:
            optimizer.step()
        mean = torch.stack(found).mean().detach() if found else torch.zeros(())
        dist.broadcast(mean, size - 1)
        losses.append(mean.item())
    right, _ = alone()
    compare("pipeline, 1F1B", losses, {}, (right, {}))


ALL = {"ddp": ddp, "fsdp": fsdp, "hsdp": hsdp, "tp": tensor_parallel, "pipeline": pipeline}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    names = parser.parse_args().names or list(ALL)
    dist.init_process_group()
    for name in names:
        ALL[name](dist.get_rank(), dist.get_world_size())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
