"""Fidelity: whether an emulated run measured the network or the machine.

A run's figures mean something only while links, not processors, are the bottleneck: nothing was
dropped because nobody read it, the processors had time to spare, and packets left when they were
due.
"""

from collections.abc import Iterable, Mapping

from weft.base.units import format_duration
from weft.experiments.results.results import Fidelity
from weft.experiments.runs.switch_statistics import SwitchProcessStatistics

QUANTILES = ("p50", "p99", "max")

STRAINED_CPU = 0.90
INVALID_CPU = 0.98
"""The part of all processors in use from which a run is strained, and invalid. The scheduler needs
a little room to run each process when it is due."""

STRAINED_LATENESS = (2_000_000, 0.01)
INVALID_LATENESS = (20_000_000, 0.05)
"""The 99th percentile of lateness from which a run is strained, and invalid: in ns, or as a
fraction of the completion time, whichever is more."""

STRAINED_STILL = (10_000_000, 0.05)
INVALID_STILL = (50_000_000, 0.20)
"""Likewise, of the longest lateness, and of the time in which something stood still all together: a
machine that was paused once has few frames that are late, and a run that is so much longer."""

BUNCHED = 0.5
"""A part of a full frame's time: frames came in bunches where half of them were by so much further
ahead of their link than bursts are meant to be."""

STRAINED_DIFFERENCE = 0.10
INVALID_DIFFERENCE = 0.30
"""The difference between the completion time and its simulated prediction, as a fraction of the
prediction, from which a run is strained, and invalid."""


SAID = {
    "switch": "1 % of the frames left a switch {} late or more",
    "rank": "1 % of a rank's wake-ups came {} late or more",
}
STILL = {
    "switch_stood": "a switch stood still for {}",
    "switch_max": "a frame left a switch late by {}",
    "burst_max": "frames came ahead of their links by {}",
    "rank_stood": "a rank stood still for {}",
    "rank_max": "a rank woke late by {}",
}


def lateness_of(
    switches: SwitchProcessStatistics, ranks: Iterable[Mapping[str, int]]
) -> dict[str, int]:
    """Return the lateness of a run as `judge` takes it, of its switches and of the worst of its
    ranks. The built-in switch knows how late it was; BMv2 does not."""
    known = (("switch", switches.lateness_ns), ("burst", switches.burst_ns))
    found = {f"{who}_{what}": late[what] for who, late in known for what in QUANTILES if late}
    late_ranks = list(ranks)
    for what in QUANTILES:
        found[f"rank_{what}"] = max((late.get(what, 0) for late in late_ranks), default=0)
    if switches.lateness_ns:
        found["switch_stood"] = switches.lateness_ns.get("stood", 0)
    found["rank_stood"] = max((late.get("stood", 0) for late in late_ranks), default=0)
    return found


