"""The P4Runtime controller: routes, multicast trees and faults.

``fabric_plan`` says as plain data what every switch is to hold; a ``Controller`` makes the switches
hold it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.controller.aggregation import AggregationJob
from weft.controller.counters import LinkCounters
from weft.controller.multicast import Tree
from weft.controller.pinned_paths import Pin
from weft.controller.plan import Plan, diff, fabric_plan

if TYPE_CHECKING:
    from weft.controller.controller import Controller

__all__ = [
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
    """Import ``Controller`` when it is first asked for, since planning alone needs no gRPC."""
    if name == "Controller":
        from weft.controller.controller import Controller

        return Controller
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
