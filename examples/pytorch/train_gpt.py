"""Train a small GPT on text, by DDP, FSDP2, HSDP or tensor parallelism. It is plain PyTorch: it
runs by torchrun, too.

    sudo ./weft torch run examples/pytorch/train_gpt.py --parallel fsdp
    torchrun --nproc-per-node 4 examples/pytorch/train_gpt.py --parallel ddp

The text is made here, of arithmetic that can be learnt, or it is a file of yours (--text FILE).
"""

import argparse
import random
import time
from itertools import pairwise

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        h = self.norm1(x)
        q, k, v = (
            each(h).view(batch, length, -1, width // self.heads).transpose(1, 2)
            for each in (self.query, self.key, self.value)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, -1))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, letters: int, length: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.token = nn.Embedding(letters, width)
        self.place = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, letters, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def text_of(path: str | None) -> str:
    if path is not None:
        with open(path, encoding="utf-8") as file:
            return file.read()
    draw = random.Random(1)
    pairs = ((draw.randrange(100), draw.randrange(100)) for _ in range(4000))
    return "".join(f"{a} plus {b} is {a + b}.\n" for a, b in pairs)


def batch_of(data: torch.Tensor, step: int, size: int, length: int) -> torch.Tensor:
    """Return the whole batch of a step, the same on every rank."""
    draw = torch.Generator().manual_seed(step)
    begins = torch.randint(len(data) - length - 1, (size,), generator=draw)
    return torch.stack([data[begin : begin + length + 1] for begin in begins])


def parallelized(model: Gpt, how: str, rank: int, world: int) -> nn.Module:
    if how == "ddp":
        return DistributedDataParallel(model)
    if how in ("fsdp", "hsdp"):
        mesh = None
        if how == "hsdp":
            mesh = init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("replicate", "shard"))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    elif how == "tp":
        from torch.distributed.tensor.parallel import (
            ColwiseParallel,
            RowwiseParallel,
            parallelize_module,
        )

        mesh = init_device_mesh("cpu", (world,))
        rows, columns = RowwiseParallel, ColwiseParallel
        for block in model.blocks:
            plan = {
                "query": columns(),
                "key": columns(),
                "value": columns(),
                "out": rows(),
                "up": columns(),
                "down": rows(),
            }
            parallelize_module(block, mesh, plan)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parallel", choices=("ddp", "fsdp", "hsdp", "tp", "none"), default="fsdp")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--batch", type=int, default=16, help="of all ranks together")
    parser.add_argument("--text", metavar="FILE")
    parser.add_argument(
        "--prefetch", action="store_true", help="FSDP2 gathers the next layer early"
    )
    asked = parser.parse_args()

    if asked.parallel != "none":
        dist.init_process_group()
    rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    text = text_of(asked.text)
    letters = sorted(set(text))
    data = torch.tensor([letters.index(letter) for letter in text])
    torch.manual_seed(1)
    model = Gpt(len(letters), asked.length, asked.width, asked.layers, asked.heads)
    parameters = sum(each.numel() for each in model.parameters())
    model = parallelized(model, asked.parallel, rank, world)
    if asked.prefetch:
        model._set_unshard_async_op(True)
        for block, following in pairwise(model.blocks):
            block.set_modules_to_forward_prefetch([following])
            following.set_modules_to_backward_prefetch([block])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, foreach=False)
    if rank == 0:
        print(f"{parameters:,} parameters, {world} ranks, {asked.parallel}")
    for step in range(asked.steps):
        begun = time.monotonic()
        batch = batch_of(data, step, asked.batch, asked.length)
        if asked.parallel in ("ddp", "fsdp", "hsdp"):
            batch = batch.chunk(world)[rank]
        optimizer.zero_grad()
        logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        if asked.parallel in ("ddp", "fsdp", "hsdp"):
            dist.all_reduce(mean)
            mean /= world
        if rank == 0:
            took_ms = 1000 * (time.monotonic() - begun)
            print(f"step {step + 1}: loss {mean.item():.7f}, {took_ms:.0f} ms", flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
