"""What is asked of the network: the rows of the table of options that say which network it is, and
how flows go over it."""

from dataclasses import dataclass, replace

from weft.agents.congestion import (
    CONTROLS,
    described_controls,
    marking_controls,
    reacts_to_marks,
)
from weft.base.errors import InputError
from weft.base.option import (
    DURATION,
    FACTOR,
    HOSTS,
    NETWORK,
    OPERATION,
    RATE,
    TESTBED,
    TEXT,
    TRANSPORT,
    WHOLE,
    option,
)
from weft.experiments.paths.names import described_schemes
from weft.experiments.scenario.choices import (
    MAX_ECN_PACKETS,
    MTUS,
    PLACEMENTS,
    RATES_BPS,
    RECOVERY,
    REORDER_PACKETS,
    SPRAYED_REORDER_PACKETS,
    SWITCHES,
    TIERS,
    TOPOLOGIES,
)
from weft.experiments.scenario.families import choices
from weft.experiments.scenario.networks import FILE_ENDING, HTSIM_ENDING, NETWORKS
from weft.topo.network import MAX_HOSTS_PER_LEAF, MAX_PORTS
from weft.topo.switch_kinds import RATE_BPS
from weft.topo.worlds.registry import DEFAULT, WORLDS


def _known_schemes() -> str:
    """List the path schemes: ``ecmp (hashed), spray``."""
    schemes = described_schemes().items()
    return ", ".join(f"{name} ({about})" if about else name for name, about in schemes)


