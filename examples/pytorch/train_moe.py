"""Train a model of letters with a mixture of experts that are spread over the ranks: what an expert
makes of a token goes back to the token's rank as soon as some are computed. Then the same again
unfused, by products and an all-to-all: the losses are the same but for rounding. With --dispatch
multicast a token leaves its host once, and the switches bring it to all its experts.

    sudo ./weft torch run examples/pytorch/train_moe.py
    sudo ./weft torch run --leaves 2 examples/pytorch/train_moe.py --dispatch multicast --top-k 4
"""

import argparse
import random
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from weft.torch import MixtureOfExperts

CONTEXT = 8


class Model(nn.Module):
    """Guess a letter by the letters before it."""

    def __init__(self, letters: int, asked: argparse.Namespace, fused: bool) -> None:
        super().__init__()
        self.letters = nn.Embedding(letters, 16)
        self.inner = nn.Linear(16 * CONTEXT, asked.width)
        self.norm = nn.LayerNorm(asked.width)
        self.experts = MixtureOfExperts(
            asked.width, 2 * asked.width, asked.experts * dist.get_world_size(), top_k=asked.top_k,
            fused=fused, dispatch=asked.dispatch, tile_rows=16,
        )  # fmt: skip
        self.head = nn.Linear(asked.width, letters)

    def forward(self, before: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.inner(self.letters(before).flatten(1)))
        return self.head(x + self.experts(self.norm(x)))


def text() -> torch.Tensor:
    """Return letters, as numbers, of sums that can be learnt."""
    draw = random.Random(1)
    pairs = ((draw.randrange(100), draw.randrange(100)) for _ in range(2000))
    written = "".join(f"{a} plus {b} is {a + b}.\n" for a, b in pairs)
    letters = sorted(set(written))
    return torch.tensor([letters.index(letter) for letter in written])


def train(asked: argparse.Namespace, fused: bool) -> list[float]:
    rank, world = dist.get_rank(), dist.get_world_size()
    data = text()
    torch.manual_seed(1)
    model = Model(int(data.max()) + 1, asked, fused)
    experts = {model.experts.up, model.experts.down}
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, foreach=False)
    losses = []
    for step in range(asked.steps):
        begun = time.monotonic()
        draw = torch.Generator().manual_seed(step)
        firsts = torch.randint(len(data) - CONTEXT, (asked.batch * world,), generator=draw)
        own = firsts.chunk(world)[rank].unsqueeze(1) + torch.arange(CONTEXT + 1)
        loss = F.cross_entropy(model(data[own[:, :-1]]), data[own[:, -1]])
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            if parameter not in experts:
                dist.all_reduce(parameter.grad)
            parameter.grad /= world  # an expert's gradient is of all ranks' tokens already
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
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64, help="of each rank")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--experts", type=int, default=2, help="of each rank")
    parser.add_argument("--top-k", type=int, default=2, help="experts that a token goes to")
    parser.add_argument("--dispatch", choices=("unicast", "multicast"), default="unicast")
    alone = parser.add_mutually_exclusive_group()
    alone.add_argument("--fused", action="store_true", help="train fused alone")
    alone.add_argument("--unfused", action="store_true", help="train unfused alone")
    asked = parser.parse_args()
    dist.init_process_group()
    ways = [way for way in (True, False) if not (asked.unfused if way else asked.fused)]
    losses = [train(asked, fused) for fused in ways]
    if len(ways) == 2:
        off = max(abs(one - other) for one, other in zip(*losses, strict=True))
        assert off < 1e-4, losses
        if dist.get_rank() == 0:
            print(f"fused and unfused: losses differ by {off:.1e} at most")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
