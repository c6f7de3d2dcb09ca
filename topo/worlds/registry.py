"""All worlds, by their names: a folder here each, or another package's."""

from functools import cache, partial

from weft.base.entry_points import brought
from weft.base.registry import check_kind, in_folders
from weft.topo.worlds.kind import WorldKind

GROUP = "weft.worlds"
DEFAULT = "emulated"
PREDICTING = "simulated"
"""The world that says what a run in another one should take, and computes communication alone."""


@cache
def worlds() -> dict[str, WorldKind]:
    """Return all worlds by their names; those of other packages are last."""
    own = {each.name: each for each in in_folders("weft.topo.worlds", "kind", "WORLD")}
    is_world = partial(check_kind, kind="weft.topo.worlds.kind:WorldKind")
    return {**own, **brought(GROUP, taken=tuple(own), check=is_world)}


def has_real_time(name: str) -> bool:
    """Return whether time is the machine's in a world; it is in one that is not installed here,
    since nobody knows better."""
    return name not in worlds() or worlds()[name].has_real_time
