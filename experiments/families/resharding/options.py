"""What is asked of a resharding."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ReshardingOptions:
    """What is asked of a resharding."""

    algorithm: str
    """A strategy and a balancer (`weft.experiments.families.resharding.names.algorithms`)."""
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
    delay_ns: int
    """The propagation delay of each link."""
    case: int | None = None
    one_to_many: str = ""
    full: bool = False
    source: str = ""
    destination: str = ""
    shape: str = ""
    dtype: str = ""
