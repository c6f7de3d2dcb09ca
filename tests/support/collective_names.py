"""The collectives, each with its algorithms, for tests of all of them."""

from weft.agents.collectives.names import algorithms, flow_algorithms

COLLECTIVES = algorithms()
FLOW_ALGORITHMS = flow_algorithms()
