"""Theory's questions to algorithms, by the names of collective and algorithm."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from weft.agents.collectives.algorithms import switch_model
from weft.agents.collectives.algorithms.optcast_model import Optcast
from weft.agents.collectives.algorithms.optcast_options import OptcastOptions
from weft.agents.collectives.places import Places
from weft.agents.collectives.registry import algorithm_of
from weft.agents.collectives.task import Task
from weft.agents.collectives.transfers import Transfers
from weft.experiments.theory.traffic_model import places_of
from weft.topo.network import Topology

OFFLOADED = ("switch", "optcast")
"""Algorithms that need more than ranks: switches that add, or reduction servers."""


def unicast_rounds(
    collective: str, algorithm: str, shards: Sequence[int], **options: Any
) -> Iterator[Transfers]:
    """All messages of one operation, in rounds."""
    task = Task(collective, np.asarray(shards, np.int64), **options)
    return algorithm_of(collective, algorithm).rounds(task)


def bound_bytes(collective: str, algorithm: str, shards: Sequence[int], **options: Any) -> int:
    """The least completion time in bytes that one link could carry meanwhile."""
    if len(shards) == 1:
        return 0
    task = Task(collective, np.asarray(shards, np.int64), **options)
    return algorithm_of(collective, algorithm).least_bytes(task)


def on_servers(
    collective: str,
    shards: Sequence[int],
    servers: int,
    *,
    hosts: Sequence[int] | None = None,
    split: int = 0,
    fan_in: int = 0,
    **options: Any,
) -> Optcast:
    """How ranks use reduction servers; member m, a rank or a server, is on the m-th of the
    hosts."""
    places = None
    if hosts is not None:
        numbers = np.asarray(hosts, np.int64)
        places = Places(numbers, np.zeros_like(numbers), np.zeros_like(numbers))
    sizes = np.asarray(shards, np.int64)
    own = OptcastOptions(servers=servers, split=split or None, fan_in=fan_in or None)
    return Optcast(Task(collective, sizes, places=places, **options), own)


def unicast_tier_bytes(network: Topology, rounds: Iterable[Transfers]) -> dict[str, int]:
    """By tier, what messages between hosts put on links."""
    return places_of(network).unicast_bytes(rounds)._asdict()


def multicast_tier_bytes(network: Topology, shards: Sequence[int]) -> dict[str, int]:
    """By tier, what shards put on links that each go from their host to all others."""
    return places_of(network).multicast_bytes(np.asarray(shards, np.int64))._asdict()


def switch_tier_bytes(
    network: Topology, traffic: switch_model.SwitchTraffic, hosts: Sequence[int] | None = None
) -> dict[str, int]:
    """By tier, what an operation in switches puts on links; rank r is on the r-th of the hosts."""
    places = places_of(network, hosts)
    return switch_model.switch_tier_bytes(places, len(places.host), traffic)._asdict()


def switch_bound_bytes(network: Topology, traffic: switch_model.SwitchTraffic) -> int:
    """The least time of an operation in switches, in bytes; rank r is on host r."""
    places = places_of(network)
    return switch_model.switch_bound_bytes(places, len(places.host), traffic)
