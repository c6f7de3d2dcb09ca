"""All features of the fabric's program, in the order in which their entries are planned."""

from weft.base.registry import Registry
from weft.controller.features.aggregation import Aggregation
from weft.controller.features.congestion import Congestion
from weft.controller.features.faults import Faults
from weft.controller.features.feature import Feature
from weft.controller.features.multicast import MulticastFeature
from weft.controller.features.pinned_paths import PinnedPaths
from weft.controller.features.priorities import Priorities
from weft.controller.features.routes import Routes
from weft.controller.features.transmission import Transmission

FEATURES: Registry[Feature] = Registry(
    "weft.p4_features",
    (
        Transmission(),
        Routes(),
        PinnedPaths(),
        Priorities(),
        Congestion(),
        MulticastFeature(),
        Aggregation(),
        Faults(),
    ),
    needs=("include", "ingress", "egress", "plan", "counters", "host_counters", "share", "wanted"),
)
"""All features, each a `weft.controller.features.feature.Feature`."""
