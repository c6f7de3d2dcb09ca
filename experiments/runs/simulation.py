"""Operations in virtual time, each on a fresh network in this process: runs of worlds whose time is
virtual, and those that predict what others take."""

from weft.controller import Controller
from weft.experiments.results.results import Run
from weft.experiments.runs.capacity import carries_bytes
from weft.experiments.runs.inputs import own_programs
from weft.experiments.runs.operate import operate
from weft.experiments.runs.testbed import Testbed
from weft.experiments.scenario.scenario import Scenario
from weft.switch.compiler import ProgramFiles
from weft.topo.worlds.registry import PREDICTING, WORLDS
from weft.topo.worlds.world import Advance, NetworkOptions


def simulate(
    scenario: Scenario, program: ProgramFiles, algorithm: str, repetition: int, advance: Advance
) -> Run:
    """Run one operation on a network of its own, in the scenario's world or, if time is real there,
    in the one that predicts; the same scenario gives the same run, bit for bit."""
    kind = WORLDS[scenario.world]
    if kind.has_real_time:
        kind = WORLDS[PREDICTING]
    options = NetworkOptions(
        path_mtu=scenario.mtu,
        seed=scenario.seed + repetition,
        payload=carries_bytes(scenario),
        cores=scenario.cores,
        keep=scenario.keep == "all",
    )
    with kind.network(scenario.network(), options) as world:
        others = own_programs(world.topology)
        addresses = world.switch_addresses
        with Controller(world.topology, addresses, program, others=others) as controller:
            return operate(Testbed(scenario, world, controller), algorithm, repetition, advance)
