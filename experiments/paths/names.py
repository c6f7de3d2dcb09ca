"""What path schemes are called, for whoever asks without numpy; and where they are."""

from functools import cache
from typing import Any

from weft.base.entry_points import brought

MODULES = {
    "ecmp": "ecmp",
    "destination": "destination",
    "spray": "spraying",
    "spray-round-robin": "spraying",
    "reps": "adaptive",
    "plb": "adaptive",
    "ethereal": "ethereal",
    "ethereal-ports": "ethereal",
}
"""The modules of `weft.experiments.paths` that have Weft's own schemes."""


def brought_schemes() -> dict[str, Any]:
    """Return the schemes that other packages bring, by name: instances of
    `weft.experiments.paths.scheme.PathScheme`."""
    return brought("weft.path_schemes", "routes", "plan_routes", taken=tuple(MODULES))


@cache
def scheme_names() -> tuple[str, ...]:
    """Return all names, for messages and help; N stands for a number."""
    return ("ecmp", "ecmp-N", *list(MODULES)[1:], *brought_schemes())
