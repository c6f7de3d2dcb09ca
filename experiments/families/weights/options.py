"""What is asked of a move of weights."""

from dataclasses import dataclass


@dataclass(frozen=True)
class WeightsOptions:
    """What is asked of a move of weights, with defaults filled in but for what 0 and "" say."""

    algorithm: str
    """A strategy and a balancer (`weft.experiments.families.weights.names.algorithms`)."""
    hosts: tuple[str, ...]
    """The names of the hosts of all ranks, in their order."""
    places: tuple[tuple[int, str], ...]
    """The pod and the switch of each of them."""
    rate_bps: int
    mtu: int
    block_bytes: int
    """What a flow passes on at a time; 0: as is usual."""
    local_factor: float
    seed: int
    source: str
    destination: str
    model: str
    stamp: tuple[int, ...]
    """What tells a model's file from what it was before: its time and size; empty: it is none."""
    scale: float
    """0: as is usual."""
    layers: int
    """0: all."""
    devices: int
    """0: as is usual."""
    bucket_bytes: int
    """0: as is usual."""
    source_dtype: str
    destination_dtype: str
