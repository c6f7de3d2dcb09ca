"""What is asked of a fused operator."""

from dataclasses import dataclass

from weft.agents.fused.operator import Sizes


@dataclass(frozen=True)
class FusedOptions:
    """Hold what is asked of a fused operator."""

    operator: str
    algorithm: str
    ranks: int
    seed: int
    sizes: Sizes
    order: str
    """Empty: the operator's own."""
    slice_bytes: int
    workgroups: int
    senders: int
    slowdown: float
    """How many times as long everything takes as on the declared device; 0: no time."""
    measured: bool
    """Whether threads of this machine compute, as long as they take."""
