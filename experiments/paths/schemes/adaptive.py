"""Paths that the transport chooses by what it hears of them: REPS and PLB.

The transport changes source ports, which the switches hash. It reacts to marks of queues, which
only a run has.
"""

from weft.experiments.paths.scheme import PathScheme

SCHEMES = (
    PathScheme(name="reps", position=4, colour="#cc79a7", entropy="reps", reorders=True),
    PathScheme(name="plb", position=5, colour="#8c6d31", entropy="plb"),
)
