"""The P4Runtime controller: it says what every switch of a fabric shall hold, and brings switches
to it.

``fabric_plan`` says what every switch shall hold, as pure data; a ``Controller`` brings the
switches to that. What can be planned is in features/.
"""

from typing import TYPE_CHECKING, Any

from weft.controller.counters import LinkCounters
from weft.controller.fabric_planner import fabric_plan
from weft.controller.plan import Plan, diff

if TYPE_CHECKING:
    from weft.controller.controller import Controller

__all__ = ["Controller", "LinkCounters", "Plan", "diff", "fabric_plan"]


def __getattr__(name: str) -> Any:
    """Import ``Controller`` when it is first asked for, since whoever only plans needs no gRPC."""
    if name == "Controller":
        from weft.controller.controller import Controller

        return Controller
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
