"""PyTorch over the testbed: what runs in each rank's process. `process_group` alone needs torch."""
