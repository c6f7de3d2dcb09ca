"""PyTorch over the testbed: what runs in each rank's process.

`process_group`, `session`, `tensors`, `work` and the package `fused` import torch when they are
imported; the others only in functions, or not at all.
"""
