"""Programs of PyTorch on hosts of the emulated world: `torch_run` starts one on each."""
