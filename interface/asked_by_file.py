"""What a network file asks beside the network's shape: what goes into its switches, and commands of
its hosts' shells."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from weft.base.units import shown
from weft.controller.client import LoadableProgram, ProgramPaths
from weft.controller.entry_files.entry_file import EntryFile
from weft.controller.entry_files.reading import checked_files
from weft.controller.handles.switch import SwitchHandle
from weft.topo.network import Topology
from weft.topo.switch_kinds import SwitchKind

MOST_SAID = 400
"""The most characters of what a failed command said that are shown."""


class CommandedNetwork(Protocol):
    """What is asked of a network whose hosts run commands."""

    @property
    def mininet(self) -> Any: ...


class AskedByFile:
    """What is done once the network is up."""

    def __init__(
        self,
        topology: Topology,
        kind: SwitchKind,
        own: Mapping[str, ProgramPaths],
        others: ProgramPaths | None,
    ) -> None:
        """Read files of entries, and check them against the programs of their switches.

        Args:
            own: the programs of switches with one of their own.
            others: the program of all other switches; None: entries are left to somebody else's
                controller.

        Raises:
            InputError: an entry does not fit; it names the file and the line.
        """
        self._files: dict[str, list[EntryFile]] = {}
        if others is not None:
            paths = {each.name: each.entries for each in topology.switches if each.entries}
            running = {name: own.get(name, others) for name in paths}
            programs = {files: LoadableProgram.read(files) for files in set(running.values())}
            fitting = {name: programs[files] for name, files in running.items()}
            self._files = checked_files(paths, fitting, kind)
        self._commands = {host.name: host.commands for host in topology.hosts if host.commands}
        self.notes = [*topology.left_out]
        """What is not done, and what commands said that failed; a network is up all the same."""

    def write(self, switch: Callable[[str], SwitchHandle]) -> None:
        """Write the entries to the switches. Raises InputError with file and line where a switch
        refuses one."""
        for name, files in self._files.items():
            for each in files:
                each.apply(switch(name))

    def run(self, net: CommandedNetwork | None) -> None:
        """Let the shells of hosts run their commands, one after the other; None: the time of the
        network is virtual, and its hosts have no shells."""
        if net is None:
            return
        for host, commands in self._commands.items():
            node = net.mininet[host]
            for command in commands:
                said = node.cmd(command).strip()
                status = node.cmd("echo $?").strip()
                if status != "0":
                    self.notes.append(
                        f"{host}: {shown(command)} ended with status {status}"
                        + (f": {said[-MOST_SAID:]}" if said else "")
                    )
