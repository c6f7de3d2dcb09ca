"""What a program that is interpreted finds around it."""

from collections.abc import Callable
from dataclasses import dataclass

from weft.switch.engine.dataplane.layout import DROP_PORT

MOST_PASSES = 1 << 14
"""How often one packet and all that is made of it may go through a pipeline, if nothing else is
said."""


@dataclass
class Surroundings:
    """What a program finds around it, beside its tables."""

    drop_port: int = DROP_PORT
    priorities: int = 1
    """How many queues each port has."""
    now_us: int = 0
    """The time since the switch started."""
    most_passes: int = MOST_PASSES
    cpu_port: int | None = None
    """The controller's."""
    has_port: Callable[[int], bool] = lambda port: True

    def served(self, priority: int) -> int:
        """Return a priority that there is a queue for: this one, or 0."""
        return priority if priority < self.priorities else 0
