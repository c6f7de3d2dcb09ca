"""A network that is up, as what reads it and what runs programs on it see it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from weft.controller import Controller
from weft.controller.counters import LinkCounters
from weft.experiments.scenario.scenario import Scenario
from weft.topo.network import Direction, Link, Topology


class UpNetwork(Protocol):
    """What of a `weft.interface.net.Net` is used here."""

    topology: Topology
    backend: Any
    """The network in its world: a `weft.topo.worlds.world.World`."""
    standing: Any
    began_s: float
    epochs: Iterator[int]
    changed: dict[str, Link]
    """The links whose figures have changed since the network came up, as they are now."""

    @property
    def world(self) -> str: ...
    @property
    def scenario(self) -> Scenario: ...
    @property
    def controller(self) -> Controller: ...
    @property
    def now(self) -> float: ...
    @property
    def down(self) -> frozenset[str]: ...
    @property
    def planning(self) -> AbstractContextManager[bool]: ...
    def planned_by(self, plan: Callable[[], None]) -> AbstractContextManager[None]: ...
    def set_link(self, node: str, neighbour: str, up: bool) -> None: ...
    def counts(self) -> dict[tuple[str, str], LinkCounters]: ...
    def counted_by(self, direction: Direction) -> str: ...
