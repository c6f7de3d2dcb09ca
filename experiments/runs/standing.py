"""A testbed that stands, and what can be done to it while it does."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.controller import Controller
from weft.experiments.runs.inputs import plan_around
from weft.experiments.scenario.scenario import Scenario
from weft.topo.network import Topology
from weft.topo.worlds.emulated.testbeds import RunningTestbed
from weft.topo.worlds.emulated.world import EmulatedWorld


@dataclass
class Standing:
    """A testbed that stands: its world, its controller, and which links are down."""

    scenario: Scenario
    world: EmulatedWorld
    controller: Controller
    running: RunningTestbed
    strange: set[str]
    """Names of switches that run another program than the fabric's: no routes are kept there."""
    down: set[str] = field(default_factory=set)
    """Names of links."""

    @property
    def topology(self) -> Topology:
        return self.world.topology

    def set_link(self, one: str, other: str, up: bool) -> str:
        """Set the link between two nodes up or down, and lead routes around those that are down.

        Returns what to say of it. Raises InputError where there is no such link, SwitchError where
        the switches cannot be told.
        """
        link = self.topology.direction(one, other).link.name
        self.world.set_link(one, other, up=up)
        (self.down.discard if up else self.down.add)(link)
        said = f"{link} is {'up' if up else 'down'}"
        switches = {switch.name for switch in self.topology.switches}
        if self.strange == switches:
            return f"{said}; routes are those of the program that was loaded"
        if not {one, other} <= switches:
            return f"{said}; a host has no other way"
        for name in switches - self.strange:
            self.controller.session(name).take_over()
        plan = plan_around(self.scenario, self.topology, sorted(self.down))
        self.controller.apply(plan, besides=self.strange)
        said = f"{said}; routes lead {'over it again' if up else 'around it'}"
        if self.strange:
            said += f" (not those of {', '.join(sorted(self.strange))}, with another program)"
        return said
