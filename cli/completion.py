"""What the prompt of ``weft up`` offers for the next word of a command, and the examples that it
shows: names that the network has."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from weft.base.cache import CHECKOUT
from weft.controller.bmv2_cli.run import COMMANDS
from weft.topo.link_changes import FIGURES
from weft.topo.network import Topology

BARE = ("EOF", "exit", "quit", "help", "links", "loads", "net", "nodes", "dump", "intfs", "ports",
        "pingall", "pingallfull", "pingpair", "pingpairfull")  # fmt: skip
"""Commands behind which no node stands."""


def candidates(topology: Topology, words: Sequence[str]) -> list[str]:
    """Return what may stand behind the words of a line, of which there is one at least."""
    command, *before = words
    switches = [switch.name for switch in topology.switches]
    hosts = [host.name for host in topology.hosts]
    if command in BARE:
        return []
    if command == "link":
        return _ends_and_state(topology, before)
    if command in ("tables", "counters", "cli") and not before:
        return switches
    if command == "cli":
        return [*COMMANDS] if len(before) == 1 else []
    if command in ("tables", "counters"):
        return []
    if command == "iperf":
        return [name for name in hosts if name not in before] if len(before) < 2 else []
    if command == "report":
        return []
    if command == "load":
        return [name for name in switches if name not in before]
    return [*topology.nodes]


def _ends_and_state(topology: Topology, before: Sequence[str]) -> list[str]:
    """Return what may stand behind the words of a ``link ONE OTHER up|down``: nodes, and ports of
    those that have several links with another."""
    if not before:
        ends = (each.ends[0] for each in topology.directions)
        return [*dict.fromkeys([*topology.nodes, *ends])]
    if len(before) == 1:
        name = before[0].partition(":")[0]
        outward = topology.outward(name) if name in topology.nodes else ()
        return [
            *dict.fromkeys(each.ends[1] for each in outward if each.source.is_called(before[0]))
        ]
    if len(before) > 2 and "=" not in before[2]:
        return []
    named = [word.partition("=")[0] for word in before[2:]]
    figures = [f"{name}=" for name in FIGURES if name not in named]
    return figures if named else ["up", "down", *figures]


def link_example(topology: Topology) -> str:
    """Return the two ends of a link, of one between switches if there is such, as ``link`` takes
    them."""
    hosts = {host.name for host in topology.hosts}
    links = sorted(topology.links, key=lambda link: not hosts.isdisjoint(link.nodes))
    return " ".join(links[0].ends)


def own_command() -> str:
    """Return how Weft is called from the current folder."""
    script = CHECKOUT / "weft"
    if Path.cwd() == CHECKOUT:
        return "./weft"
    return str(script) if script.is_file() and not shutil.which("weft") else "weft"


def examples(topology: Topology) -> str:
    """Return lines that say what can be tried, with names of the network's own nodes."""
    names = [host.name for host in topology.hosts]
    first, last, switch = names[0], names[-1], topology.switches[0].name
    return (
        f"Try: {first} ping -c 3 {last}, pingall, iperf {first} {last}, "
        f"link {link_example(topology)} down,\n"
        f"tables {switch}, counters {switch}, trace {switch}, load PROGRAM.p4, help; exit or\n"
        f"Ctrl-D takes it all down. In another terminal: sudo {own_command()} shell {first}"
    )
