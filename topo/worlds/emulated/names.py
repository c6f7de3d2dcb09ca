"""Names of hosts in hosts: a file that a run's nodes have as /etc/hosts, and nobody else."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the file is made before the network is known
    from weft.topo.network import Topology

NAMES = Path("/etc/hosts")
FILE = "hosts"
MODE = 0o644
"""Commands on hosts may run as anybody."""


def names_of(topology: "Topology", machine: str) -> str:
    """Return the lines of /etc/hosts for a network's hosts: the addresses of each, the first
    interface's first, and behind them what the machine's own file has."""
    lines = [
        f"{each.ip} {host.name}"
        for host in topology.hosts
        for interface in host.interfaces
        for each in interface.with_subnets
    ]
    return "\n".join(["# hosts of this network", *lines, "# the machine's own", machine])


def names_file(folder: Path) -> Path | None:
    """Make the file in a run's folder, with the machine's own names so far; return None on a
    machine that has no such file, in whose place it could be."""
    try:
        machine = NAMES.read_text(errors="replace")
    except OSError:
        return None
    file = folder / FILE
    file.write_text(machine)
    file.chmod(MODE)
    return file


def write_names(topology: "Topology", folder: Path) -> None:
    """Write a network's names into its run's file, if there is one, which has been mounted by now,
    and needs no place in the folder any more."""
    file = folder / FILE
    if file.exists():
        file.write_text(names_of(topology, file.read_text()))
        file.unlink()
