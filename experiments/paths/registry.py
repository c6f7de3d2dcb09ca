"""The path scheme of a name."""

import re
from functools import cache

from weft.base.errors import InputError, did_you_mean, refuse
from weft.experiments.paths.names import SCHEMES, scheme_names
from weft.experiments.paths.scheme import PathScheme

MAX_LANES = 32
"""The most pieces that ECMP cuts a flow into."""


@cache
def scheme_of(name: str) -> PathScheme:
    """Return the scheme of a name. Raises `InputError` for one that is unknown."""
    if name in SCHEMES.names():
        whole: PathScheme = SCHEMES.get(name)
        return whole
    pieces = re.fullmatch(r"(.+)-([0-9]{1,4})", name)
    if pieces is None or f"{pieces[1]}-N" not in scheme_names():
        hint = did_you_mean(name, scheme_names())
        raise InputError(
            f"paths {name!r} is unknown{hint}: choose from {', '.join(scheme_names())} "
            "(N pieces a flow)"
        )
    lanes = int(pieces[2])
    refuse(
        not 2 <= lanes <= MAX_LANES,
        f"paths {name!r} cuts a flow into {lanes} pieces: {pieces[1]}-2 to "
        f"{pieces[1]}-{MAX_LANES} are possible, and {pieces[1]} leaves it whole",
    )
    cut: PathScheme = SCHEMES.get(pieces[1]).in_pieces(name, lanes)
    return cut
