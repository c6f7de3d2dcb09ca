"""Rank 3 holds Python's lock for longer than others wait for a rank that cannot be reached, as an
extension module may: they go on when it does, or are told so by a timeout."""

import ctypes
import time
from datetime import timedelta

import torch
import torch.distributed as dist

HOLDING, HELD_S, TIMEOUT_S = 3, 14, 3.0

dist.init_process_group(timeout=timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()
hurried = dist.new_group(timeout=timedelta(seconds=TIMEOUT_S))
small, large = torch.ones(4), torch.ones(40_000)


def hold():
    if rank == HOLDING:
        ctypes.PyDLL(None).sleep(HELD_S)


calls = {
    "all_reduce": lambda: dist.all_reduce(small.clone()),
    "all_reduce by switches": lambda: dist.all_reduce(large.clone()),
    "all_gather": lambda: dist.all_gather([large.clone()] * size, large),
}
for name, call in calls.items():
    call()
    hold()
    begun_s = time.monotonic()
    call()
    print(f"{name}: went on after {time.monotonic() - begun_s:.1f} s")
try:
    hold()
    dist.all_reduce(small.clone(), group=hurried)
except RuntimeError as error:
    print(f"was told: {error}")
    assert rank == HOLDING or ("timeout" in str(error) and "does not answer" in str(error))
