"""Decode with a small transformer whose layers are spread over the ranks: each has some heads and
some of the features between. At the end of each layer all ranks' parts of the sum are added by a
product of a matrix and a vector fused with an Allreduce. Then the same unfused, and by one rank
with the whole of it: the same letters.

    sudo ./weft torch run examples/pytorch/decode.py
    sudo ./weft torch run --rate 20Mbit examples/pytorch/decode.py --algorithm switch --tile-rows 32

The weights are drawn, not trained.
"""

import argparse
import time
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from weft.torch import ColumnParallelLinear, RowParallelLinear


class Block(nn.Module):
    """Attention and a feed-forward layer; keys and values of the letters before are kept."""

    def __init__(self, width: int, heads: int, group: Any, options: dict[str, Any]) -> None:
        super().__init__()
        size = dist.get_world_size(group)
        self.heads, self.each = heads // size, width // heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        columns = {"group": group, "fused": options["fused"]}
        rows = {"group": group, **options}
        self.query = ColumnParallelLinear(width, width, **columns)
        self.key = ColumnParallelLinear(width, width, **columns)
        self.value = ColumnParallelLinear(width, width, **columns)
        self.out = RowParallelLinear(width, width, **rows)
        self.up = ColumnParallelLinear(width, 4 * width, **columns)
        self.down = RowParallelLinear(4 * width, width, **rows)
        self.kept: list[tuple[torch.Tensor, torch.Tensor]] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm1(x)
        query, key, value = (
            each(h).view(self.heads, self.each) for each in (self.query, self.key, self.value)
        )
        self.kept.append((key, value))
        keys, values = (torch.stack(each, 1) for each in zip(*self.kept, strict=True))
        attended = F.scaled_dot_product_attention(query.unsqueeze(1), keys, values)
        x = x + self.out(attended.reshape(1, -1))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def decode(
    asked: argparse.Namespace, how: str, group: Any = None
) -> tuple[list[int], torch.Tensor]:
    """Return the letters that are chosen, and how likely each letter was in the end."""
    torch.manual_seed(1)
    options: dict[str, Any] = {"fused": how == "fused"}
    if how == "fused":
        options |= {"algorithm": asked.algorithm, "tile_rows": asked.tile_rows}
    letters = nn.Embedding(asked.letters, asked.width)
    head = nn.Linear(asked.width, asked.letters)
    blocks = [Block(asked.width, asked.heads, group, options) for _ in range(asked.layers)]
    found, times = [1], []
    logits = torch.empty(0)
    with torch.no_grad():
        for place in range(asked.steps):
            begun = time.monotonic()
            wave = torch.sin(place / 1.3 ** torch.arange(asked.width))
            x = letters.weight[found[-1]].unsqueeze(0) + wave
            for block in blocks:
                x = block(x)
            logits = head(F.layer_norm(x, x.shape[1:]))
            found.append(int(logits.argmax()))
            times.append(time.monotonic() - begun)
    if dist.get_rank() == 0:
        median_ms = 1000 * sorted(times)[len(times) // 2]
        print(f"{how}: {median_ms:.1f} ms a letter, {' '.join(map(str, found))}", flush=True)
    return found, logits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=16, help="letters")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--letters", type=int, default=100, help="that there are to choose from")
    parser.add_argument("--algorithm", choices=("owner", "switch"), default="owner")
    parser.add_argument("--tile-rows", type=int, default=0)
    alone = parser.add_mutually_exclusive_group()
    alone.add_argument("--fused", action="store_true", help="decode fused alone")
    alone.add_argument("--unfused", action="store_true", help="decode unfused alone")
    asked = parser.parse_args()
    dist.init_process_group()
    rank, world = dist.get_rank(), dist.get_world_size()
    if asked.fused or asked.unfused:
        decode(asked, "fused" if asked.fused else "unfused")
    else:
        alone_groups = [dist.new_group([each]) for each in range(world)]
        fused, logits = decode(asked, "fused")
        for how, group in (("unfused", None), ("one rank", alone_groups[rank])):
            letters, right = decode(asked, how, group)
            assert letters == fused, (how, letters, fused)
            off = float((logits - right).abs().max() / right.abs().max())
            assert off < 1e-4, (how, off)
            if rank == 0:
                print(f"the same letters as by {how}; logits are off by {off:.1e} of the largest")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
