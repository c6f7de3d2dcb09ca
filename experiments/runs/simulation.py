"""One operation in the simulated world: a fresh network in virtual time, in this process."""

import itertools
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from weft.agents.ranks import RankReport
from weft.controller import Controller
from weft.experiments.results.results import Fidelity, Run
from weft.experiments.runs.inputs import own_programs
from weft.experiments.runs.operate import Advance, Order, operate
from weft.experiments.scenario.scenario import Scenario
from weft.switch.compiler import ProgramFiles
from weft.topo.worlds.simulated.world import SimulatedWorld

Predictions = dict[tuple[str, int], int | None]
"""Completion times in ns by algorithm and repetition."""

IN_VIRTUAL_TIME = Fidelity(
    verdict="ok",
    reasons=["virtual time: no processor can be too slow"],
    cpu_busy=0.0,
    cpu_stolen=0.0,
    cpu_s={},
    lateness_ns={},
    unplanned_losses=0,
)


def simulate(
    scenario: Scenario, program: ProgramFiles, algorithm: str, repetition: int, advance: Advance
) -> Run:
    """Run one operation on a network of its own; the same scenario gives the same run, bit
    for bit."""
    world = SimulatedWorld(
        scenario.network(),
        seed=scenario.seed + repetition,
        path_mtu=scenario.mtu,
    )
    others = own_programs(world.topology)
    with Controller(world.topology, world.switch_addresses, program, others=others) as controller:
        return operate(
            SimulatedTestbed(scenario, world, controller), algorithm, repetition, advance
        )


class SimulatedTestbed:
    """Hold a simulated world and its switches' controller."""

    def __init__(self, scenario: Scenario, world: SimulatedWorld, controller: Controller) -> None:
        self.scenario = scenario
        self.world = world
        self.controller = controller
        self.epochs: Iterator[int] = itertools.count(1)
        self.failed: Collection[str] = ()

    @property
    def digest(self) -> str:
        """See `Testbed.digest`."""
        return self.world.digest

    @contextmanager
    def gathered(self, order: Order, advance: Advance) -> Iterator[Callable[[], list[RankReport]]]:
        """See `Testbed.gathered`."""
        yield lambda: self.world.run_operation(
            order.operation,
            lambda state: advance(state.fraction),
            cast=order.cast,
            faults=self.scenario.injected,
            notice_after_ns=self.scenario.notice_delay_ns,
            noticed=lambda links: order.lead_around((), links),
            load_bin_ns=order.load_bin_ns,
        )

    def check_alive(self) -> None:
        """See `Testbed.check_alive`; nothing of this world can end by itself."""

    def fidelity(self, *_: object) -> Fidelity:
        """See `Testbed.fidelity`."""
        return IN_VIRTUAL_TIME
