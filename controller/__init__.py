"""The P4Runtime controller: routes, multicast trees and faults.

``fabric_plan`` says what every switch shall hold, as pure data; a ``Controller`` brings switches
to it.
"""

from typing import TYPE_CHECKING, Any

from weft.controller.aggregation import AggregationJob
from weft.controller.counters import AggregationCounters, LinkCounters
from weft.controller.fabric_planner import fabric_plan
from weft.controller.multicast import Tree
from weft.controller.pinned_paths import Pin
from weft.controller.plan import Plan, diff

if TYPE_CHECKING:
    from weft.controller.controller import Controller

__all__ = [
    "AggregationCounters",
    "AggregationJob",
    "Controller",
    "LinkCounters",
    "Pin",
    "Plan",
    "Tree",
    "diff",
    "fabric_plan",
]


def __getattr__(name: str) -> Any:
    """Planning alone needs no gRPC: ``Controller`` is imported when it is first asked for."""
    if name == "Controller":
        from weft.controller.controller import Controller

        return Controller
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
