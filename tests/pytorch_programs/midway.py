"""Add vectors of all ranks, one behind the other; the first rank says when that is under way. Each
rank says how long the longest took, and whether all sums were right."""

import json
import time
from datetime import timedelta

import torch
import torch.distributed as dist

VECTORS, WARM = 80, 8


def say(**words):
    print(json.dumps({"rank": rank, "at_s": time.monotonic(), **words}), flush=True)


dist.init_process_group(timeout=timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()
part = torch.arange(300_000, dtype=torch.float32) % 1000
took_s, right = [], True
for number in range(VECTORS):
    if rank == 0 and number == WARM:
        say(under_way=True)
    vector = part * (rank + 1) + number
    begun_s = time.monotonic()
    dist.all_reduce(vector)
    took_s.append(time.monotonic() - begun_s)
    expected = part * (size * (size + 1) // 2) + number * size
    right = right and torch.equal(vector, expected)
say(longest_s=max(took_s), right=right)
