"""What ranks are asked to do in FSDP interleaving."""

from dataclasses import replace

from weft.agents.collectives.timing import Pace
from weft.agents.ranks import OperationConfig
from weft.experiments.families.fsdp.bounds import step_bound_bytes
from weft.experiments.families.fsdp.interleaving import AT_ONCE, WAITS, layers_of, parts
from weft.experiments.families.fsdp.models import FSDP
from weft.experiments.runs.inputs import paced_request
from weft.experiments.scenario.scenario import Scenario


def interleaved(scenario: Scenario, algorithm: str, seed: int) -> OperationConfig:
    """Return the Allgather and the Reduce-Scatter of consecutive layers."""
    gather, scatter = parts(scenario, algorithm)
    first = paced_request(gather, gather.algorithms[0])
    if scenario.family.kinds(FSDP, algorithm)[0].multicasts:
        # The sums, and what more the uplink carries, have the link beside the multicast.
        multicast = Pace(
            gather.shard_sizes, gather.ranks, min(gather.chunk_bytes or 0, gather.mtu), 0
        ).received_bytes
        beside = step_bound_bytes(scenario, algorithm) - multicast  # a rank by itself sends nothing
        first = replace(first, beside_bytes=max(0, beside))
    return OperationConfig(
        first,
        seed,
        layers_of(scenario),
        AT_ONCE,
        (paced_request(scatter, scatter.algorithms[0]),),
        WAITS,
        scenario.data,
    )
