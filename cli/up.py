"""``weft up``: a topology that is up, and stays so for as long as somebody works with it."""

import contextlib
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from rich.console import Console

from weft.base import native_code
from weft.base.errors import InputError
from weft.base.progress import Progress
from weft.cli.prompt import Prompt
from weft.experiments.runs.folder import ResultsFolder
from weft.experiments.runs.network_state import gather, write_results
from weft.experiments.scenario.scenario import Scenario
from weft.interface.net import Net
from weft.interface.standing import Standing
from weft.switch.commands.switch_options import check_program
from weft.topo.worlds.emulated.world import EmulatedWorld


def stay_up(
    scenario: Scenario,
    standing: Standing,
    commands: TextIO,
    console: Console,
    *,
    out: Path | None = None,
    source: str = "standard input",
) -> None:
    """Bring a network up, with its routes, hand it to Mininet's prompt, and take it down when the
    commands end.

    Args:
        standing: what is asked of it beside its shape. A program of the user's own in place of the
            fabric's has empty tables.
        console: where progress is shown.
        out: the results folder; None: none is written.
        source: what errors call the file of the commands.

    Raises:
        InputError, MachineError: the network, the program, or the machine does not do.
        RunError: it could not be brought up or taken down, a process of it has ended, or commands
            that nobody typed at a terminal have failed.
    """
    program = standing.program
    if program is not None and not isinstance(program, Mapping):
        check_program(Path(program))
    # Mininet may have more words than those that no network's node is called by.
    network = scenario.network()
    names = {node.name for node in network.hosts} | {node.name for node in network.switches}
    for name in sorted(names & Prompt.words()):
        raise InputError(f"{name!r} is a command of the prompt: give the node another name")
    with contextlib.ExitStack() as stack:
        with Progress(console) as progress:
            programs = _programs(scenario, standing)
            with progress.stage("program", f"Compile {programs}" if programs else "Check"):
                net = Net(scenario, standing)
            folder = None if out is None else ResultsFolder(out)
            if folder is not None:
                stack.callback(folder.close)
                folder.make(captures=False, traces=False)
            with progress.stage("bring_up", f"Bring up {net.topology.describe()}"):
                stack.enter_context(net)
        world = net.backend
        assert isinstance(world, EmulatedWorld)
        running = world.running
        assert running is not None
        # At the prompt Ctrl-C ends a command, and not the testbed.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        stack.callback(signal.signal, signal.SIGINT, before)
        if not standing.controlled:
            print(_left_alone(net))
        if standing.grpc_port is not None or not standing.controlled:
            print(*running.lines(), sep="\n")
        for note in net.by_file.notes:
            print(f"weft: {note}", file=sys.stderr)
        prompt = Prompt(net, running, commands, source)
        if folder is not None:
            _tell_results(write_results(gather(net), folder))
    if standing.pcap is not None:
        _tell_captures(world, standing.pcap)
    native_code.begin()
    prompt.check_commands()


def _tell_results(written: Sequence[Path]) -> None:
    for what, path in zip(("Results:", "Report: "), written, strict=True):
        print(f"{what} {path}")


def _programs(scenario: Scenario, standing: Standing) -> str:
    """Return which programs are compiled; empty if none is."""
    if isinstance(standing.program, Mapping):
        return ", ".join(dict.fromkeys(map(str, standing.program.values())))
    if standing.program is not None:
        return str(standing.program)
    others = "the program of the fabric" if standing.controlled else ""
    named = [switch.program or others for switch in scenario.network().switches]
    return ", ".join(dict.fromkeys(filter(None, named)))


def _left_alone(net: Net) -> str:
    """Return a line about what there is not without a controller."""
    own = {switch.name: switch.program for switch in net.topology.switches if switch.program}
    bare = [switch.name for switch in net.topology.switches if switch.name not in own]
    programs = [f"{name} runs {program}" for name, program in own.items()]
    if bare:
        programs.append(f"{', '.join(bare)} {'run' if len(bare) > 1 else 'runs'} no program yet")
    return (
        f"No controller: {'; '.join(programs)}. Tables are empty, there are no multicast groups "
        "and no routes, and none comes when a link goes down or up.\nA P4Runtime client may own "
        "the switches by any election id from 1 on; 'load' is for when it has ended:"
    )


def _tell_captures(world: EmulatedWorld, pcap: Path) -> None:
    print(f"Captures: {pcap.resolve()}")
    for each in world.captured:
        if each.lost:
            print(f"capture {each.path.name} misses {each.lost} packets at {each.end}")
