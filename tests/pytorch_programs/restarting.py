"""Train one layer for some steps with a checkpoint after each; rank 1 fails once, at step 3."""

import json
import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(timeout=timedelta(seconds=40))
saved, first = Path(sys.argv[1]), 0
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
torch.manual_seed(7)
model = DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
if saved.exists():
    state = torch.load(saved)
    model.load_state_dict(state["model"])
    first = state["steps"]
for number in range(first, 6):
    if attempt == 0 and number == 3 and dist.get_rank() == 1:
        raise ValueError("bad batch")
    loss = model(torch.full((8, 64), float(dist.get_rank() + number))).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == 0:
        torch.save({"model": model.state_dict(), "steps": number + 1}, f"{saved}.new")
        os.replace(f"{saved}.new", saved)
    dist.barrier()
weight = sum(each.double().sum().item() for each in model.parameters())
print(json.dumps({"weight": weight, "attempt": attempt, "from": first}), flush=True)
