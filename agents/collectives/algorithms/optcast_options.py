"""Options that Optcast has of its own, for those who ask without loading numpy."""

from dataclasses import dataclass

from weft.agents.collectives.names import MAX_HOSTS, MAX_SPLIT
from weft.agents.collectives.unicast_options import UnicastOptions
from weft.base.option import OF_ALGORITHMS, OPTCAST, TEXT, WHOLE, option

DEDICATED, ON_RANKS = SERVER_PLACEMENTS = ("dedicated", "ranks")


@dataclass(frozen=True)
class OptcastOptions(UnicastOptions):
    """What is asked of Optcast."""

    servers: int | None = option(
        None,
        WHOLE,
        "Optcast: reduction servers.",
        group=OPTCAST,
        metavar="S",
        default_text="as many as ranks",
        between=(1, MAX_HOSTS),
        network=lambda asked: asked.dedicated_servers,
        who=OF_ALGORITHMS,
        filled=lambda asked, known: known.usual_servers() if asked.serving else None,
    )
    server_placement: str = option(
        DEDICATED,
        TEXT,
        "Optcast: servers have dedicated hosts, or the ranks'.",
        group=OPTCAST,
        choices=SERVER_PLACEMENTS,
        who=OF_ALGORITHMS,
    )
    """With ``dedicated``, servers have hosts of their own, which the network gets beside those of
    ranks, spread over the leaves; with ``ranks``, server s is on the host of rank s."""
    split: int | None = option(
        None,
        WHOLE,
        "Optcast: pieces of a request.",
        group=OPTCAST,
        default_text="one a server",
        between=(1, MAX_SPLIT),
        who=OF_ALGORITHMS,
    )
    """How many pieces a request is cut into, which are dealt to the servers in turn."""
    fan_in: int | None = option(
        None,
        WHOLE,
        "Optcast: most contributions to one server.",
        group=OPTCAST,
        default_text="no limit",
        between=(2, MAX_HOSTS),
        who=OF_ALGORITHMS,
    )
    """The most contributions, of ranks or servers, that one server takes; if there are more ranks,
    servers form a tree."""
