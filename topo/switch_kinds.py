"""The kinds of P4 switch that the emulated world can run, and what each of them cannot do."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from weft.base.errors import InputError, refuse
from weft.topo.network import Topology

SwitchKind = Literal["weft", "bmv2"]
SWITCH_KINDS: tuple[SwitchKind, ...] = get_args(SwitchKind)
BMV2_MAX_GROUP = 32767
"""The last number of a multicast group on BMv2; the numbers above are those of clone sessions."""


@dataclass(frozen=True)
class Capability:
    """Something that a scenario may need of a switch, and the kinds of switch that have it."""

    name: str
    kinds: tuple[SwitchKind, ...]
    """The kinds of switch that have it."""
    otherwise: str
    """Why the other kinds have not, as a sentence of its own."""


CAPABILITIES: tuple[Capability, ...] = (
    Capability(
        "propagation delay",
        ("weft",),
        "BMv2 has no delay line, and tbf, which shapes its links, adds none.",
    ),
    Capability(
        "loss of links",
        ("weft",),
        "BMv2 loses nothing on purpose; where it runs the fabric's program, --loss and --fault do.",
    ),
    Capability(
        "queue depth in the switch",
        ("weft",),
        "BMv2's links are shaped by tbf behind it, so its own queues stay empty: enq_qdepth, "
        "deq_qdepth and deq_timedelta say nothing, and schemes that live on them do not work.",
    ),
    Capability(
        "queues that fill by priority",
        ("weft",),
        "BMv2's own queues stay empty (tbf shapes its links), so none is served before another.",
    ),
    Capability(
        "ECN marks",
        ("weft",),
        "BMv2's own queues stay empty (tbf shapes its links), so nothing ever marks a packet.",
    ),
    Capability(
        "links that become slow",
        ("weft",),
        "BMv2's links are shaped by tbf, outside it, at a rate that stays.",
    ),
    Capability(
        "patch links",
        ("weft",),
        "Every BMv2 is a process of its own, and ports can be joined only inside one.",
    ),
    Capability(
        "seeded random numbers",
        ("weft",),
        "random() on BMv2 has no seed: a run with losses does not repeat.",
    ),
    Capability(
        "queue statistics of the switch",
        ("weft",),
        "BMv2 keeps none that P4Runtime shows: drops are read from tbf.",
    ),
    Capability(
        "packet trace",
        ("weft",),
        "BMv2 tells nobody the steps of a packet.",
    ),
    Capability(
        "way past queueing disciplines",
        ("weft",),
        "BMv2's links are shaped by tbf, which is one.",
    ),
    Capability(
        "registers over P4Runtime",
        ("weft",),
        "BMv2 neither reads nor writes them there.",
    ),
    Capability(
        "value sets over P4Runtime",
        ("weft",),
        "BMv2 neither reads nor writes them there.",
    ),
    Capability(
        "clone session that cuts packets",
        ("weft",),
        "BMv2 takes no packet_length over P4Runtime; truncate() of a program cuts its packets.",
    ),
    Capability(
        f"multicast group above {BMV2_MAX_GROUP}",
        ("weft",),
        "BMv2 takes these numbers for clone sessions.",
    ),
)
"""The one place that says what runs on which switch."""
_KNOWN = {capability.name: capability for capability in CAPABILITIES}

RATE_BPS: dict[SwitchKind, int] = {"weft": 100_000_000, "bmv2": 20_000_000}
"""The default link rate. Two cores have room at it for eight hosts that send to each other all the
time; ``weft bench capacity`` finds what a machine carries, and the verdict on a run says whether it
was too much."""


def check_kind(kind: str) -> SwitchKind:
    """Return the kind of that name; raise InputError if there is none."""
    if kind not in SWITCH_KINDS:
        raise InputError(f"switch {kind!r}: the kinds of switch are {' and '.join(SWITCH_KINDS)}")
    return kind


def has(kind: str, capability: str) -> bool:
    """Tell whether this kind of switch has what the `Capability` of that name says."""
    return kind in _KNOWN[capability].kinds


def require(kind: SwitchKind, capabilities: Iterable[str], where: str = "") -> None:
    """Raise InputError if a scenario, or what ``where`` names, needs something that this kind of
    switch does not have."""
    for capability in (_KNOWN[name] for name in capabilities):
        refuse(
            kind not in capability.kinds,
            f"{where}{': ' if where else ''}no {capability.name} with --switch {kind}: "
            f"{capability.otherwise} Use --switch {capability.kinds[0]}.",
        )


def check_topology(kind: SwitchKind, topology: Topology) -> None:
    """Raise InputError if links of the topology need something that this kind of switch does not
    have."""
    links = [each for each in topology.links if not topology.between_hosts(each)]
    if any(link.delay_ns or link.jitter_ns for link in links):
        require(kind, ["propagation delay"])
    if topology.queue_changes:
        require(kind, ["queues that fill by priority"])
    if any(link.loss for link in links):
        require(kind, ["loss of links"])