def _check_oversubscription(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InputError(
            f"{name} {value:g}: from {low:g} to {high:g}; 4 means that a leaf's hosts can "
            "send four times what its uplinks carry"
        )


LEAF_SPINE = TOPOLOGIES["leaf-spine"]
FAT_TREE = TOPOLOGIES["fat-tree"]
PODS = TOPOLOGIES["pods"]


@dataclass(frozen=True)
class NetworkAsked:
    """What is asked for, in which world, and on which network."""

    collective: str = option("allgather", TEXT, group=OPERATION, choices=choices())
    world: str = option(DEFAULT, TEXT, "{choices}.", group=TESTBED, choices=tuple(WORLDS))
    switch: str = option(
        "weft",
        TEXT,
        "{choices}.",
        group=TESTBED,
        choices=SWITCHES,
        network=True,
    )
    topology: str = option(
        "leaf-spine",
        TEXT,
        "{choices}; or a file: NAME.toml, a network of your own; NAME.topo, one of htsim.",
        group=NETWORK,
        default_text="",
        choices=dict.fromkeys(TOPOLOGIES, "")
        | {name: each.about for name, each in NETWORKS.items()},
        besides=lambda name: name.endswith((FILE_ENDING, HTSIM_ENDING)),
        network=lambda asked: (asked.topology, asked.graph),
    )
    """One of Weft's own shapes, a shape that another package brings, or the network of a file."""
    hosts: tuple[str, ...] = option(
        (),
        HOSTS,
        "Which hosts are ranks, in order.",
        group=NETWORK,
        metavar="NAMES",
        default_text="all",
    )
    """The names of the ranks' hosts, in the order of the ranks; empty: all but those of dedicated
    servers."""
    leaves: int | None = option(
        None,
        WHOLE,
        "Leaf switches of a leaf-spine, or of each pod.",
        group=NETWORK,
        default_text=f"{LEAF_SPINE['leaves']}, of pods {PODS['leaves']}",
        between=(1, MAX_PORTS),
        network=True,
    )
    spines: int | None = option(
        None,
        WHOLE,
        "Spine switches of a leaf-spine, or of each pod.",
        group=NETWORK,
        default_text=str(LEAF_SPINE["spines"]),
        between=(1, MAX_PORTS),
        network=True,
    )
    hosts_per_leaf: int | None = option(
        None,
        WHOLE,
        f"Hosts of each leaf [{LEAF_SPINE['hosts_per_leaf']}]; of --topology single: all hosts "
        f"[{TOPOLOGIES['single']['hosts_per_leaf']}].",
        group=NETWORK,
        between=(1, MAX_HOSTS_PER_LEAF),
        network=True,
    )
    k: int | None = option(
        None,
        WHOLE,
        "Ports of each switch of a fat tree.",
        group=NETWORK,
        default_text=str(FAT_TREE["k"]),
        between=lambda asked: (2, 64 if asked.tiers == 2 else 32),
        network=True,
    )
    """A leaf has k/2 hosts."""
    tiers: int | None = option(
        None,
        WHOLE,
        f"Tiers of switches of a fat tree, {TIERS[0]} or {TIERS[1]}.",
        group=NETWORK,
        default_text=str(FAT_TREE["tiers"]),
        between=TIERS,
        network=True,
    )
    pods: int | None = option(
        None,
        WHOLE,
        "Pods of --topology pods: leaf-spines under core switches.",
        group=NETWORK,
        default_text=str(PODS["pods"]),
        between=(1, MAX_PORTS),
        network=True,
    )
    uplinks: int | None = option(
        None,
        WHOLE,
        "Pods: links of each spine to core switches of its own.",
        group=NETWORK,
        default_text=str(PODS["uplinks"]),
        between=(1, MAX_PORTS),
        network=True,
    )
    """Spine j of every pod is linked to the same core switches."""
    oversubscription: float | None = option(
        None,
        replace(FACTOR, check=_check_oversubscription),
        "Slower links between switches: a leaf's hosts send X times as much.",
        group=NETWORK,
        between=(0.125, 64),
        network=True,
    )
    """What a leaf's hosts can send, over what its uplinks carry. It sets the rate of links between
    switches; by default all links have one rate."""
    core_oversubscription: float | None = option(
        None,
        replace(FACTOR, check=_check_oversubscription),
        "Slower links to core switches: a spine's links to leaves carry X times as much.",
        group=NETWORK,
        between=(0.125, 64),
        network=True,
    )
    """What a spine's links to leaves carry, over what its links to core switches do. By default
    these have the rate of those."""
    paths: str = option(
        "ecmp",
        TEXT,
        f"How flows get to their paths: {_known_schemes()}.",
        group=TRANSPORT,
    )
    """How unicast flows choose among shortest paths (`weft.experiments.paths`)."""
    congestion: str | None = option(
        None,
        TEXT,
        f"Senders react {described_controls()}.",
        group=TRANSPORT,
        default_text="by paths",
        choices=tuple(CONTROLS),
    )
    """The congestion control (`weft.agents.transport.congestion`): with ``window`` the reliable
    transport reacts to losses alone; with ``dctcp`` also to marks of the switches' queues, as
    RFC 8257 says. The default depends on `paths` and the collective."""
    recovery: str | None = option(
        None,
        TEXT,
        "{choices}.",
        group=TRANSPORT,
        default_text="selective where paths reorder",
        choices=RECOVERY,
    )
    """What the reliable transport sends again after a loss."""
    ecn_threshold_packets: int | None = option(
        None,
        WHOLE,
        "Switches mark from a queue of N packets on.",
        group=TRANSPORT,
        between=lambda asked: (1 if reacts_to_marks(asked.congestion) else 0, MAX_ECN_PACKETS),
        name="ecn-threshold",
        counted="packets",
        default_text=f"of {marking_controls('and')}: by rate, delay and hosts",
    )
    """Switches mark a packet that finds so many packets or more in its queue; with 0 they mark
    none. The default where senders react to marks follows from rate, delay, queue and the number of
    flows that meet (`weft.experiments.scenario.longest_path`)."""
    reorder_packets: int | None = option(
        None,
        WHOLE,
        "Selective: lost is what N packets have overtaken.",
        group=TRANSPORT,
        name="reorder",
        counted="packets",
        between=(1, 1 << 16),
        default_text=f"{REORDER_PACKETS}; {SPRAYED_REORDER_PACKETS} where paths reorder",
    )
    """With selective recovery, a packet counts as lost when one that was sent so many packets later
    has arrived."""
    retransmit_timeout_ns: int | None = option(
        None,
        DURATION,
        "Least time without acknowledgement after which a packet is sent again.",
        group=TRANSPORT,
        name="retransmit-timeout",
        metavar="TIME",
        default_text="by rate, delay, queue and world",
    )
    """A packet is sent again when nothing has been acknowledged for so long, or for the measured
    round trip and four times its variation if that is longer. The default follows from rate, delay,
    queues and world (`weft.experiments.scenario.longest_path`)."""
    control_timeout_ns: int | None = option(
        None,
        DURATION,
        "The same of barriers' and other small messages, where flows do not meet.",
        group=TRANSPORT,
        name="control-timeout",
        metavar="TIME",
        default_text="by rate, delay and world",
    )
    """Where flows do not meet, tokens of barriers, requests of READs and other small messages are
    sent again after this time and twice what is in flight. The default follows from rate, delay and
    world."""
    rank_placement: str = option(
        "in-order",
        TEXT,
        "Ranks on hosts: {choices}.",
        group=NETWORK,
        name="placement",
        choices=PLACEMENTS,
    )
    """Where ranks are: ``in-order``, one leaf after the other; ``strided``, the next rank on the
    next leaf; ``random``, drawn by the seed."""
    rate_bps: int = option(
        0,
        RATE,
        "Rate of every link.",
        group=NETWORK,
        name="rate",
        default_text=f"{RATE.write(RATE_BPS['weft'])}; "
        f"{RATE.write(RATE_BPS['bmv2'])} with --switch bmv2",
        between=RATES_BPS,
        network=True,
    )
    """Bits a second of Ethernet frames without FCS; 0: the default of the switch
    (`weft.topo.switch_kinds.RATE_BPS`)."""
    mtu: int = option(
        4096,
        WHOLE,
        f"Path MTU, bytes of payload: {', '.join(map(str, MTUS))}.",
        group=NETWORK,
        counted="B of payload a packet",
        network=True,
    )
    """Path MTU: how many bytes of RoCE payload a packet has at most."""
