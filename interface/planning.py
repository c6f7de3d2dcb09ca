"""Plans for the switches of a network that stays up, as links fail and programs are loaded."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from weft.base.errors import InputError
from weft.controller import Controller
from weft.experiments.runs.inputs import plan_around
from weft.experiments.scenario.scenario import Scenario
from weft.topo.network import Topology
from weft.topo.own import with_programs
from weft.topo.worlds.world import World


class Planning:
    """What the switches of a network are planned for, and by whom."""

    def __init__(
        self, topology: Topology, scenario: Scenario, world: World, unmanaged: set[str]
    ) -> None:
        self._topology, self._scenario, self._world = topology, scenario, world
        self.unmanaged = unmanaged
        """The names of switches that run another program than the fabric's: no plan is for them."""
        self.down: set[str] = set()
        """The names of links that have failed."""
        self.lock = threading.RLock()
        """Held while switches are brought to another plan."""
        self.planner: Callable[[], None] | None = None
        """What else plans for the switches just now."""

    @contextmanager
    def planned_by(self, plan: Callable[[], None]) -> Iterator[None]:
        """Within the block let something else plan for the switches when links fail or come back,
        since it keeps more in them than the network does. Nobody else plans meanwhile (`lock`).
        It raises InputError where the links that are up do not serve, and then all stays."""
        self.planner = plan
        try:
            yield
        finally:
            self.planner = None

    def notice_loads(self) -> None:
        """Take note of the programs that ``weft load`` has given to switches: no plan is for one
        that lost entries by that."""
        self.unmanaged |= self._world.emptied()

    @property
    def has_fabric(self) -> bool:
        """Return whether any switch runs the fabric's program."""
        return any(switch.name not in self.unmanaged for switch in self._topology.switches)

    def plan(self, controller: Controller) -> None:
        """Bring the switches to the plan around the links that have failed."""
        self.notice_loads()
        if not self.has_fabric:
            return
        if self.planner is not None:
            with suppress(InputError):
                self.planner()
            return
        around = sorted(self.down)
        controller.apply(plan_around(controller.names, self._scenario, self.as_it_is(), around))

    def as_it_is(self) -> Topology:
        """Return the network with the programs that have been loaded since it came up."""
        loaded = self.unmanaged - self._topology.unmanaged
        return with_programs(self._topology, dict.fromkeys(loaded, "loaded since"))
