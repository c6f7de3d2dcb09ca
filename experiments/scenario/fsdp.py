"""FSDP interleaving: at every step of a backward pass one layer's parameters are gathered while the
gradients of the layer before are reduced and scattered.

SC24, "Network-Offloaded Bandwidth-Optimal Broadcast and Allgather" (arXiv 2408.13356), its analysis
of concurrent Allgather and Reduce-Scatter: of N bytes a rank, ring and ring put 2 N (P - 1) on
every link in each direction; multicast sends N and receives N (P - 1), and switches that add make
it N (P - 1) and N for the sums, where the rank's own part is added at the receiver. So N P each
way, and a speed-up of 2 - 2/P.

The run is cut out of the middle of the pass: step k gathers the parameters of layer k + 1, and
reduces the gradients of layer k, whose parameters step k - 1 gathered (those of layer 0 are there).
Computation takes no time. A step begins when the step two before it is done: a rank holds the
parameters of the layer that it computes, and those that come next.
"""

from weft.experiments.scenario.fsdp_models import FSDP, parts_of
from weft.experiments.scenario.scenario import Scenario

AT_ONCE = 4
"""Operations at a time: of two steps."""
WAITS = ((4, 3), (3,))
"""Operations come in the order Allgather, Reduce-Scatter, step by step. The Allgather waits for
both of the step two before, the Reduce-Scatter for the Allgather of the same layer, one before."""


def parts(scenario: Scenario, algorithm: str) -> tuple[Scenario, Scenario]:
    """Return the Allgathers and the Reduce-Scatters of a scenario of FSDP, each by themselves."""
    size_bytes, layers = scenario.shard_sizes[0], scenario.layers or 1
    gather, scatter = (
        scenario.part(*part, size_bytes=size_bytes, operations=layers)
        for part in parts_of(FSDP, algorithm)
    )
    return gather, scatter


def operation_name(place: int) -> tuple[str, int]:
    """Return of the operation at a place in a run its collective and its layer."""
    step, which = divmod(place, 2)
    return ("reduce-scatter", step) if which else ("allgather", step + 1)
