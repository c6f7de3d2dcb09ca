"""What a verdict on a run of the emulated world is based on, gathered."""

import os
from collections.abc import Mapping, Sequence
from typing import Protocol

from weft.experiments.results.results import Fidelity
from weft.experiments.runs.fidelity import judge, lateness_of
from weft.experiments.runs.inputs import transport_of
from weft.experiments.runs.measured import Counts
from weft.experiments.scenario.scenario import Scenario
from weft.topo.worlds.processors import CpuTimes, cpu_use

FRAME_OVERHEAD_BYTES = 70
"""Headers and ICRC of a multicast chunk's frame."""


IN_VIRTUAL_TIME = Fidelity(
    verdict="ok",
    reasons=["virtual time: no processor can be too slow"],
    cpu_busy=0.0,
    cpu_stolen=0.0,
    cpu_s={},
    lateness_ns={},
    unplanned_losses=0,
)


class Account(Protocol):
    """What a rank tells of its process, whatever it has run."""

    @property
    def host(self) -> str: ...
    @property
    def cpu_ns(self) -> int: ...
    @property
    def wake_lateness_ns(self) -> Mapping[str, int]: ...
    @property
    def statistics(self) -> Mapping[str, int]: ...
    @property
    def socket_drops(self) -> int: ...


def verdict(
    scenario: Scenario,
    ranks: Sequence[Account],
    counts: tuple[Counts, Counts],
    cpu: tuple[CpuTimes, CpuTimes] | None,
    completion_ns: int | None,
    predicted_ns: int | None = None,
) -> Fidelity:
    """Judge how true a run was to the network that was asked for.

    Args:
        counts: before the run, and after it.
        cpu: `weft.topo.worlds.world.World.evidence`.
        completion_ns, predicted_ns: as `judge` takes them.
    """
    if cpu is None:
        return IN_VIRTUAL_TIME
    before, after = counts
    use = cpu_use(*cpu)
    capacity_s = (cpu[1].total - cpu[0].total) / os.sysconf("SC_CLK_TCK")
    cpu_s = {
        "switches": after.switches.cpu_seconds - before.switches.cpu_seconds,
        "ranks": sum(each.cpu_ns for each in ranks) / 1e9,
    }
    lost = after.unplanned_since(before)
    for each in ranks:
        lost |= {
            f"{each.host}: receive_errors": each.statistics.get("receive_errors", 0),
            f"{each.host}: send_errors": each.statistics.get("send_errors", 0),
            f"the socket of {each.host}: not read in time": each.socket_drops,
            f"{each.host}: wrong ICRC": each.statistics.get("bad_icrc", 0),
        }
    return judge(
        completion_ns=completion_ns,
        predicted_ns=predicted_ns,
        cpu_busy=use.busy,
        cpu_stolen=use.steal,
        cpu_own=min(sum(cpu_s.values()) / capacity_s, use.busy) if capacity_s else 0.0,
        cpu_s=cpu_s,
        lateness_ns=lateness_of(after.switches, (each.wake_lateness_ns for each in ranks)),
        burst_ns=transport_of(scenario).burst_ns,
        frame_ns=(scenario.mtu + FRAME_OVERHEAD_BYTES) * 8 * 10**9 // scenario.rate_bps,
        unplanned_losses=lost,
        plain_packets=after.plain_since(before),
    )
