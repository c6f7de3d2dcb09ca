"""What a scenario says of paths, congestion and placement: checked, and defaults filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.base.errors import InputError
from weft.base.units import format_duration
from weft.experiments.scenario.checks import choose, whole
from weft.experiments.scenario.longest_path import (
    LongestPath,
    control_timeout_ns,
    retransmit_timeout_ns,
)
from weft.experiments.scenario.marking import Marking
from weft.experiments.scenario.path_schemes import (
    REORDER_PACKETS,
    SPRAYED_REORDER_PACKETS,
    WITHOUT_MARKS,
    PathScheme,
    scheme_of,
)
from weft.topo.network import Topology

if TYPE_CHECKING:
    from weft.experiments.scenario.scenario import Scenario

CONGESTION = ("window", "dctcp")
RECOVERY = ("go-back-n", "selective")
PLACEMENTS = ("in-order", "strided", "random")
MARKED_COLLECTIVES = ("alltoall", "many-to-one", "flows")
"""Those in which flows meet by their nature: they react to marks, whatever their paths."""
MAX_TIMEOUT_NS = 10**12
MAX_ECN_PACKETS = 1 << 18
"""A queue depth has 19 bits in v1model."""


def check_transport(scenario: Scenario) -> None:
    """Check and fill in how flows find their paths, and how the transport reacts."""
    scheme = scheme_of(scenario.paths)
    marks = scheme.entropy != "fixed"
    if scenario.congestion is None:
        plain = scenario.paths in WITHOUT_MARKS and scenario.collective not in MARKED_COLLECTIVES
        without = plain or (scenario.switch == "bmv2" and not marks)
        object.__setattr__(scenario, "congestion", "window" if without else "dctcp")
    assert scenario.congestion is not None
    choose("congestion", scenario.congestion, CONGESTION)
    _check_marks(scenario, scheme)
    if scenario.recovery is None:
        object.__setattr__(scenario, "recovery", "selective" if scheme.reorders else "go-back-n")
    assert scenario.recovery is not None
    choose("recovery", scenario.recovery, RECOVERY)
    if scenario.ecn_threshold_packets is not None:
        least = 1 if scenario.congestion == "dctcp" else 0
        whole("ecn-threshold", scenario.ecn_threshold_packets, least, MAX_ECN_PACKETS)
    if scenario.ecn_threshold_packets and scenario.switch == "bmv2":
        raise InputError(
            f"ecn-threshold {scenario.ecn_threshold_packets}: switch 'bmv2' marks nothing, since "
            "its queues stay empty; leave it out, or choose the built-in switch (--switch weft)"
        )
    if scenario.reorder_packets is None:
        tolerated = SPRAYED_REORDER_PACKETS if scheme.reorders else REORDER_PACKETS
        object.__setattr__(scenario, "reorder_packets", tolerated)
    assert scenario.reorder_packets is not None
    whole("reorder", scenario.reorder_packets, 1, 1 << 16)
    choose("placement", scenario.rank_placement, PLACEMENTS)


def fill_marking(scenario: Scenario, network: Topology) -> None:
    """Choose from which queue on switches mark, where nobody says."""
    if scenario.ecn_threshold_packets is None:
        packets = 0
        if scenario.congestion == "dctcp":
            packets = Marking.of(network, scenario.mtu).threshold_packets
        object.__setattr__(scenario, "ecn_threshold_packets", packets)


def check_times(scenario: Scenario, network: Topology) -> None:
    """Check and fill in how long senders wait for acknowledgements."""
    path = LongestPath.of(network, scenario.mtu)
    emulated, marks = scenario.world == "emulated", scenario.congestion == "dctcp"
    if scenario.retransmit_timeout_ns is None:
        time_ns = retransmit_timeout_ns(path, marks=marks, emulated=emulated)
        object.__setattr__(scenario, "retransmit_timeout_ns", time_ns)
    if marks and scenario.control_timeout_ns is not None:
        raise InputError(
            f"control-timeout {format_duration(scenario.control_timeout_ns)} means nothing with "
            "congestion dctcp, where small messages meet the same queues as all others: use "
            "retransmit-timeout"
        )
    if not marks and scenario.control_timeout_ns is None:
        time_ns = control_timeout_ns(path, emulated=emulated)
        object.__setattr__(scenario, "control_timeout_ns", time_ns)
    for name, chosen_ns in (
        ("retransmit-timeout", scenario.retransmit_timeout_ns),
        ("control-timeout", scenario.control_timeout_ns),
    ):
        if chosen_ns is None:
            continue
        whole(name, chosen_ns, 1, MAX_TIMEOUT_NS)
        if chosen_ns < path.idle_round_trip_ns:
            raise InputError(
                f"{name} {format_duration(chosen_ns)} is shorter than the round trip of a packet "
                f"through empty queues, {format_duration(path.idle_round_trip_ns)}, so everything "
                "would be sent twice: choose a longer one, or leave it out"
            )


def _check_marks(scenario: Scenario, scheme: PathScheme) -> None:
    if scheme.entropy != "fixed" and scenario.congestion != "dctcp":
        raise InputError(
            f"congestion {scenario.congestion!r}: {scenario.paths} goes by congestion marks; leave "
            "congestion out, or say dctcp"
        )
    if scenario.congestion == "dctcp" and scenario.switch == "bmv2":
        raise InputError(
            "switch 'bmv2' marks nothing, since its queues stay empty (its links are shaped "
            f"outside it), and paths {scenario.paths!r} with congestion 'dctcp' goes by marks; "
            "choose the built-in switch (--switch weft), or congestion 'window' with other paths"
        )


def fabric_rate_bps(scenario: Scenario, hosts_on_leaf: int, uplinks: int) -> int | None:
    """The rate of links between switches that gives the oversubscription asked for: what a leaf's
    hosts can send over what its uplinks carry. None: that of all links.

    Raises:
        InputError: there is no such rate.
    """
    wanted = scenario.oversubscription
    if wanted is None:
        return None
    if not 0.125 <= wanted <= 64:
        raise InputError(
            f"oversubscription {wanted:g}: from 0.125 to 64; 4 means that a leaf's hosts can send "
            "four times what its uplinks carry"
        )
    rate_bps = round(scenario.rate_bps * hosts_on_leaf / (uplinks * wanted))
    if rate_bps < 100_000:
        raise InputError(
            f"oversubscription {wanted:g} makes fabric links of {rate_bps} bit/s at a rate of "
            f"{scenario.rate_bps}: at least 100 kbit/s are needed; raise rate, or lower it"
        )
    return rate_bps
