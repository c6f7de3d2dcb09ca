"""One operation in the simulated world: a fresh network in virtual time, in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from weft.base.errors import RunError
from weft.controller import Controller
from weft.experiments.results.results import Fidelity, LinkResult, Run
from weft.experiments.results.telemetry import first_bin_ns
from weft.experiments.runs.inputs import cast_of, operation_of, plan_around, plan_at_start
from weft.experiments.runs.measured import Counts, assemble
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.bounds import completion_bound_ns
from weft.switch.compiler import ProgramFiles
from weft.topo.worlds.simulated.world import SimulatedWorld

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
    scenario: Scenario,
    program: ProgramFiles,
    algorithm: str,
    repetition: int,
    advance: Callable[[float], None],
) -> Run:
    """Run one operation on a network of its own; the same scenario gives the same run, bit for bit.

    The data and the switches' random() depend on the scenario's seed and the repetition.
    """
    seed = scenario.seed + repetition
    world = SimulatedWorld(
        scenario.network(), seed=seed, path_mtu=scenario.mtu, faults=scenario.injected
    )
    with Controller(world.topology, world.switch_addresses, program) as controller:
        plan = plan_at_start(scenario, world.topology, algorithm=algorithm)
        controller.apply(plan)
        before = Counts.read(controller, world)
        error = None
        reports = []
        try:
            reports = world.run_operation(
                operation_of(scenario, algorithm, seed),
                lambda state: advance(state.fraction),
                cast=cast_of(scenario, world.topology, plan, algorithm),
                notice_after_ns=scenario.notice_delay_ns,
                noticed=lambda links: controller.apply(
                    plan_around(scenario, world.topology, links, algorithm=algorithm)
                ),
                load_bin_ns=first_bin_ns(completion_bound_ns(scenario, algorithm)),
            )
        except RunError as failure:
            error = str(failure)
        after = Counts.read(controller, world)
        lost = world.fault_losses()
    return assemble(
        scenario,
        algorithm,
        repetition,
        reports,
        [_with_losses(link, lost) for link in after.links_since(before, world.topology)],
        IN_VIRTUAL_TIME,
        load_bin_ns=after.switches["load_bin_ns"],
        error=error,
        digest=world.digest,
    )


def _with_losses(link: LinkResult, lost: Mapping[tuple[str, str], tuple[int, int]]) -> LinkResult:
    """Add what faults by name lost, which no switch counts."""
    packets, size_bytes = lost.get((link.from_node, link.to_node), (0, 0))
    if not packets:
        return link
    unseen = link.tier == "host_up"  # the switch counts only what came
    return replace(
        link,
        lost=link.lost + packets,
        tx_packets=link.tx_packets + (packets if unseen else 0),
        tx_bytes=link.tx_bytes + (size_bytes if unseen else 0),
    )
