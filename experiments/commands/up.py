"""``weft up``: a topology that is up, and stays so for as long as somebody works with it."""

import contextlib
import signal
from pathlib import Path
from typing import TextIO

from rich.console import Console

from weft.base.errors import InputError
from weft.base.progress import Progress
from weft.experiments.commands.prompt import Prompt
from weft.experiments.interface.net import Net
from weft.experiments.scenario.scenario import Scenario
from weft.switch.commands.switch_options import check_program
from weft.topo.worlds.emulated.relays import Relays
from weft.topo.worlds.emulated.testbeds import RunningSwitch, RunningTestbed
from weft.topo.worlds.emulated.world import EmulatedWorld


def stay_up(
    scenario: Scenario,
    program: Path | None,
    commands: TextIO,
    console: Console,
    *,
    pcap: Path | None = None,
    bypass_qdisc: bool = False,
    cpu_port: int | None = None,
    priority_queues: int = 1,
    source: str = "standard input",
    controlled: bool = True,
    grpc_port: int | None = None,
) -> None:
    """Bring a network up, with its routes, hand it to Mininet's prompt, and take it down when the
    commands end.

    Args:
        program: the user's own in place of the fabric's; its tables are empty then.
        console: where progress is shown.
        pcap: the folder for captures at both ends of every link.
        controlled: whether Weft's controller owns the switches; otherwise they have no program but
            the user's, and no entries.
        grpc_port: the TCP port of loopback where the first switch serves P4Runtime, and the next
            ones at the next ports; None for Unix sockets alone.
        bypass_qdisc: whether what switches send passes by their interfaces' queueing disciplines.
        cpu_port, priority_queues: as for `weft.experiments.interface.net.up`.
        source: what errors call the file of the commands.

    Raises:
        InputError, MachineError: the network, the program, or the machine does not do.
        RunError: it could not be brought up or taken down, a process of it has ended, or commands
            that nobody typed at a terminal have failed.
    """
    if program is not None:
        check_program(program)
    # Mininet may have more words than those that no network's node is called by.
    network = scenario.network()
    names = {node.name for node in network.hosts} | {node.name for node in network.switches}
    for name in sorted(names & Prompt.words()):
        raise InputError(f"{name!r} is a command of the prompt: give the node another name")
    with contextlib.ExitStack() as stack:
        with Progress(console) as progress:
            programs = _programs(scenario, program, controlled)
            with progress.stage("program", f"Compile {programs}" if programs else "Check"):
                net = Net(
                    scenario,
                    program,
                    pcap=None if pcap is None else str(pcap),
                    bypass_qdisc=bypass_qdisc,
                    cpu_port=cpu_port,
                    priority_queues=priority_queues,
                    controlled=controlled,
                )
            with progress.stage("bring_up", f"Bring up {net.topology.describe()}"):
                stack.enter_context(net)
        world: EmulatedWorld = net.backend.world
        addresses = world.switch_addresses
        switches = {
            switch.name: RunningSwitch(addresses[switch.name], switch.device_id)
            for switch in net.topology.switches
        }
        running = RunningTestbed(
            world.record.id, net.topology.describe(), switches, controlled, grpc_port
        )
        if grpc_port is not None:
            paths = {
                port: each.address.removeprefix("unix:") for port, each in running.ports().items()
            }
            stack.callback(Relays(paths).close)
        running.write(world.record.folder)
        # At the prompt Ctrl-C ends a command, and not the testbed.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        stack.callback(signal.signal, signal.SIGINT, before)
        if not controlled:
            print(_left_alone(net))
        if grpc_port is not None or not controlled:
            print(*running.lines(), sep="\n")
        prompt = Prompt(net, running, commands, source)
    if pcap is not None:
        _tell_captures(world, pcap)
    prompt.check_commands()


def _programs(scenario: Scenario, program: Path | None, controlled: bool) -> str:
    """Return which programs are compiled; empty if none is."""
    if program is not None:
        return str(program)
    others = "the program of the fabric" if controlled else ""
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
