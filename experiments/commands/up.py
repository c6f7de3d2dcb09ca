"""``weft up``: a topology that is up, and stays so for as long as somebody works with it."""

import contextlib
import signal
from pathlib import Path
from typing import TextIO

from rich.console import Console

from weft.base.progress import Progress
from weft.controller import Controller
from weft.experiments.commands.prompt import Prompt, Standing
from weft.experiments.runs.inputs import plan_of, program_of
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
                        controller.apply(plan_of(controller.names, scenario, network))
        addresses = world.switch_addresses
        switches = {
            switch.name: RunningSwitch(addresses[switch.name], switch.device_id)
            for switch in network.switches
        }
        running = RunningTestbed(world.record.id, network.describe(), switches)
        running.write(world.record.folder)
        strange = set(switches) if program else set()
        # At the prompt Ctrl-C ends a command, and not the testbed.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        stack.callback(signal.signal, signal.SIGINT, before)
        Prompt(Standing(scenario, world, controller, running, strange), commands)
