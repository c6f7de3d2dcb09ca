"""By which algorithm each collective goes if nothing else is said; for help, without numpy."""

DEFAULTS = {
    "allgather": "recursive-doubling<16KiB,multicast",
    "broadcast": "k-nomial<16KiB,multicast",
    "reduce-scatter": "ring<16KiB,switch",
    "allreduce": "direct<16KiB,switch",
}
"""What docs/pytorch.md measures to be best."""
