"""A network: a torus of switches, each with a host, as supercomputers have it."""

from dataclasses import dataclass
from typing import Any

from weft.base.option import NETWORK, RATE, WHOLE, option
from weft.experiments.scenario.networks import NetworkShape
from weft.topo.network import Topology
from weft.topo.own import Network


@dataclass(frozen=True)
class TorusOptions:
    """Options that the command line, scenario files and Python have for this network."""

    columns: int = option(
        3, WHOLE, "Torus: switches of a row.", group=NETWORK, between=(3, 64), network=True
    )
    rows: int = option(
        3, WHOLE, "Torus: switches of a column.", group=NETWORK, between=(3, 64), network=True
    )
    torus_rate: int = option(
        100_000_000, RATE, "Torus: rate of all links.", group=NETWORK, network=True
    )


class Torus(NetworkShape):
    """A torus of two dimensions."""

    name = "torus"
    about = "a host at each switch"
    options = TorusOptions

    def topology(self, own: Any) -> Topology:
        """Link every switch to the next one of its row and of its column."""
        torus = Network("torus", rate=own.torus_rate)
        places = [(row, column) for row in range(own.rows) for column in range(own.columns)]
        for row, column in places:
            torus.link(torus.host(f"h{row}_{column}"), torus.switch(f"s{row}_{column}"))
        for row, column in places:
            torus.link(f"s{row}_{column}", f"s{row}_{(column + 1) % own.columns}")
            torus.link(f"s{row}_{column}", f"s{(row + 1) % own.rows}_{column}")
        return torus.topology()


TORUS = Torus()
