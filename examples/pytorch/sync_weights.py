"""Train on some ranks, generate on two others, and bring them the weights after each step.

    sudo ./weft torch run --leaves 2 --hosts-per-leaf 2 examples/pytorch/sync_weights.py

The trainer's weights are sharded over its ranks by FSDP2; each of the two inference ranks has all
of them, as bfloat16. With multicast the switches copy what leaves the trainer once. The plan is
made once; inference ranks generate while new weights are under way.
"""

import argparse
import hashlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate

from weft.torch import transfer

LETTERS = 32


def model(width: int) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Embedding(LETTERS, width), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, LETTERS)
    )  # fmt: skip


def train(net: nn.Module, optimizer: torch.optim.Optimizer, step: int, rank: int) -> None:
    """Learn to count, backwards."""
    draw = torch.Generator().manual_seed(1000 * step + rank)
    letters = torch.randint(LETTERS, (64,), generator=draw)
    optimizer.zero_grad()
    F.cross_entropy(net(letters), (letters - 1) % LETTERS).backward()
    optimizer.step()


def generate(net: nn.Module, letter: int, count: int) -> list[int]:
    """Continue from a letter."""
    found = [letter]
    with torch.no_grad():
        for _ in range(count):
            found.append(int(net(torch.tensor([found[-1]])).argmax()))
    return found


def digest(tensors: dict[str, torch.Tensor]) -> str:
    whole = hashlib.sha256()
    for name in sorted(tensors):
        whole.update(tensors[name].to(torch.bfloat16).view(torch.int16).numpy().tobytes())
    return whole.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--strategy", default="multicast")
    asked = parser.parse_args()
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    if size < 3:
        raise SystemExit(f"{size} ranks: two for inference, and one or more for training")
    trainer = DeviceMesh("cpu", list(range(size - 2)))
    engines = DeviceMesh("cpu", [size - 2, size - 1])
    trains = rank < size - 2
    net = model(asked.width)
    if trains:
        fully_shard(net, mesh=trainer)
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
        weights = dict(net.named_parameters())
    else:
        net = net.to(torch.bfloat16)
        weights = {
            name: DTensor.from_local(each.data, engines, [Replicate()], run_check=False)
            for name, each in net.named_parameters()
        }
    sync = transfer(weights, trainer, engines, strategy=asked.strategy)
    for step in range(asked.steps):
        if trains:
            train(net, optimizer, step, rank)
            now = {name: each.full_tensor().detach() for name, each in weights.items()}
        under_way = sync.start()
        if not trains:  # with the weights of the step before
            said = generate(net, 20, 4)
        under_way.wait()
        if not trains:
            now = {name: each.to_local() for name, each in weights.items()}
        digests: list[str | None] = [None] * size
        dist.all_gather_object(digests, digest(now))
        if len(set(digests)) != 1:
            raise SystemExit(f"step {step}: the weights differ: {digests}")
        if rank == size - 1:
            print(f"step {step}: engines have the trainer's weights; before them they said {said}")
    if rank == 0:
        print(f"{sync.model_bytes} bytes of weights a step")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
