"""Train by DDP, FSDP2 or a pipeline, until something goes wrong with rank 3 or with a link.

    failing.py ddp|no_sync|fsdp|pipeline nothing|raise|kill|stop [SECONDS [TIMEOUT]]

With no_sync, DDP adds the gradients of four passes up before the ranks add theirs, and rank 3 fails
behind the first of them.

The first rank says when training is under way, the rank that fails says when it does, and a rank to
which a RuntimeError comes says when, and which: lines of JSON, with times of CLOCK_MONOTONIC. It
trains for so many seconds if nothing happens. TIMEOUT is that of the group, by default SECONDS too, so
that Gloo, which has no other way to notice it, ends.
"""

import contextlib
import json
import os
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

parallel, what, *limit = sys.argv[1:]
LIMIT_S = float(limit[0]) if limit else 25.0
TIMEOUT_S = float(limit[1]) if limit[1:] else LIMIT_S
FAILING, STEP, WIDTH = 3, 5, 128
PASSES = 4 if parallel == "no_sync" else 1
"""How many passes add up their gradients before the ranks add theirs."""


def say(**words):
    print(json.dumps({"rank": rank, "at_s": time.monotonic(), **words}), flush=True)


def fail():
    """Do to this process what is asked for."""
    say(fails=os.getpid())
    if what == "raise":
        raise ValueError("bad batch")
    if what in ("kill", "stop"):
        os.kill(os.getpid(), signal.SIGKILL if what == "kill" else signal.SIGSTOP)


def step_of_pipeline():
    part = nn.Linear(WIDTH, WIDTH)
    stage = PipelineStage(part, rank, size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, 4, nn.functional.mse_loss)
    first, last = rank == 0, rank == size - 1
    inputs, targets = torch.ones(8, WIDTH), torch.zeros(8, WIDTH)

    def step():
        part.zero_grad()
        schedule.step(*[inputs] * first, **({"target": targets} if last else {}))

    return step


def step_of_copies():
    model = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(4)], nn.Linear(WIDTH, 4))
    if parallel != "fsdp":
        model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.1)
    else:
        for layer in model:
            fully_shard(layer)
        fully_shard(model)

    def step():
        if number % PASSES == 0:
            model.zero_grad()
        last = number % PASSES == PASSES - 1
        with contextlib.nullcontext() if last else model.no_sync():
            model(torch.ones(8, WIDTH)).pow(2).sum().backward()

    return step


dist.init_process_group(timeout=timedelta(seconds=TIMEOUT_S))
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
step = step_of_pipeline() if parallel == "pipeline" else step_of_copies()
store = dist.distributed_c10d._get_default_store()
number, last, end_s = 0, None, None
try:
    while number != last:
        if end_s is not None and last is None:
            # All ranks take as many steps: the first says how many, in time for those ahead of it.
            if rank == 0 and time.monotonic() > end_s:
                store.set("last", str(number + 10))
            if store.check(["last"]):
                last = int(store.get("last"))
        if number == STEP:
            end_s = time.monotonic() + LIMIT_S
            if rank == FAILING and what != "nothing":
                fail()
            if rank == 0:
                say(under_way=True)
        step()
        number += 1
except RuntimeError as error:
    say(error=str(error))
    sys.exit(4)
say(steps=number)
