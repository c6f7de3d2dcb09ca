"""Rank 3 does not come to collectives of groups with short timeouts: all others are told so, in an
error that has the word timeout."""

import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

TIMEOUT_S, LATE = 2.0, 3

dist.init_process_group(timeout=timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()


def new_group(seconds=TIMEOUT_S):
    return dist.new_group(timeout=timedelta(seconds=seconds))


def train(group):
    """Train by DDP, of which rank 3 has the first step alone."""
    copies = nn.parallel.DistributedDataParallel(nn.Linear(128, 64), process_group=group)

    def step():
        copies(torch.ones(8, 128)).sum().backward()

    step()
    with copies.no_sync():
        step()
    return step


small, large = torch.ones(4), torch.ones(40_000)
CASES = {
    "all_reduce": lambda group: dist.all_reduce(small, group=group),
    "all_reduce by switches": lambda group: dist.all_reduce(large, group=group),
    "all_gather": lambda group: dist.all_gather([large.clone()] * size, large, group=group),
    "barrier": lambda group: dist.barrier(group),
    "reduce": lambda group: dist.reduce(large.clone(), 0, group=group),
    "all_to_all": lambda group: dist.all_to_all_single(small.clone(), small, group=group),
    "recv": lambda group: dist.recv(small.clone(), LATE, group=group),
    "a wait of its own": lambda group: (
        dist.all_reduce(small.clone(), group=group, async_op=True)
        .wait(timedelta(seconds=TIMEOUT_S))
    ),
}  # fmt: skip
groups = {name: new_group(60 if "own" in name else TIMEOUT_S) for name in CASES}
step = train(new_group())
found, begun_s = {}, time.monotonic()


def try_it(name, call):
    try:
        call()
    except RuntimeError as error:
        found[name] = str(error), time.monotonic() - begun_s


if rank == LATE:
    time.sleep(2 * TIMEOUT_S + 6)
else:
    threads = [
        threading.Thread(
            target=try_it, args=(name, lambda each=each, name=name: each(groups[name]))
        )
        for name, each in CASES.items()
    ]
    threads.append(threading.Thread(target=try_it, args=("DDP", step)))
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for name in (*CASES, "DDP"):
        said, after_s = found[name]
        print(f"{name}: after {after_s:.1f} s: {said}")
        assert "timeout" in said and f"rank {LATE}" in said and after_s < TIMEOUT_S + 4, name
    print("all were told")
