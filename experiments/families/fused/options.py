"""What is asked of a fused operator."""

from dataclasses import dataclass

from weft.agents.fused.device import ComputeDevice
from weft.agents.operators.operator import Sizes


@dataclass(frozen=True)
class FusedOptions:
    """What is asked of a fused operator."""

    operator: str
    algorithm: str
    ranks: int
    seed: int
    sizes: Sizes
    order: str
    """Empty: the operator's own."""
    slice_bytes: int
    senders: int
    device: ComputeDevice
