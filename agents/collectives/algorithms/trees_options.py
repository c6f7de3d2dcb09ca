"""Options that algorithms of trees have of their own, for those who ask without loading numpy."""

from dataclasses import dataclass

from weft.agents.collectives.unicast_options import UnicastOptions
from weft.base.option import UNICAST, WHOLE, option


@dataclass(frozen=True)
class KNomialOptions(UnicastOptions):
    """What is asked of the k-nomial tree."""

    radix: int = option(
        2,
        WHOLE,
        "Of the k-nomial tree.",
        group=UNICAST,
        metavar="K",
        between=(2, 64),
        who="it is for broadcast by k-nomial",
    )
    """k."""
