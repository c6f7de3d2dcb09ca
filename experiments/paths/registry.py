"""The registry of path schemes, which finds a scheme by its name."""

import re
from functools import cache

from weft.agents.transport.types import ENTROPIES
from weft.base.entry_points import blamed
from weft.base.errors import InputError, did_you_mean
from weft.controller.features.routes import PATHS
from weft.experiments.paths.names import SCHEMES, scheme_names
from weft.experiments.paths.scheme import PathScheme

MAX_LANES = 32
"""The most pieces that ECMP cuts a flow into."""

_CHOICES: dict[str, tuple[str, ...]] = {
    "routes": PATHS,
    "assigned": ("", "pins", "ports"),
    "entropy": ENTROPIES,
}
"""The values that attributes of a scheme may have."""


@cache
def scheme_of(name: str) -> PathScheme:
    """Return the scheme of a name. Raises `InputError` for an unknown one."""
    if name in SCHEMES:
        return _checked(SCHEMES[name], name)
    pieces = re.fullmatch(r"(.+)-([0-9]{1,20})", name)
    if pieces is None or f"{pieces[1]}-N" not in scheme_names():
        hint = did_you_mean(name, [each for each in scheme_names() if not each.endswith("-N")])
        raise InputError(
            f"paths {name!r} is unknown{hint}: choose from {', '.join(scheme_names())} "
            f"(N pieces a flow, 2 to {MAX_LANES})"
        )
    lanes = int(pieces[2])
    if not 2 <= lanes <= MAX_LANES:
        raise InputError(
            f"paths {name!r} cuts a flow into {lanes} pieces: {pieces[1]}-2 to "
            f"{pieces[1]}-{MAX_LANES} are possible, and {pieces[1]} leaves it whole"
        )
    whole = SCHEMES[pieces[1]]
    with blamed(whole, "in_pieces"):
        return _checked(whole.in_pieces(name, lanes), name)


def _checked(scheme: PathScheme, name: str) -> PathScheme:
    """Return a scheme. Raises `InputError` if one of its attributes has a value that means
    nothing."""
    for field, known in _CHOICES.items():
        value = getattr(scheme, field)
        if value not in known:
            raise InputError(
                f"paths {name!r}: {field} of {type(scheme).__name__} is {value!r}; it is one of "
                f"{', '.join(map(repr, known))}"
            )
    lanes = scheme.lanes
    if type(lanes) is not int or not 1 <= lanes <= MAX_LANES:
        raise InputError(
            f"paths {name!r}: lanes of {type(scheme).__name__} is {lanes!r}; it is a whole number "
            f"from 1 to {MAX_LANES}"
        )
    return scheme
