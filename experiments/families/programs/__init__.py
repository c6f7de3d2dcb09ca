"""Programs of PyTorch on hosts of the emulated world, as a kind of work that no collective of a
scenario names: `torch_run` starts one on each."""
