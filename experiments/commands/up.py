"""``weft up``: a topology that is up, and stays so for as long as somebody works with it."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from rich.console import Console

from weft.base.progress import Progress
from weft.controller import Controller
from weft.experiments.commands.prompt import Prompt
from weft.experiments.runs.inputs import plan_of, program_of
from weft.experiments.runs.standing import Standing
from weft.experiments.scenario.scenario import Scenario
from weft.switch.commands.switch_options import check_program
from weft.switch.compiler import compile_cached
from weft.topo.worlds.emulated.testbeds import RunningSwitch, RunningTestbed
from weft.topo.worlds.emulated.world import EmulatedWorld


def stay_up(scenario: Scenario, program: Path | None, commands: TextIO, console: Console) -> None:
    """Bring a network up, with its routes, hand it to Mininet's prompt, and take it down when the
    commands end.

    Args:
        program: the user's own in place of the fabric's; its tables are empty then.
        console: where progress is shown.

    Raises:
        InputError, MachineError: the network, the program, or the machine does not do.
        RunError: it could not be brought up or taken down, or a process of it has ended.
    """
    if program is not None:
        check_program(program)
    network = scenario.network()
    world = EmulatedWorld(
        network,
        scenario.switch,
        path_mtu=scenario.mtu,
        seed=scenario.seed,
        links=scenario.link_kind,
    )
    with contextlib.ExitStack() as stack:
        with Progress(console) as progress:
            with progress.stage("program", f"Compile {program or 'the program of the fabric'}"):
                files = compile_cached(program) if program else program_of(scenario)
            with progress.stage("bring_up", f"Bring up {network.describe()}"):
                stack.enter_context(world)
                with world.blaming_the_dead():
                    controller = Controller(network, world.switch_addresses, files)
                    stack.enter_context(controller)
                    if program is None:
                        controller.apply(plan_of(scenario, network))
        running = _running(world)
        running.write(world.record.folder)
        strange = {switch.name for switch in network.switches} if program else set()
        with _interruptible():
            Prompt(Standing(scenario, world, controller, running, strange), commands)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Within the block Ctrl-C ends a command at the prompt, and not the testbed."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _running(world: EmulatedWorld) -> RunningTestbed:
    addresses = world.switch_addresses
    return RunningTestbed(
        world.record.id,
        world.topology.describe(),
        {
            switch.name: RunningSwitch(addresses[switch.name], switch.device_id)
            for switch in world.topology.switches
        },
    )
