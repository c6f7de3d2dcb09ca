"""What an operator is to switches that add."""

from weft.agents.collectives.algorithm import Algorithm


class Adding(Algorithm):
    """Flows of which switches add some."""

    adds = True
    heeds = frozenset({"slots", "values"})
