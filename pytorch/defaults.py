"""By which algorithm each collective goes if nothing else is said; for help, without numpy."""

DEFAULTS = {
    "allgather": "recursive-doubling<64KiB,multicast",
    "broadcast": "k-nomial<32KiB,multicast",
    "reduce-scatter": "ring",
    "allreduce": "direct<16KiB,switch",
}
"""docs/pytorch.md says what was measured, and why each was chosen."""
FALLBACKS = {
    "allgather": "recursive-doubling<64KiB,ring",
    "broadcast": "k-nomial",
    "reduce-scatter": "ring",
    "allreduce": "direct<256KiB,ring",
}
"""What can do every type, operation and group."""
SMALL_BYTES = 2048
"""Allgathers and Allreduces go by messages (`weft.pytorch.small_collectives`) if the parts or
vectors of all ranks have so many bytes together at most."""
