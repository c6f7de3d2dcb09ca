"""Whether a machine can take a scenario: hosts, memory, and ways between ranks."""

import re
from itertools import chain
from pathlib import Path

from weft.agents.transport.payload_layout import Landing
from weft.base.errors import InputError, MachineError, refuse
from weft.base.units import format_size
from weft.experiments.scenario.resolve import ALIKE
from weft.experiments.scenario.scenario import Scenario
from weft.topo.fabric_program import check_carried
from weft.topo.network import Topology
from weft.topo.reach import Reach
from weft.topo.worlds.registry import WORLDS

_BETWEEN_LOOKS = 1 << 28
_NOTE_BYTES = 256
"""Of a packet that came, with what is made of the note in the end."""


def check_capacity(scenario: Scenario) -> int:
    """Return how many bytes of memory a scenario takes, roughly.

    Raises InputError for more hosts than can be emulated, MachineError for too little memory.

    Every rank gathers every rank's shard: P x P x N bytes. The scenario of an emulated run is
    simulated while its network comes up, and gives its memory back before the ranks start.
    """
    WORLDS[scenario.world].check_hosts(len(scenario.network().hosts))
    available = available_bytes()
    if not carries_bytes(scenario):
        return _check_bare(scenario, available)
    if scenario.keep == "none":
        return _check_dropped(scenario, available)
    try:
        return scenario.family.check_memory(scenario, available)
    except MachineError as error:
        if WORLDS[scenario.world].has_real_time or scenario.family.payload_reader(scenario):
            raise
        needed = _check_bare(scenario, available)
        alone = " with --cores 1" if scenario.cores > 1 else ""  # which go with neither
        dropped = ""
        if scenario.collective in ALIKE:
            least = _dropped_bytes(scenario)
            dropped = f", or --keep none{alone}, which takes {format_size(least)}"
        raise MachineError(
            f"{error}{dropped}, or --payload none{alone}, which takes {format_size(needed)}"
        ) from None


def carries_bytes(scenario: Scenario) -> bool:
    """Return whether data travel with their bytes in a scenario's runs on this machine."""
    if scenario.keep == "none":
        return True
    if scenario.payload != "auto":
        return scenario.payload == "all"
    if scenario.cores > 1:
        return True
    if WORLDS[scenario.world].has_real_time or scenario.family.payload_reader(scenario):
        return True
    total = _told_bytes("MemTotal")
    return total is None or 4 * scenario.family.check_memory(scenario, None) <= total


def _check_bare(scenario: Scenario, available: int | None) -> int:
    """Return how many bytes of memory a scenario takes, roughly, whose data travel without theirs:
    what came where is noted. Raises MachineError for too little memory."""
    data = scenario.family.check_memory(scenario, None)
    ranks = scenario.ranks * scenario.jobs * WORLDS[scenario.world].rank_bytes
    needed = ranks + data // scenario.mtu * Landing.dtype.itemsize
    if available is not None and needed > available:
        raise MachineError(
            f"even without bytes of data, what came where takes {format_size(needed)} of memory, "
            f"and {format_size(available)} are free: choose a smaller --size, or fewer hosts"
        )
    return needed


def _dropped_bytes(scenario: Scenario) -> int:
    """Return how many bytes of memory a scenario takes, roughly, that drops what it has compared:
    one rank's results, what comes between two looks, and notes of what came where."""
    data = scenario.family.check_memory(scenario, None)
    count = scenario.ranks * scenario.jobs
    ranks = count * WORLDS[scenario.world].rank_bytes
    return ranks + (data - ranks) // count + _BETWEEN_LOOKS + data // scenario.mtu * _NOTE_BYTES


def _check_dropped(scenario: Scenario, available: int | None) -> int:
    """Return `_dropped_bytes`. Raises MachineError for too little memory."""
    needed = _dropped_bytes(scenario)
    if available is not None and needed > available:
        raise MachineError(
            f"even with --keep none, results take {format_size(needed)} of memory, and "
            f"{format_size(available)} are free: choose a smaller --size, fewer hosts, or "
            "--payload none in place of it"
        )
    return needed


def check_buffers(scenario: Scenario, data: int, operations: int, available: int | None) -> int:
    """Return how many bytes of memory so many operations take.

    Args:
        data: the bytes of the buffers of each on a rank.
        available: how many there are; None if that is not known.

    Raises:
        MachineError: they take more.
    """
    ranks = scenario.ranks * scenario.jobs
    if scenario.reducing:
        data *= 3  # partial sums, results; of FSDP, what is gathered, too
    data *= max(each.buffers for each in scenario.kinds())
    needed = ranks * (operations * data + WORLDS[scenario.world].rank_bytes)
    if available is not None and needed > available:
        raise MachineError(
            f"{operations * ranks} buffers of {format_size(data)}, for each operation on each "
            f"rank, take {format_size(needed)} of memory, and {format_size(available or 0)} are "
            "free: choose a smaller --size, fewer hosts or fewer operations"
        )
    return needed


def check_ways(scenario: Scenario, network: Topology) -> None:
    """Raise InputError unless the hosts of a scenario's ranks and servers reach each other over
    switches that run the fabric's program."""
    if network.clos and not network.unmanaged:
        return
    placement = scenario.placement
    hosts = [network.hosts[host] for host in {*chain(*placement.jobs), *placement.servers}]
    check_carried(network)
    for host in hosts:
        if not host.leaf:
            raise InputError(
                f"{scenario.collective}: ranks send by the first interface of their host, and that "
                f"of {host.name} is linked to another host: choose other hosts (--hosts), or write "
                "its link to a switch first"
            )
        refuse(
            host.leaf in network.unmanaged,
            f"{scenario.collective}: {host.name} is linked to {host.leaf}, which runs a program of "
            "its own, and ranks' packets go by the fabric's program: choose other hosts "
            "(--hosts), or give the switch no program",
        )
    reach = Reach(network)
    for host in hosts[1:]:
        if not reach.joined([hosts[0].leaf, host.leaf]):
            raise InputError(
                f"{scenario.collective}: no path leads from {hosts[0].name} to {host.name} over "
                "switches that run the fabric's program: choose other hosts (--hosts), or add links"
            )


def available_bytes() -> int | None:
    """Return how much memory can be had without swapping; None if the system does not tell (not
    Linux)."""
    return _told_bytes("MemAvailable")


def _told_bytes(name: str) -> int | None:
    """Return what the system tells of memory by a name of /proc/meminfo; None if it does not."""
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return None
    found = re.search(rf"^{name}:\s*(\d+)", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else None
