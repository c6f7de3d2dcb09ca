"""All features of the fabric's program, in the order in which their entries are planned."""

from weft.base.entry_points import brought
from weft.controller.features.aggregation import Aggregation
from weft.controller.features.congestion import Congestion
from weft.controller.features.faults import Faults
from weft.controller.features.feature import Feature
from weft.controller.features.multicast import MulticastFeature
from weft.controller.features.pinned_paths import PinnedPaths
from weft.controller.features.routes import Routes
from weft.controller.features.transmission import Transmission

OWN: tuple[Feature, ...] = (
    Transmission(),
    Routes(),
    PinnedPaths(),
    Congestion(),
    MulticastFeature(),
    Aggregation(),
    Faults(),
)
"""Weft's own features."""


def brought_features() -> tuple[Feature, ...]:
    """Return all features that other packages bring, by name."""
    needs = ("include", "ingress", "egress", "plan", "counters", "host_counters", "share", "wanted")
    found = brought("weft.p4_features", *needs, taken=tuple(each.name for each in OWN))
    return tuple(found[name] for name in sorted(found))


def all_features() -> tuple[Feature, ...]:
    """Return Weft's own features and those of other packages."""
    return OWN + brought_features()
