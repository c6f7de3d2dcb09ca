"""The names of path schemes, for those who ask without loading numpy."""

from functools import cache
from typing import Any

import msgspec

from weft.base.registry import Colour, Registry


class SchemeFacts(msgspec.Struct):
    """What is known of a path scheme without its module: attributes of
    `weft.experiments.paths.scheme.PathScheme`."""

    routes: str
    assigned: str
    entropy: str
    analysed_as: str
    position: int | None
    about: str
    about_pieces: str
    colour: Colour
    options: str


SCHEMES: Registry[Any] = Registry(
    "weft.path_schemes",
    "weft.experiments.paths.schemes:SCHEMES",
    facts=SchemeFacts,
    kind="weft.experiments.paths.scheme:PathScheme",
)
"""All path schemes: instances of `weft.experiments.paths.scheme.PathScheme`."""

COMPARED = "ecmp,ecmp-4,spray,ethereal"
"""The schemes that ``weft paths`` analyses if none are named."""


@cache
def described_schemes() -> dict[str, str]:
    """Return what help says of every scheme, by its name; N stands for a number. Schemes of other
    packages come last."""

    def place(name: str) -> tuple[bool, int]:
        position = SCHEMES.fact(name, "position")
        return name not in SCHEMES.own, len(SCHEMES) if position is None else position

    found = {}
    for name in sorted(SCHEMES, key=place):
        found[name] = SCHEMES.fact(name, "about")
        if pieces := SCHEMES.fact(name, "about_pieces"):
            found[f"{name}-N"] = pieces
    return found


def scheme_names() -> tuple[str, ...]:
    """Return all names, for messages and help; N stands for a number."""
    return tuple(described_schemes())


def analysed_schemes() -> tuple[str, ...]:
    """Return the names of schemes that can be analysed without a run and whose analysis differs
    from that of others."""
    return tuple(
        name
        for name in scheme_names()
        if _fact(name, "entropy") == "fixed" and not _fact(name, "analysed_as")
    )


def unassigned_schemes() -> tuple[str, ...]:
    """Return the names of schemes that the switches carry out alone: these need neither flows that
    are known beforehand nor a transport that does its part."""
    return tuple(
        name
        for name in scheme_names()
        if name in SCHEMES  # whoever cuts flows into pieces is the transport
        and _fact(name, "entropy") == "fixed"
        and not _fact(name, "assigned")
    )


def _fact(name: str, fact: str) -> Any:
    return SCHEMES.fact(name.removesuffix("-N"), fact)
