"""The path scheme of a name."""

import re
from functools import cache
from importlib import import_module

from weft.base.errors import InputError, did_you_mean, refuse
from weft.experiments.paths.ecmp import in_pieces
from weft.experiments.paths.names import MODULES, brought_schemes, scheme_names
from weft.experiments.paths.scheme import PathScheme

MAX_LANES = 32
"""The most pieces that ECMP cuts a flow into."""


@cache
def scheme_of(name: str) -> PathScheme:
    """Return the scheme of a name. Raises `InputError` for one that is unknown."""
    if name in brought_schemes():
        found: PathScheme = brought_schemes()[name]
        return found
    if name in MODULES:
        module = import_module(f"weft.experiments.paths.{MODULES[name]}")
        own: tuple[PathScheme, ...] = module.SCHEMES
        return next(each for each in own if each.name == name)
    pieces = re.fullmatch(r"ecmp-([0-9]{1,4})", name)
    if pieces is None:
        hint = did_you_mean(name, scheme_names())
        raise InputError(
            f"paths {name!r} is unknown{hint}: choose from {', '.join(scheme_names())} "
            "(N pieces a flow)"
        )
    lanes = int(pieces[1])
    refuse(
        not 2 <= lanes <= MAX_LANES,
        f"paths {name!r} cuts a flow into {lanes} pieces: ecmp-2 to ecmp-{MAX_LANES} are "
        "possible, and ecmp leaves it whole",
    )
    return in_pieces(name, lanes)
