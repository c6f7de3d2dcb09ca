"""Train one layer for some steps, whose gradients are added up; say what was seen of an error."""

import json
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(timeout=timedelta(seconds=40))
torch.manual_seed(7)
model = DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
try:
    for number in range(int(sys.argv[1])):
        loss = model(torch.full((8, 64), float(dist.get_rank() + number))).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
except RuntimeError as error:
    print(json.dumps({"error": str(error)}), flush=True)
    sys.exit(3)
weight = sum(each.double().sum().item() for each in model.parameters())
print(json.dumps({"weight": weight, "computed_s": time.thread_time()}), flush=True)
