"""Options of sums in switches, for those who ask without loading numpy."""

from dataclasses import dataclass
from typing import Any

from weft.agents.collectives.names import AGGREGATION_VALUES, BMV2_AGGREGATION_VALUES, SLOTS
from weft.base.option import ADDING, OF_ALGORITHMS, WHOLE, option

MAX_SLOTS = 512
"""The most rounds of all jobs: a switch has 1,024 rows."""
HEADER_BYTES = 16
"""What a packet's payload has before its values."""


@dataclass(frozen=True)
class SwitchOptions:
    """What is asked of switches that add."""

    slots: int | None = option(
        None,
        WHOLE,
        "Switch: rounds under way at a time.",
        group=ADDING,
        default_text=str(SLOTS),
        between=(1, MAX_SLOTS),
        who=OF_ALGORITHMS,
        filled=lambda asked, known: SLOTS if asked.adding else None,
    )
    """How many rounds each job may have under way at a time."""
    values: int | None = option(
        None,
        WHOLE,
        "Switch: numbers in a packet.",
        group=ADDING,
        metavar="V",
        default_text=f"{AGGREGATION_VALUES}; BMv2 {BMV2_AGGREGATION_VALUES}",
        network=lambda asked: asked.program_values,
        who=OF_ALGORITHMS,
        filled=lambda asked, known: _most_values(asked) if asked.adding else None,
    )
    """How many numbers of 32 bits a packet has; by default 256, on BMv2 64, or as many as the path
    MTU has room for."""


def _most_values(asked: Any) -> int:
    room: int = (asked.mtu - HEADER_BYTES) // 4
    return min(int(asked.program_values), 1 << room.bit_length() - 1)
