"""Rank 3 calls something else than the others in the midst of training: all are told so."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

dist.init_process_group()
rank = dist.get_rank()
DIFFERENT = {
    "another size": lambda: dist.all_reduce(torch.ones(33)),
    "another type": lambda: dist.all_reduce(torch.ones(40_000, dtype=torch.float64)),
    "another kind": lambda: dist.broadcast(torch.ones(40_000), 0),
    "another operation": lambda: dist.all_reduce(torch.ones(40_000), dist.ReduceOp.MAX),
}
parallel, *which = sys.argv[1:]
model = nn.Sequential(nn.Linear(256, 256), nn.Linear(256, 4))
if parallel == "ddp":
    model = nn.parallel.DistributedDataParallel(model)
elif parallel == "fsdp":
    fully_shard(model)


def step():
    model(torch.ones(8, 256)).sum().backward()


if parallel == "none":  # as it is without a wrapper

    def step():
        dist.all_reduce(torch.ones(40_000))


step()
try:
    if rank == 3:
        DIFFERENT[" ".join(which)]()
    step()
except RuntimeError as error:
    print(f"was told: {error}")
    sys.exit(0)
sys.exit("nobody said anything")
