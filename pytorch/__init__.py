"""PyTorch over the testbed: what runs in each rank's process.

`process_group`, `session`, `tensors`, `work` and the package `fused` need torch; the others do not.
"""
