"""What ranks are asked to do in FSDP interleaving."""

from dataclasses import replace

from weft.agents.ranks import OperationConfig
from weft.experiments.families.fsdp.bounds import step_bound_bytes
from weft.experiments.families.fsdp.interleaving import AT_ONCE, WAITS, layers_of, parts
from weft.experiments.families.fsdp.models import FSDP
from weft.experiments.runs.inputs import paced_request
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.traffic_model import asked_of


def interleaved(scenario: Scenario, algorithm: str, seed: int) -> OperationConfig:
    """Return the Allgather and the Reduce-Scatter of consecutive layers."""
    gather, scatter = parts(scenario, algorithm)
    first = paced_request(gather, gather.algorithms[0])
    if scenario.family.kinds(FSDP, algorithm)[0].multicasts:
        # The sums, and what more the uplink carries, have the link beside the multicast.
        kind, task = asked_of(gather, gather.algorithms[0], frames=True)
        multicast = kind.least_bytes(replace(task, operations=1))
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
