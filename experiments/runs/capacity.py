"""Whether a scenario fits the machine, said before anything is made."""

from __future__ import annotations

from pathlib import Path

from weft.agents.collectives.names import FLOWS
from weft.base.errors import InputError, MachineError
from weft.base.units import format_size
from weft.experiments.scenario.scenario import Scenario

MAX_EMULATED_HOSTS = 512
"""Each emulated host is a namespace, a shell and a rank process."""

RANK_BYTES = {"emulated": 48 << 20, "simulated": 1 << 20}
"""Memory of a rank beside its buffer, roughly."""


def check_capacity(scenario: Scenario) -> None:
    """Raise InputError for more hosts than can be emulated, MachineError for too little memory.

    Every rank gathers every rank's shard: P x P x N bytes. The scenario of an emulated run is
    simulated first, and then its memory is given back.
    """
    hosts = len(scenario.network().hosts)
    ranks = scenario.ranks * scenario.jobs
    if scenario.world == "emulated" and hosts > MAX_EMULATED_HOSTS:
        raise InputError(
            f"{hosts} hosts cannot be emulated on one machine (at most {MAX_EMULATED_HOSTS}, each "
            "with processes of its own): choose fewer, or --world simulated"
        )
    available = available_bytes()
    data = sum(scenario.shard_sizes)
    if scenario.collective == "many-to-one":
        data = 2 * data // scenario.ranks  # all on the root, and a shard on each other
    if scenario.collective == "alltoall":
        data *= 2  # what comes
    if scenario.collective == FLOWS:
        data = 2 * data // scenario.ranks
    if scenario.reducing:
        data *= 3  # partial sums, results; of FSDP, what is gathered, too
    if "optcast" in scenario.algorithms:
        data *= 2  # the servers' buffers
    operations = scenario.operations * (scenario.layers or 1)
    needed = ranks * (operations * data + RANK_BYTES[scenario.world])
    if available is not None and needed > available:
        raise MachineError(
            f"{operations * ranks} buffers of {format_size(data)}, for each operation on "
            f"each rank, take {format_size(needed)} of memory, and {format_size(available)} are "
            "free: choose a smaller --size, fewer hosts or fewer operations"
        )


def available_bytes() -> int | None:
    """Memory that can be had without swapping; None where the system does not tell (not Linux)."""
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None
