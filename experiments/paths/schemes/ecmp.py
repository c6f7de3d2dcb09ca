"""ECMP: a hash of a flow's addresses and source port chooses its path (RFC 2992)."""

from weft.experiments.paths.scheme import PathScheme


class Ecmp(PathScheme):
    """One path for each whole flow, so that no marks are needed."""

    name = "ecmp"
    position = 0
    about = "hashed"
    about_pieces = "in N pieces"
    colour = "#d55e00"
    marks = False

    def in_pieces(self, name: str, lanes: int) -> PathScheme:
        """Return the scheme that cuts a flow into so many pieces, each with a hash of its own."""
        return PathScheme(name=name, colour="#e69f00", lanes=lanes)


SCHEMES = (Ecmp(),)
