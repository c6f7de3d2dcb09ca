"""Names of hosts in hosts: a file that a run's nodes have as /etc/hosts, and nobody else."""

from pathlib import Path

from weft.topo.network import Topology

NAMES = Path("/etc/hosts")
FILE = "hosts"
MODE = 0o644
"""Commands on hosts may run as anybody."""


def names_of(topology: Topology, machine: str) -> str:
    """Return the lines of /etc/hosts for a network's hosts: the addresses of each, the first
    interface's first, and behind them what the machine's own file has."""
    lines = [
        f"{each.ip} {host.name}"
        for host in topology.hosts
        for interface in host.interfaces
        for each in interface.with_subnets
    ]
    return "\n".join(["# hosts of this network", *lines, "# the machine's own", machine])


def write_names(topology: Topology, folder: Path) -> Path | None:
    """Write a network's names into its run's folder, until they are mounted; return the file, or
    None on a machine that has no such file, in whose place it could be."""
    try:
        machine = NAMES.read_text(errors="replace")
    except OSError:
        return None
    file = folder / FILE
    file.write_text(names_of(topology, machine))
    file.chmod(MODE)
    return file
