"""The paths of single flows, each a connection of its own, where these are decided before the flows
start; `lanes` has those of collectives, whose ranks keep their connections."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.base.entry_points import blamed
from weft.controller.clos_paths import ClosPaths
from weft.controller.features.pinned_paths import Pin
from weft.controller.flows import WITHIN_LEAF, Flows
from weft.controller.selector_hash import Salts, source_ports
from weft.experiments.paths.scheme import drawn_ports
from weft.experiments.scenario.kinds import scheme_in
from weft.experiments.scenario.scenario import Scenario


@dataclass(frozen=True)
class Piece:
    """A part of a flow with a connection of its own."""

    size_bytes: int
    source_port: int


def assigned(
    scenario: Scenario, steps: Sequence[Flows]
) -> tuple[list[list[Piece]], tuple[Pin, ...]]:
    """Return the pieces that a scheme which assigns paths cuts each flow of all steps into, in
    order, and what pins them.

    Args:
        steps: flows between hosts; those of a step share the network.

    Raises:
        InputError: the scheme assigns no paths on a network like this.
    """
    scheme, network, seed = scheme_in(scenario), scenario.network(), scenario.seed
    clos = ClosPaths.of(network)
    addresses = np.array([host.address for host in network.hosts], np.int64)
    made: dict[tuple[int, int], int] = {}
    """How many pieces there have been between two hosts."""
    found: list[list[Piece]] = []
    pins: list[Pin] = []
    for step in steps:
        with blamed(scheme, "pieces"):
            pieces = scheme.pieces(network, step, seed)
        mapped = source_ports(clos, Salts.of(clos, seed), step.source, step.destination)
        rows: list[list[Piece]] = [[] for _ in range(len(step))]
        columns = (pieces.flow, pieces.path, pieces.size_bytes)
        for flow, path, size in zip(*(each.tolist() for each in columns), strict=True):
            ends = int(step.source[flow]), int(step.destination[flow])
            number = made.get(ends, 0)
            made[ends] = number + 1
            pair = addresses[np.array([ends])]
            port = int(drawn_ports(seed, pair, number + 1)[0, number])
            if path != WITHIN_LEAF and scheme.assigned == "pins":
                pins.append(Pin(*ends, port, path))
            elif path != WITHIN_LEAF and mapped[flow, path] >= 0:
                port = int(mapped[flow, path])
            rows[flow].append(Piece(size, port))
        found += rows
    return found, tuple(pins)
