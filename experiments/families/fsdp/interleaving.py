"""FSDP interleaving: at every step of a backward pass one layer's parameters are gathered while the
gradients of the layer before are reduced and scattered.

SC24, "Network-Offloaded Bandwidth-Optimal Broadcast and Allgather" (arXiv 2408.13356), analyses
concurrent Allgather and Reduce-Scatter. With N bytes a rank, two rings put 2 N (P - 1) on every
link in each direction. Multicast sends N and receives N (P - 1), and switches that add send N (P -
1) and receive N for the sums, where the rank's own part is added at the receiver. Together that is
N P each way, a speed-up of 2 - 2/P.

The run is cut out of the middle of the pass: step k gathers the parameters of layer k + 1, and
reduces the gradients of layer k, whose parameters step k - 1 gathered (those of layer 0 are there
from the start). Computation takes no time. A step begins when the step two before it is done: a
rank holds the parameters of the layer that it computes, and those that come next.
"""

from weft.base.option import own_of
from weft.experiments.families.fsdp.asked import InterleavingAsked
from weft.experiments.families.fsdp.models import parts_of
from weft.experiments.scenario.scenario import Scenario

AT_ONCE = 4
"""How many operations run at a time: those of two steps."""
WAITS = ((4, 3), (3,))
"""By kind of operation, the earlier operations that it waits for, counted backwards. Operations
come in the order Allgather, Reduce-Scatter, step by step. The Allgather waits for both of the step
two before, the Reduce-Scatter for the Allgather of the same layer, which is one step before."""


def layers_of(scenario: Scenario) -> int:
    """Return how many layers there are."""
    return own_of(scenario, InterleavingAsked).layers or 1


def parts(scenario: Scenario, algorithm: str) -> tuple[Scenario, Scenario]:
    """Return the Allgathers and the Reduce-Scatters of a scenario of FSDP, each as a scenario of
    its own."""
    size_bytes, layers = scenario.shard_sizes[0], layers_of(scenario)
    gather, scatter = (
        scenario.part(*part, size_bytes=size_bytes, operations=layers)
        for part in parts_of(algorithm)
    )
    return gather, scatter
