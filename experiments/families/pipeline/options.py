"""What is asked of a training step in a pipeline."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PipelineOptions:
    """What is asked of a training step."""

    algorithm: str
    """Schedule, strategy and way of communication
    (`weft.experiments.families.pipeline.names.algorithms`)."""
    places: tuple[tuple[int, str], ...]
    """The pod and the switch of the host of each rank."""
    rate_bps: int
    mtu: int
    block_bytes: int
    """What a flow passes on at a time; 0: as is usual."""
    local_factor: float
    balance: str
    seed: int
    delay_ns: int
    """The propagation delay of each link."""
    model: str
    slowdown: float
    """How many times as long everything takes as on the paper's links."""
    stages: int
    """0: as the model has them."""
    model_chunks: int
    micro_batches: int
    """0: as the model has them."""
    stage_mesh: str
    """Hosts x devices of each stage; empty: as the model has them."""
    sharding: str
    """How tensors between stages are sharded over a stage's mesh; empty: samples over hosts."""
    delayed: bool
    efficiency: float
