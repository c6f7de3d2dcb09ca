"""Checks of what a scenario says of paths, congestion and placement; they also fill in defaults."""

from dataclasses import replace

from weft.agents.congestion import controls_by, marking_controls, reacts_to_marks
from weft.base.errors import InputError, refuse
from weft.base.option import whole
from weft.base.units import format_duration
from weft.experiments.paths.registry import scheme_of
from weft.experiments.scenario.asked import Asked
from weft.experiments.scenario.choices import REORDER_PACKETS, SPRAYED_REORDER_PACKETS
from weft.experiments.scenario.family import family_of
from weft.experiments.scenario.longest_path import (
    LongestPath,
    Marking,
    control_timeout_ns,
    retransmit_timeout_ns,
)
from weft.topo.network import Topology
from weft.topo.switch_kinds import has
from weft.topo.worlds.registry import has_real_time

MAX_TIMEOUT_NS = 10**12


def with_transport(asked: Asked) -> Asked:
    """Check and fill in how flows find their paths, and how the transport reacts."""
    scheme = scheme_of(asked.paths)
    refuse(
        scheme.assigned and asked.is_own_network,
        f"paths {asked.paths!r} assigns the paths of a Clos, and topology {asked.topology!r} is "
        "none: choose ecmp, ecmp-N, destination, spray, reps or plb",
    )
    congestion = asked.congestion
    never_marks = not has(asked.switch, "ECN marks")
    if congestion is None:
        meets = family_of(asked.collective).meets(asked.collective)
        plain = not scheme.marks and not meets
        without = plain or (never_marks and scheme.entropy == "fixed")
        congestion, *_ = controls_by(marks=not without)
    usual_packets = SPRAYED_REORDER_PACKETS if scheme.reorders else REORDER_PACKETS
    asked = replace(
        asked,
        congestion=congestion,
        recovery=asked.recovery or ("selective" if scheme.reorders else "go-back-n"),
        reorder_packets=usual_packets if asked.reorder_packets is None else asked.reorder_packets,
    )
    refuse(
        asked.recovery != "selective" and asked.reorder_packets != usual_packets,
        f"reorder {asked.reorder_packets} means nothing for recovery {asked.recovery}: it is for "
        "selective; leave it out, or say recovery 'selective'",
    )
    if scheme.entropy != "fixed" and not reacts_to_marks(asked.congestion):
        raise InputError(
            f"congestion {asked.congestion!r}: {asked.paths} goes by congestion marks; leave "
            f"congestion out, or say {marking_controls('or')}"
        )
    refuse(
        reacts_to_marks(asked.congestion) and never_marks,
        f"switch {asked.switch!r} marks nothing, since its queues stay empty (its links are shaped "
        f"outside it), and paths {asked.paths!r} with congestion {asked.congestion!r} goes by "
        "marks; choose the built-in switch (--switch weft), or congestion 'window' with other "
        "paths",
    )
    refuse(
        asked.ecn_threshold_packets and never_marks,
        f"ecn-threshold {asked.ecn_threshold_packets}: switch {asked.switch!r} marks nothing, "
        "since its queues stay empty; leave it out, or choose the built-in switch (--switch weft)",
    )
    return asked


def with_marking(asked: Asked, network: Topology) -> Asked:
    """Fill in from which queue on switches mark, unless the scenario asks for something."""
    marks = reacts_to_marks(asked.congestion)
    if asked.ecn_threshold_packets is not None:
        if asked.ecn_threshold_packets and not marks:
            raise InputError(
                f"ecn-threshold {asked.ecn_threshold_packets} means nothing for congestion "
                f"{asked.congestion}, which goes by no marks: leave it out, or say congestion "
                f"{marking_controls('or')!r}"
            )
        return asked
    packets = Marking.of(network, asked.mtu).threshold_packets if marks else 0
    return replace(asked, ecn_threshold_packets=packets)


def with_timeouts(asked: Asked, network: Topology) -> Asked:
    """Check and fill in how long senders wait for acknowledgements."""
    path = LongestPath.of(network, asked.mtu)
    emulated, marks = has_real_time(asked.world), reacts_to_marks(asked.congestion)
    if marks and asked.control_timeout_ns is not None:
        raise InputError(
            f"control-timeout {format_duration(asked.control_timeout_ns or 0)} means nothing with "
            f"congestion {asked.congestion}, where small messages meet the same queues as all "
            "others: use retransmit-timeout"
        )
    retransmit_ns, control_ns = asked.retransmit_timeout_ns, asked.control_timeout_ns
    if retransmit_ns is None:
        retransmit_ns = retransmit_timeout_ns(path, marks=marks, emulated=emulated)
    if not marks and control_ns is None:
        control_ns = control_timeout_ns(path, emulated=emulated)
        if family_of(asked.collective).meets_at_hosts:
            # What all others multicast meets on the last link, a packet of each.
            others = max(0, len(network.hosts) - 2)
            control_ns = min(
                control_ns + 2 * others * path.of_link_ns(path.packet_bytes),
                max(control_ns, retransmit_ns),
            )
    for name, chosen_ns in (("retransmit-timeout", retransmit_ns), ("control-timeout", control_ns)):
        if chosen_ns is not None:
            whole(name, chosen_ns, 1, MAX_TIMEOUT_NS)
            if chosen_ns < path.idle_round_trip_ns:
                raise InputError(
                    f"{name} {format_duration(chosen_ns)} is shorter than the round trip of a "
                    f"packet through empty queues, {format_duration(path.idle_round_trip_ns)}, so "
                    "everything would be sent twice: choose a longer one, or leave it out"
                )
    return replace(asked, retransmit_timeout_ns=retransmit_ns, control_timeout_ns=control_ns)
