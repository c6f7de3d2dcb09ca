"""The way of a packet through a network that is up: its switches are read, nothing is sent."""

import json
import os
import random
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from weft.base.arguments import path
from weft.experiments.report.base import write_page
from weft.interface.ways.copies import SwitchCopy
from weft.interface.ways.told import document, text
from weft.interface.ways.walk import Walk, Walker
from weft.switch.interpreter.explore import Explorer
from weft.switch.interpreter.steps import Choice
from weft.topo.network import Direction, Host, Link, Topology
from weft.topo.worlds.world import World

SEED = 1
"""Of the random numbers of a single way."""


class StandingNetwork(Protocol):
    """What is asked of a network that is up."""

    topology: Topology
    backend: World
    changed: dict[str, Link]

    @property
    def down(self) -> frozenset[str]: ...
    def check_up(self) -> None: ...


@dataclass(frozen=True)
class PacketWay:
    """What a packet goes through on its way through a network, or all that it may; its text is one
    for people."""

    walk: Walk

    def __str__(self) -> str:
        return text(self.walk).rstrip()

    @property
    def document(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return document(self.walk)

    @property
    def hosts(self) -> list[str]:
        """The hosts that get it, with all ways in every one or in some."""
        summary = self.document["summary"]
        return [*summary["always"], *summary["sometimes"]]

    def write(self, file: str | os.PathLike[str]) -> Path:
        """Write it to a file, and return that: JSON where its name ends so, else a page."""
        place = Path(path("file", file, "'way.html'"))
        if place.suffix == ".json":
            return write_page(json.dumps(self.document, indent=1) + "\n", place)
        from weft.interface.ways.page import render

        return write_page(render(self.walk), place)


def follow(
    net: StandingNetwork, host: Host, frame: bytes, *, port: int = 1, every: bool = False
) -> PacketWay:
    """Return the way of a frame that a host would send at one of its ports, or all of them.

    Raises SwitchError where a switch cannot be read.
    """
    net.check_up()
    draw = random.Random(SEED)

    def answer(choice: Choice) -> int:
        if choice.usual is not None:
            return choice.usual
        assert isinstance(choice.alternatives, range)
        return draw.randrange(choice.alternatives.stop - choice.alternatives.start)

    copies: dict[str, SwitchCopy] = {}
    explorers: dict[str, Explorer] = {}
    with ExitStack() as opened:

        def explorer_of(name: str) -> Explorer:
            if name not in explorers:
                switch = net.topology.switch(name)
                address = net.backend.switch_addresses[name]
                copy = copies[name] = SwitchCopy(name, switch.device_id, address)
                opened.callback(copy.close)
                outward = net.topology.outward(name)
                explorers[name] = Explorer(
                    copy.interpreter(
                        [net.topology.cpu_port, *(each.source.number for each in outward)],
                        _down(outward, net.down),
                        net.topology.priority_queues,
                    )
                )
            return explorers[name]

        answers = None if every else answer
        walker = Walker(net.topology, explorer_of, net.down, answers, net.changed)
        walk = walker.walk(host, frame, port)
        walk.unread = {name: sorted({*copy.unread}) for name, copy in copies.items() if copy.unread}
    return PacketWay(walk)


def _down(outward: tuple[Direction, ...], down: frozenset[str]) -> list[int]:
    return [each.source.number for each in outward if each.link.name in down]