def judge(
    *,
    completion_ns: int | None,
    predicted_ns: int | None = None,
    cpu_busy: float,
    cpu_stolen: float,
    cpu_own: float,
    cpu_s: Mapping[str, float],
    lateness_ns: Mapping[str, int],
    burst_ns: int,
    frame_ns: int,
    unplanned_losses: Mapping[str, int],
    plain_packets: Mapping[str, int] | None = None,
) -> Fidelity:
    """Return the verdict on one run, with its reasons.

    Args:
        completion_ns: the run's completion time; None if it failed.
        predicted_ns: that of the same run in the simulated world; None if there is none to compare.
        cpu_busy, cpu_stolen: fractions of the machine's processors, 0 to 1, during the run: in use,
            and taken by the hypervisor. What counts is how busy the remaining ones were.
        cpu_own: the fraction that the run's own processes took.
        cpu_s: processor seconds by what used them.
        lateness_ns: ``_p50``, ``_p99`` and ``_max`` of ``switch``, how late frames left a switch
            against an exact link, which BMv2 does not say; ``burst``, how far ahead of their link
            frames came into a switch, so how wide their bursts were; ``rank``, how late rank
            processes woke. And ``switch_stood`` and ``rank_stood``, how long they stood still all
            together.
        burst_ns: how far ahead of their links hosts may send.
        frame_ns: how long a link takes for a full frame.
        unplanned_losses: by place, packets that neither a fault nor a full queue lost.
        plain_packets: by switch, packets that its program took in the plain form, as it had not
            been compiled yet.
    """
    invalid = [
        f"{count} packets were lost that no link lost ({where})"
        for where, count in unplanned_losses.items()
        if count
    ]
    invalid += [
        f"{name} took {count} packets in the plain form, as its program had not been compiled yet"
        for name, count in (plain_packets or {}).items()
    ]
    strained: list[str] = []

    def doubt(said: str, is_strained: bool, is_invalid: bool) -> None:
        if is_strained:
            (invalid if is_invalid else strained).append(said)

    busy = f"the processors were {cpu_busy:.0%} busy, {cpu_own:.0%} with this run's own processes"
    of_those_given = cpu_busy / max(1.0 - cpu_stolen, cpu_busy, 0.01)
    if cpu_stolen >= 0.005:
        busy += f", and others took {cpu_stolen:.0%} of the machine"
    doubt(busy, of_those_given >= STRAINED_CPU, of_those_given >= INVALID_CPU)
    for name, late_ns in lateness_ns.items():
        if not name.endswith("_p99") or name == "burst_p99":
            continue
        said = SAID[name.removesuffix("_p99")].format(format_duration(late_ns))
        doubt(
            said,
            late_ns > _allowed(STRAINED_LATENESS, completion_ns),
            late_ns > _allowed(INVALID_LATENESS, completion_ns),
        )
    still_ns = {name: lateness_ns.get(name, 0) for name in STILL}
    for who in ("switch", "burst", "rank"):
        # What stood still is said where it is known; else what came of it.
        name = max(
            (each for each in STILL if each.startswith(who)), key=lambda each: still_ns[each]
        )
        said = STILL[name].format(format_duration(still_ns[name]))
        if completion_ns:
            said += f" of {format_duration(completion_ns)}"
        doubt(
            said,
            still_ns[name] > _allowed(STRAINED_STILL, completion_ns),
            still_ns[name] > _allowed(INVALID_STILL, completion_ns),
        )
    ahead_ns = lateness_ns.get("burst_p50", 0)
    if ahead_ns > burst_ns + BUNCHED * frame_ns:
        strained.append(
            f"half of the frames came {format_duration(ahead_ns)} or more ahead of their links: "
            f"bursts are meant to be {format_duration(burst_ns)} wide at most, and a full frame "
            f"takes {format_duration(frame_ns)}"
        )
    if completion_ns and not predicted_ns and not any(map(_of_switches, lateness_ns)):
        strained.append(
            "nobody knows whether the switches kept up: they do not say how late they were, and "
            "there is no prediction to compare its time with"
        )
    if completion_ns and predicted_ns:
        difference = completion_ns / predicted_ns - 1
        said = (
            f"it took {format_duration(completion_ns)}, {difference:+.0%} of the "
            f"{format_duration(predicted_ns)} that the simulated world predicts"
        )
        doubt(said, abs(difference) > STRAINED_DIFFERENCE, abs(difference) > INVALID_DIFFERENCE)
    return Fidelity(
        verdict="invalid" if invalid else "strained" if strained else "ok",
        reasons=invalid + strained,
        cpu_busy=round(cpu_busy, 4),
        cpu_stolen=round(cpu_stolen, 4),
        cpu_s={name: round(seconds, 4) for name, seconds in cpu_s.items()},
        lateness_ns=dict(lateness_ns),
        unplanned_losses=sum(unplanned_losses.values()),
    )


def _of_switches(lateness: str) -> bool:
    return lateness.startswith("switch_")


def _allowed(threshold: tuple[int, float], completion_ns: int | None) -> float:
    lateness_ns, fraction = threshold
    return max(lateness_ns, fraction * (completion_ns or 0))
