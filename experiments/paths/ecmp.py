"""ECMP: a flow's path is by a hash of addresses and source port (RFC 2992)."""

from weft.experiments.paths.scheme import PathScheme

SCHEMES = (PathScheme(name="ecmp", colour="#d55e00", marks=False),)


def in_pieces(name: str, lanes: int) -> PathScheme:
    """Return the scheme that cuts a flow into pieces, each with a hash of its own."""
    return PathScheme(name=name, colour="#e69f00", lanes=lanes)
