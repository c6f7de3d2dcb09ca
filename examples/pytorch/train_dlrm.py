"""Train a small DLRM: its embedding tables are spread over the ranks, and look-ups go to the owners
of the batch's rows as soon as some of them are there. Then the same again unfused, by look-ups and
an all-to-all: the losses are the same bits.

    sudo ./weft torch run examples/pytorch/train_dlrm.py
    sudo ./weft torch run --hosts-per-leaf 2 --leaves 2 examples/pytorch/train_dlrm.py --unfused

Clicks are made here, of numbers that each row of each table has.
"""

import argparse
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from weft.torch import EmbeddingBagAllToAll

FEATURES = 13
ROWS = (1000, 40, 7, 3000, 250, 60, 500, 120, 16, 2000)


class Dlrm(nn.Module):
    """Dense features and the sums of looked-up rows, and the product of every two of them."""

    def __init__(self, dim: int, fused: bool) -> None:
        super().__init__()
        self.embeddings = EmbeddingBagAllToAll(ROWS, dim, fused=fused, tile_rows=8)
        vectors = 1 + len(ROWS)
        bottom = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, dim), nn.ReLU())
        pairs = vectors * (vectors - 1) // 2
        top = nn.Sequential(nn.Linear(dim + pairs, 64), nn.ReLU(), nn.Linear(64, 1))
        self.bottom, self.top = DistributedDataParallel(bottom), DistributedDataParallel(top)
        self.upper = torch.triu_indices(vectors, vectors, 1).unbind()

    def forward(self, dense: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        pooled = self.embeddings(indices)  # [own rows of the batch, tables, dim]
        below = self.bottom(dense)
        vectors = torch.cat([below.unsqueeze(1), pooled], 1)
        products = vectors @ vectors.transpose(1, 2) / vectors.shape[2]
        pairs = products[:, self.upper[0], self.upper[1]]
        return self.top(torch.cat([below, pairs], 1)).squeeze(1)


def batch_of(
    step: int, size: int, pooling: int
) -> tuple[torch.Tensor, list[torch.Tensor], torch.Tensor]:
    """Return the dense features, the look-ups and the clicks of a whole batch, the same on every
    rank."""
    draw = torch.Generator().manual_seed(1000 + step)
    dense = torch.randn(size, FEATURES, generator=draw)
    indices = [torch.randint(rows, (size, pooling), generator=draw) for rows in ROWS]
    tastes = sum(torch.sin(each.float() * (n + 1)).mean(1) for n, each in enumerate(indices))
    return dense, indices, (tastes + dense[:, 0] > 0).float()


def train(asked: argparse.Namespace, fused: bool) -> list[float]:
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    model = Dlrm(asked.dim, fused)
    tables = set(model.embeddings.parameters())
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.03)
    own = slice(rank * asked.batch, (rank + 1) * asked.batch)
    losses = []
    for step in range(asked.steps):
        begun = time.monotonic()
        dense, indices, clicks = batch_of(step, asked.batch * world, asked.pooling)
        mine = [indices[table] for table in model.embeddings.own_tables]
        looked_up = torch.stack(mine) if mine else indices[0].new_empty(0, len(dense), 1)
        found = model(dense[own], looked_up)
        loss = F.binary_cross_entropy_with_logits(found, clicks[own])
        optimizer.zero_grad()
        loss.backward()
        for table in tables:
            table.grad /= world  # a table's gradient is the sum over all ranks; DDP takes means
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / world)
        if rank == 0:
            how, took_ms = "fused" if fused else "unfused", 1000 * (time.monotonic() - begun)
            print(f"{how}, step {step + 1}: loss {losses[-1]:.7f}, {took_ms:.0f} ms", flush=True)
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64, help="of each rank")
    parser.add_argument("--dim", type=int, default=16, help="of the tables")
    parser.add_argument("--pooling", type=int, default=4, help="rows that are looked up and added")
    alone = parser.add_mutually_exclusive_group()
    alone.add_argument("--fused", action="store_true", help="train fused alone")
    alone.add_argument("--unfused", action="store_true", help="train unfused alone")
    asked = parser.parse_args()
    dist.init_process_group()
    ways = [way for way in (True, False) if not (asked.unfused if way else asked.fused)]
    losses = [train(asked, fused) for fused in ways]
    if len(ways) == 2:
        assert losses[0] == losses[1], losses
        if dist.get_rank() == 0:
            print("fused and unfused: all losses are the same bits")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
