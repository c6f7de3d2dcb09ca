"""All worlds, by their names: a folder here each, or another package's."""

from weft.base.registry import Registry
from weft.topo.worlds.kind import WorldKind

DEFAULT = "emulated"
PREDICTING = "simulated"
"""The world that says what a run in another one should take, and computes communication alone."""


WORLDS: Registry[WorldKind] = Registry(
    "weft.worlds", "weft.topo.worlds:kind.WORLD", kind="weft.topo.worlds.kind:WorldKind"
)
"""All worlds."""


def has_real_time(name: str) -> bool:
    """Return whether time is the machine's in a world; it is in one that is not installed here,
    since nobody knows better."""
    return name not in WORLDS or WORLDS[name].has_real_time
