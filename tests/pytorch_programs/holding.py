"""Rank 3 holds Python's lock for longer than others wait for a rank that cannot be reached, as an
extension module may: they go on when it does, or are told so by a timeout. All of this at one time,
each in a group of its own."""

import ctypes
import time
from datetime import timedelta

import torch
import torch.distributed as dist

HOLDING, HELD_S, TIMEOUT_S = 3, 14, 3.0

dist.init_process_group(timeout=timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()
hurried = dist.new_group(timeout=timedelta(seconds=TIMEOUT_S))
groups = [dist.new_group(timeout=timedelta(seconds=60)) for _ in range(3)]
small, large = torch.ones(4), torch.ones(40_000)

calls = {
    "all_reduce": lambda group: dist.all_reduce(small.clone(), group=group, async_op=True),
    "all_reduce by switches": lambda group: (
        dist.all_reduce(large.clone(), group=group, async_op=True)
    ),
    "all_gather": lambda group: (
        dist.all_gather([large.clone()] * size, large, group=group, async_op=True)
    ),
}  # fmt: skip


def begin():
    return [call(group) for call, group in zip(calls.values(), groups, strict=True)]


for work in begin():
    work.wait()
if rank == HOLDING:
    ctypes.PyDLL(None).sleep(HELD_S)
begun_s = time.monotonic()
works = begin()
try:
    dist.all_reduce(small.clone(), group=hurried)
except RuntimeError as error:
    print(f"was told: {error}")
    assert rank == HOLDING or ("timeout" in str(error) and "does not answer" in str(error))
for name, work in zip(calls, works, strict=True):
    work.wait()
    print(f"{name}: went on after {time.monotonic() - begun_s:.1f} s")
