"""REPS and PLB: the transport chooses paths by what it learns of them.

It changes source ports, which the switches hash. It reacts to marks from queues, which only a run
has.
"""

from weft.experiments.paths.scheme import PathScheme

SCHEMES = (
    PathScheme(name="reps", position=4, colour="#cc79a7", entropy="reps", reorders=True),
    PathScheme(name="plb", position=5, colour="#8c6d31", entropy="plb"),
)
