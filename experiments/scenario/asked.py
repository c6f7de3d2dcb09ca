"""What is asked of a run: the table of all options, a row for each field."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from weft.agents.collectives.names import (
    CUTOFFS,
    DATA,
    FLOWS,
    MAX_AT_ONCE,
    MAX_CHUNK_BYTES,
    OPS,
    REDUCING,
    ROOTED,
    VECTORS,
)
from weft.base.errors import refuse
from weft.base.units import MAX_SEED
from weft.experiments.paths.names import described_schemes
from weft.experiments.scenario.choices import (
    CHOICES,
    COLLECTIVES,
    CONGESTION,
    DTYPES,
    MAX_HOSTS,
    MAX_JOBS,
    MAX_SIZE_BYTES,
    MAX_SLOTS,
    MAX_SPLIT,
    MAX_WORKERS,
    MIN_CHUNK_BYTES,
    MTUS,
    NOTICES,
    PLACEMENTS,
    RECOVERY,
    SERVER_PLACEMENTS,
    SWITCHES,
    TOPOLOGIES,
    WORLDS,
    whole,
)
from weft.experiments.scenario.fsdp_models import FSDP, MODELS, SLOWDOWN
from weft.experiments.scenario.option import (
    DURATION,
    FACTOR,
    FLAG,
    PROBABILITY,
    RATE,
    SECONDS,
    SEEDS,
    SIZE,
    SIZES,
    TEXT,
    WHOLE,
    Kind,
    Option,
    option,
    read_texts,
)
from weft.experiments.scenario.placement import Placement, place, servers_on_leaf
from weft.experiments.scenario.workload_checks import is_model
from weft.topo import clos
from weft.topo.fabric_program import AGGREGATION_VALUES, BMV2_AGGREGATION_VALUES
from weft.topo.faults import Fault, LinkLoss
from weft.topo.interfaces import LINK_KINDS, LinkKind
from weft.topo.network import MAX_HOSTS_PER_LEAF, MAX_PORTS

if TYPE_CHECKING:  # they take numpy, which help and messages go without
    from weft.agents.collectives.algorithm import Algorithm
    from weft.agents.collectives.flow_graph import FlowGraph

NETWORK = "Network"
TESTBED = "World and switches"
TRANSPORT = "Paths and transport"
OPERATION = "Operations"
UNICAST = "Unicast algorithms"
MULTICAST = "Multicast"
OPTCAST = "Reduction servers (Optcast)"
ADDING = "Switches that add"
WORKLOAD = "Workloads"
FAULTS = "Faults"
RUNS = "Runs"
GROUPS = (
    TESTBED, NETWORK, TRANSPORT, OPERATION, UNICAST, MULTICAST, OPTCAST, ADDING, WORKLOAD, FAULTS,
    RUNS,
)  # fmt: skip
"""Of options, in the order in which help has them."""


def _algorithms(name: str, value: Any) -> tuple[str, ...]:
    names = tuple(read_texts(name, value))
    known = sorted({each for choices in CHOICES.values() for each in choices})
    refuse(
        not names,
        f"no {name} was named: choose from {', '.join(known)}, or leave the key out",
    )
    return names


def _known_algorithms() -> str:
    """Say by collective which there are: ``allgather: ring, linear; alltoall, many-to-one:
    direct``."""
    collectives: dict[tuple[str, ...], list[str]] = {}
    for collective, names in CHOICES.items():
        collectives.setdefault(names, []).append(collective)
    return "; ".join(
        f"{', '.join(some)}: {', '.join(names)}" for names, some in collectives.items()
    )


def _known_schemes() -> str:
    """Say which path schemes there are: ``ecmp (hashed), spray``."""
    schemes = described_schemes().items()
    return ", ".join(f"{name} ({about})" if about else name for name, about in schemes)


def _by_algorithm(name: str) -> Callable[[Asked], bool]:
    """Return whether an algorithm that is asked for goes by an option."""
    return lambda asked: any(name in each.heeds for each in asked.kinds())


def _is_model_step(asked: Asked) -> bool:
    return asked.collective == FLOWS and is_model(asked.workload)


OF_MULTICAST = "it is for the algorithm multicast"
OF_OPTCAST = "it is for the algorithm optcast"
OF_SWITCH = "it is for the algorithm switch"
OF_REDUCTIONS = "it is for reduce-scatter and allreduce"
OF_MODELS = f"it is for {FLOWS} of a model"


@dataclass(frozen=True)
class Asked:
    """What is asked of a run, as it was asked: every field is an option of ``weft run`` and a key
    of a scenario file. `weft.experiments.scenario.scenario.Scenario` is the same with everything
    checked and filled in."""

    collective: str = option("allgather", TEXT, group=OPERATION, choices=COLLECTIVES)
    world: str = option("emulated", TEXT, "emulated or simulated.", group=TESTBED, choices=WORLDS)
    switch: str = option(
        "weft",
        TEXT,
        "weft (built in) or bmv2 (simple_switch_grpc).",
        group=TESTBED,
        choices=SWITCHES,
        network=True,
    )
    topology: str = option(
        "leaf-spine",
        TEXT,
        "leaf-spine, single or fat-tree.",
        group=NETWORK,
        otherwise="",
        choices=TOPOLOGIES,
        network=True,
    )
    leaves: int | None = option(
        None,
        WHOLE,
        "Leaf switches of a leaf-spine.",
        group=NETWORK,
        metavar="N",
        otherwise="4",
        network=True,
    )
    spines: int | None = option(
        None,
        WHOLE,
        "Spine switches of a leaf-spine.",
        group=NETWORK,
        metavar="N",
        otherwise="2",
        network=True,
    )
    hosts_per_leaf: int | None = option(
        None,
        WHOLE,
        "Hosts of each leaf [2]; of --topology single: all hosts [8].",
        group=NETWORK,
        metavar="N",
        network=True,
    )
    k: int | None = option(
        None,
        WHOLE,
        "Ports of each switch of a fat tree.",
        group=NETWORK,
        metavar="N",
        otherwise="4",
        network=True,
    )
    """A leaf has k/2 hosts."""
    tiers: int | None = option(
        None,
        WHOLE,
        "Tiers of switches of a fat tree, 2 or 3.",
        group=NETWORK,
        metavar="N",
        otherwise="3",
        network=True,
    )
    oversubscription: float | None = option(
        None,
        FACTOR,
        "Slower links between switches: a leaf's hosts send X times as much.",
        group=NETWORK,
        metavar="X",
        network=True,
    )
    """What a leaf's hosts can send, over what its uplinks carry: sets the rate of links between
    switches. By default all links have one rate."""
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
        "Senders react to losses (window) or to marks (dctcp).",
        group=TRANSPORT,
        otherwise="by paths",
        choices=CONGESTION,
    )
    """What the reliable transport reacts to: ``window``, to losses alone; ``dctcp``, to marks of
    the switches' queues too, as RFC 8257 says. The default goes by `paths` and collective."""
    recovery: str | None = option(
        None,
        TEXT,
        "go-back-n or selective.",
        group=TRANSPORT,
        otherwise="selective where paths reorder",
        choices=RECOVERY,
    )
    """What it sends again."""
    ecn_threshold_packets: int | None = option(
        None,
        WHOLE,
        "Switches mark from a queue of N packets on.",
        group=TRANSPORT,
        name="ecn-threshold",
        metavar="N",
        otherwise="of dctcp: by rate, delay and hosts",
    )
    """Switches mark what finds so many packets in its queue, or more; 0: nothing. The default of
    dctcp follows from rate, delay, queue and flows that meet
    (`weft.experiments.scenario.longest_path`)."""
    reorder_packets: int | None = option(
        None,
        WHOLE,
        "Selective: lost is what N packets have overtaken.",
        group=TRANSPORT,
        name="reorder",
        metavar="N",
        between=(1, 1 << 16),
        otherwise="3; 32 where paths reorder",
    )
    """Selective recovery: a packet counts as lost when one sent so many later has arrived."""
    retransmit_timeout_ns: int | None = option(
        None,
        DURATION,
        "Least time without acknowledgement after which a packet is sent again.",
        group=TRANSPORT,
        name="retransmit-timeout",
        metavar="TIME",
        otherwise="by rate, delay, queue and world",
    )
    """A packet is sent again when nothing has been acknowledged for so long, or for the round trip
    measured and four times its variation where that is longer. The default follows from rate,
    delay, queues and world (`weft.experiments.scenario.longest_path`)."""
    control_timeout_ns: int | None = option(
        None,
        DURATION,
        "The same of barriers' and other small messages, where flows do not meet.",
        group=TRANSPORT,
        name="control-timeout",
        metavar="TIME",
        otherwise="by rate, delay and world",
    )
    """Where flows do not meet, tokens of barriers, requests of READs and other small messages are
    sent again after this, and twice what is in flight. The default follows from rate, delay and
    world."""
    rank_placement: str = option(
        "in-order",
        TEXT,
        "Ranks on hosts: in-order, strided or random.",
        group=NETWORK,
        name="placement",
        choices=PLACEMENTS,
    )
    """Where ranks are: ``in-order``, a leaf after the other; ``strided``, the next rank on the next
    leaf; ``random``, by the seed."""
    rate_bps: int = option(
        0,
        RATE,
        "Rate of every link.",
        group=NETWORK,
        name="rate",
        otherwise="100Mbit; 20Mbit with --switch bmv2",
        network=True,
    )
    """Bits a second of Ethernet frames without FCS; 0: the default of the switch
    (`weft.topo.switch_kinds.RATE_BPS`)."""
    mtu: int = option(
        4096,
        WHOLE,
        f"Path MTU, bytes of payload: {', '.join(map(str, MTUS))}.",
        group=NETWORK,
        metavar="N",
        network=True,
    )
    """Path MTU: bytes of RoCE payload a packet."""
    size_bytes: int = option(
        1 << 20,
        SIZE,
        "Bytes that each rank contributes; of Broadcast: the root's; of Reduce-Scatter: that each "
        "ends with; of FSDP: of a layer, in place of a model.",
        group=OPERATION,
        name="size",
    )
    """Bytes that each rank contributes; of Broadcast, all; of Reduce-Scatter, what each ends
    with; of Allreduce and All-to-all, of the vector; of FSDP, of a layer on all ranks together."""
    sizes_bytes: tuple[int, ...] = option(
        (),
        SIZES,
        "Sizes of ranks 0, 1 and so on, from the start again at the end.",
        group=OPERATION,
        name="sizes",
        metavar="SIZE,...",
        heeded=lambda asked: asked.collective not in ("broadcast", *VECTORS, FSDP, FLOWS),
        who="there is one size: use size",
    )
    """In place of `size_bytes`: of each rank by itself, from the start again if ranks are more."""
    dtype: str = option(
        "",
        TEXT,
        "Type of the elements.",
        group=OPERATION,
        otherwise="uint8; of reductions float32",
        choices=DTYPES,
    )
    op: str = option(
        "sum",
        TEXT,
        "Of reductions: sum, min, max or average.",
        group=OPERATION,
        choices=OPS,
        heeded=lambda asked: asked.reducing,
        who=OF_REDUCTIONS,
    )
    data: str = option(
        "exact",
        TEXT,
        "Of sums of floats: exact, or as gradients are, normal, heavy-tailed or mixed; their "
        "errors are in the results.",
        group=OPERATION,
        choices=DATA,
        heeded=lambda asked: asked.reducing,
        who=OF_REDUCTIONS,
    )
    """Of sums and averages of floating-point numbers: what these are. ``exact``, integers so small
    that nothing is rounded; or as gradients are (`weft.agents.collectives.gradients`): ``normal``,
    ``heavy-tailed``, ``mixed`` magnitudes. Then results tell how far sums are from exact ones."""
    algorithms: tuple[str, ...] = option(
        (),
        Kind("names", _algorithms, listed=True),
        f"May be repeated. {_known_algorithms()}.",
        group=OPERATION,
        name="algorithm",
        otherwise="the first two",
    )
    root: int = option(
        0,
        WHOLE,
        "Whose buffer a Broadcast brings to all.",
        group=OPERATION,
        metavar="RANK",
        heeded=lambda asked: asked.collective in ROOTED,
        who=f"it is for {' and '.join(ROOTED)}",
    )
    """Of Broadcast: the rank whose buffer all others get; of many-to-one: that gets all."""
    radix: int = option(
        2,
        WHOLE,
        "Of the k-nomial tree.",
        group=UNICAST,
        metavar="K",
        between=(2, 64),
        heeded=_by_algorithm("radix"),
        who="it is for broadcast by k-nomial",
    )
    block_bytes: int | None = option(
        None,
        SIZE,
        "What unicast algorithms pass on at a time.",
        group=UNICAST,
        name="block",
        metavar="SIZE",
        between=(1, MAX_SIZE_BYTES),
        otherwise="64KiB, or an eighth of a shard",
        heeded=_by_algorithm("block"),
        who="it is for unicast algorithms (multicast has chunk, switch values)",
    )
    """Unicast algorithms pass on blocks of so many bytes; by default 64 KiB, or an eighth of the
    largest shard where that is less."""
    chains: int | None = option(
        None,
        WHOLE,
        "Chains of the multicast Allgather.",
        group=MULTICAST,
        metavar="N",
        otherwise="as many as ranks",
        heeded=lambda asked: asked.collective == "allgather" and _by_algorithm("chains")(asked),
        who="it is for allgather by multicast",
    )
    workers: int = option(
        1,
        WHOLE,
        "Multicast: subgroups that share nothing, each with trees of its own.",
        group=MULTICAST,
        metavar="W",
        between=(1, MAX_WORKERS),
        heeded=_by_algorithm("workers"),
        who=OF_MULTICAST,
    )
    """Subgroups of multicast: each has a part of every shard, and trees of its own."""
    chunk_bytes: int | None = option(
        None,
        SIZE,
        "Multicast: unit of recovery, 64 B to 64KiB.",
        group=MULTICAST,
        name="chunk",
        metavar="SIZE",
        otherwise="the MTU",
        between=(MIN_CHUNK_BYTES, MAX_CHUNK_BYTES),
        heeded=_by_algorithm("chunk"),
        who=OF_MULTICAST,
    )
    """Of multicast, the unit of recovery; the path MTU by default. A larger one is several
    packets."""
    batch: int = option(
        1,
        WHOLE,
        "Multicast: chunks that leave back to back.",
        group=MULTICAST,
        metavar="N",
        between=(1, 1 << 16),
        heeded=_by_algorithm("batch"),
        who=OF_MULTICAST,
    )
    servers: int | None = option(
        None,
        WHOLE,
        "Optcast: reduction servers.",
        group=OPTCAST,
        metavar="S",
        otherwise="as many as ranks",
        between=(1, MAX_HOSTS),
        network=lambda asked: asked.dedicated_servers,
        heeded=_by_algorithm("servers"),
        who=OF_OPTCAST,
    )
    server_placement: str = option(
        "dedicated",
        TEXT,
        "Optcast: servers have dedicated hosts, or the ranks'.",
        group=OPTCAST,
        choices=SERVER_PLACEMENTS,
        heeded=_by_algorithm("server-placement"),
        who=OF_OPTCAST,
    )
    """``dedicated``: servers have hosts of their own, which the network gets beside those of ranks,
    spread over the leaves; ``ranks``: server s is on the host of rank s."""
    split: int | None = option(
        None,
        WHOLE,
        "Optcast: pieces of a request.",
        group=OPTCAST,
        metavar="N",
        otherwise="one a server",
        between=(1, MAX_SPLIT),
        heeded=_by_algorithm("split"),
        who=OF_OPTCAST,
    )
    """Pieces that a request is cut into."""
    fan_in: int | None = option(
        None,
        WHOLE,
        "Optcast: most contributions to one server.",
        group=OPTCAST,
        metavar="N",
        otherwise="no limit",
        between=(2, MAX_HOSTS),
        heeded=_by_algorithm("fan-in"),
        who=OF_OPTCAST,
    )
    """Most contributions that one server takes; more ranks make a tree of servers."""
    slots: int | None = option(
        None,
        WHOLE,
        "Switch: rounds under way at a time.",
        group=ADDING,
        metavar="N",
        otherwise="128",
        between=(1, MAX_SLOTS),
        heeded=_by_algorithm("slots"),
        who=OF_SWITCH,
    )
    """Aggregation in switches: rounds under way at a time, of each job."""
    values: int | None = option(
        None,
        WHOLE,
        "Switch: numbers in a packet.",
        group=ADDING,
        metavar="V",
        otherwise="256; BMv2 64",
        network=lambda asked: asked.program_values,
        heeded=_by_algorithm("values"),
        who=OF_SWITCH,
    )
    """Aggregation in switches: numbers of 32 bits a packet; 256 by default, on BMv2 64."""
    jobs: int = option(
        1,
        WHOLE,
        "Communicators that share the network.",
        group=OPERATION,
        metavar="N",
        between=(1, MAX_JOBS),
        heeded=lambda asked: asked.collective != FLOWS,
        who="a workload has the network to itself",
    )
    """Communicators of equal size that share the network and do the same at the same time."""
    cutoff: str = option(
        "adaptive",
        TEXT,
        "When to fetch: adaptive, paper or fetch-only.",
        group=MULTICAST,
        choices=CUTOFFS,
        heeded=_by_algorithm("cutoff"),
        who=OF_MULTICAST,
    )
    model: str | None = option(
        None,
        TEXT,
        f"FSDP: whose layers, {', '.join(MODELS)}.",
        group=WORKLOAD,
        otherwise=MODELS[0],
        heeded=lambda asked: asked.collective == FSDP,
        who=f"it is for {FSDP}",
    )
    """It says `size_bytes`, scaled to the rate (`weft.experiments.scenario.fsdp_models`). Empty:
    `size_bytes` is a layer's own."""
    layers: int | None = option(
        None,
        WHOLE,
        "FSDP: steps that are run [6]; flows of a model: layers.",
        group=WORKLOAD,
        metavar="N",
        otherwise="all",
        heeded=lambda asked: asked.collective == FSDP or _is_model_step(asked),
        who=f"it is for {FSDP}, and {FLOWS} of a model",
    )
    """FSDP: steps that are run: in each the parameters of one layer are gathered and the gradients
    of the one before are reduced. Flows of a model: by default all its layers."""
    slowdown: float | None = option(
        None,
        FACTOR,
        "FSDP, flows: a layer takes X times as long as at 400 Gbit/s.",
        group=WORKLOAD,
        metavar="X",
        otherwise=f"{SLOWDOWN}; flows of a model 10",
        heeded=lambda asked: asked.collective in (FSDP, FLOWS),
        who=f"it is for {FSDP} and {FLOWS}",
    )
    """FSDP, flows: how many times as long a model's layer takes as on links of 400 Gbit/s. Flows of
    a file are scaled only where it is given."""
    workload: str | None = option(
        None,
        TEXT,
        "Flows: a connection matrix (.cm), Chakra's traces (.0.et), or a step of gpt-7b, gpt-13b, "
        "gpt-small, gpt-medium, gpt-xl.",
        group=WORKLOAD,
        metavar="FILE|MODEL",
        heeded=lambda asked: asked.collective == FLOWS,
        who=f"it is for {FLOWS}",
    )
    """Flows: a file of another simulator (.cm, .et), or a model of which one training step is taken
    (`weft.experiments.workloads`)."""
    tensor: int | None = option(
        None,
        WHOLE,
        "Flows of a model: ranks that share a layer.",
        group=WORKLOAD,
        metavar="N",
        otherwise="a leaf's hosts",
        heeded=_is_model_step,
        who=OF_MODELS,
    )
    """Flows of a model: ranks next to each other that share each layer."""
    micro_batches: int | None = option(
        None,
        WHOLE,
        "Flows of a model: micro-batches of a step.",
        group=WORKLOAD,
        metavar="N",
        otherwise="1",
        heeded=_is_model_step,
        who=OF_MODELS,
    )
    operations: int = option(
        1,
        WHOLE,
        "Operations of one run.",
        group=OPERATION,
        metavar="N",
        between=(1, 10_000),
        heeded=lambda asked: asked.collective not in (FSDP, FLOWS),
        who="it has layers, or flows",
    )
    """Operations of one run, on one communicator."""
    at_once: int = option(
        1,
        WHOLE,
        "How many of them run at the same time.",
        group=OPERATION,
        metavar="N",
        between=(1, MAX_AT_ONCE),
        heeded=lambda asked: asked.collective != FSDP,
        who="two layers' are under way at a time",
    )
    loss: float = option(
        0.0, PROBABILITY, "Loss probability of every link and direction: 0.01 or 1%.", group=FAULTS
    )
    """Probability that a link loses a packet, for every link and each direction by itself."""
    faults: tuple[Fault, ...] = option(
        (),
        Kind(
            "lines, as docs/faults.md has them",
            lambda name, value: tuple(map(Fault.parse, read_texts(name, value))),
            listed=True,
        ),
        "LINK:loss=P, like leaf0-spine1:loss=0.1, or WHERE:fail,at=TIME, WHERE:slow,rate=PART and "
        "more (docs/faults.md); may be repeated.",
        group=FAULTS,
        name="fault",
    )
    notice: str = option(
        "never",
        TEXT,
        "Failed links are known and avoided never, at-once or late.",
        group=FAULTS,
        choices=NOTICES,
    )
    """When the controller knows that a link between switches has failed, or is back, and leads
    everything around it: ``never``, ``at-once``, or ``late``, after `notice_after_ns`."""
    notice_after_ns: int | None = option(
        None,
        DURATION,
        "Of --notice late: after that time.",
        group=FAULTS,
        name="notice-after",
        metavar="TIME",
        otherwise="100ms",
    )
    delay_ns: int = option(
        0,
        DURATION,
        "Propagation delay of every link; simulated world alone.",
        group=NETWORK,
        name="delay",
        between=(0, 10**9),
        network=True,
    )
    queue_bytes: int = option(
        512 * 1024,
        SIZE,
        "Bound of each switch port's queue.",
        group=NETWORK,
        name="queue",
        between=(2 * 9216, 1 << 30),
        network=True,
    )
    timeout_s: float | None = option(
        None,
        SECONDS,
        "Longest time an operation may take, in seconds.",
        group=OPERATION,
        name="timeout",
        otherwise="by its size",
    )
    """Longest time that an operation may take; by default, some times the expected time."""
    seed: int = option(
        1,
        WHOLE,
        "Seed of data, losses and hashes.",
        group=RUNS,
        metavar="N",
        between=(0, MAX_SEED),
        network=True,
    )
    """Of data, losses, hashes of paths and placement."""
    seeds: tuple[int, ...] = option(
        (),
        SEEDS,
        "Run for each seed; tell means and ranges: 1..20 or 1,2,5.",
        group=RUNS,
        metavar="A..B",
    )
    """The scenario is run for each of them as `seed`, and figures are means of all; by default for
    `seed` alone."""
    repeat: int = option(
        1, WHOLE, "Runs of each algorithm.", group=RUNS, metavar="N", between=(1, 10_000)
    )
    """Runs for each seed. Data and losses of a repetition are those of the seeds that follow."""
    pcap: bool = option(
        False, FLAG, "Capture at both ends of every link.", group=TESTBED, network=True
    )
    trace: str = option(
        "",
        TEXT,
        "Trace a switch's first packets, step by step.",
        group=TESTBED,
        metavar="SWITCH",
        otherwise="none",
        network=True,
    )
    """A built-in switch of the emulated world whose first packets are traced; none if empty."""
    links: str = option(
        "veth",
        TEXT,
        "Between built-in switches: veth pairs, or patch, in process.",
        group=TESTBED,
        choices=LINK_KINDS,
        network=True,
    )
    """What joins switches of the emulated world: ``veth`` pairs, or ``patch`` links inside the
    process of the built-in switch, without the kernel in between."""
    predict: bool = option(True, FLAG, "Simulate an emulated run first.", group=TESTBED)
    """Whether an emulated run is simulated first, and its fidelity judged by the difference."""

    @property
    def link_kind(self) -> LinkKind:
        """`links` as the emulated world takes it."""
        return "patch" if self.links == "patch" else "veth"

    @property
    def reducing(self) -> bool:
        """Whether elements are summed."""
        return self.collective in (*REDUCING, FSDP)

    @property
    def adding(self) -> bool:
        """Whether switches sum."""
        return any(each.adds for each in self.kinds())

    @property
    def multicasting(self) -> bool:
        """Whether ranks multicast."""
        return any(each.multicasts for each in self.kinds())

    @property
    def serving(self) -> bool:
        """Whether reduction servers sum."""
        return any(each.serves for each in self.kinds())

    def kinds(self) -> Iterator[Algorithm]:
        """Yield the algorithms as objects: of FSDP those of which it consists."""
        from weft.experiments.scenario.kinds import kinds_of

        for name in self.algorithms:
            yield from kinds_of(self.collective, name)

    def default_servers(self) -> int:
        """As many as ranks; in a fat tree, which has its hosts, half of each leaf's."""
        if self.topology == "single":
            return self.hosts_per_leaf or 1
        if self.topology == "leaf-spine":
            return (self.leaves or 1) * (self.hosts_per_leaf or 1)
        leaves = {host.leaf for host in clos.fat_tree(self.k or 4, self.tiers or 3).hosts}
        return len(leaves) * ((self.k or 4) // 4) or 1

    @property
    def program_values(self) -> int:
        """V of the switches' program: numbers of 32 bits in an aggregation packet."""
        if self.values is not None:
            return self.values
        return AGGREGATION_VALUES if self.switch == "weft" else BMV2_AGGREGATION_VALUES

    @property
    def dedicated_servers(self) -> int:
        """Hosts that the network has for servers alone."""
        return (self.servers or 0) if self.server_placement == "dedicated" else 0

    @property
    def placement(self) -> Placement:
        """Which hosts of the network are ranks, and which servers."""
        network = self.network()
        leaves = len({host.leaf for host in network.hosts})
        return place(
            leaves,
            len(network.hosts) // leaves,
            jobs=self.jobs,
            servers=self.servers or 0,
            dedicated=self.server_placement == "dedicated",
            order=self.rank_placement,
            seed=self.seed,
        )

    @property
    def ranks(self) -> int:
        """Of each job."""
        return self.placement.ranks

    @property
    def shard_sizes(self) -> tuple[int, ...]:
        """Bytes that each rank contributes (Reduce-Scatter: ends with; Allreduce, All-to-all: its
        part of the vector; FSDP: of a layer, rounded up to whole elements), one a rank."""
        return self.shard_sizes_of(self.ranks)

    def shard_sizes_of(self, ranks: int) -> tuple[int, ...]:
        if self.collective == "broadcast":
            return tuple(self.size_bytes if rank == self.root else 0 for rank in range(ranks))
        if self.collective == FLOWS:
            graph = self.flow_graph(self.algorithms[0])
            return tuple(sum(graph.sizes(graph.sent_by(rank))) for rank in range(ranks))
        if self.collective in VECTORS:
            item_bytes = int(self.dtype.lstrip("buintfloa")) // 8
            each, more = divmod(self.size_bytes // item_bytes, ranks)
            return tuple(item_bytes * (each + (rank < more)) for rank in range(ranks))
        if self.collective == FSDP:
            item_bytes = int(self.dtype.lstrip("buintfloa")) // 8
            return (-(-self.size_bytes // (ranks * item_bytes)) * item_bytes,) * ranks
        sizes = self.sizes_bytes or (self.size_bytes,)
        return tuple(sizes[rank % len(sizes)] for rank in range(ranks))

    def flow_graph(self, algorithm: str) -> FlowGraph:
        """Of the collective flows: what is sent."""
        return self.graph_for(algorithm, self.ranks)

    def graph_for(self, algorithm: str, ranks: int) -> FlowGraph:
        """Return the flows between so many ranks. Raises `InputError` where the workload makes
        none."""
        from weft.experiments.workloads.load import WorkloadOptions, graph_of

        return graph_of(
            WorkloadOptions(
                self.workload or "", algorithm, ranks, self.rate_bps, self.slowdown, self.layers,
                self.tensor or 1, self.micro_batches or 1,
            )
        )  # fmt: skip

    @property
    def title(self) -> str:
        """The collective's name as a title has it: ``Reduce-Scatter``."""
        return title_of(self.collective)

    @property
    def lossy(self) -> bool:
        """Whether links lose packets at random."""
        return self.loss > 0 or bool(self.losses)

    @property
    def losses(self) -> tuple[LinkLoss, ...]:
        """The links with a probability of loss of their own."""
        return tuple(fault for fault in self.faults if isinstance(fault, LinkLoss))

    @property
    def injected(self) -> tuple[Fault, ...]:
        """What happens to single packets, links, switches and ranks."""
        return tuple(fault for fault in self.faults if not isinstance(fault, LinkLoss))

    @property
    def notice_delay_ns(self) -> int | None:
        """How long after a link went down, or came back, the controller knows it; None: never."""
        return {"never": None, "at-once": 0, "late": self.notice_after_ns}[self.notice]

    def network(self) -> clos.Topology:
        """Return the network that the scenario asks for (raises `InputError` where there is
        none)."""
        if self.topology == "single":
            assert self.hosts_per_leaf is not None
            whole("hosts-per-leaf", self.hosts_per_leaf, 1, MAX_HOSTS_PER_LEAF)
            refuse(
                self.oversubscription is not None,
                "oversubscription means nothing for --topology single, which has no uplinks: "
                "leave it out, or choose leaf-spine or fat-tree",
            )
            return clos.single(
                self.hosts_per_leaf + self.dedicated_servers,
                rate_bps=self.rate_bps,
                delay_ns=self.delay_ns,
                queue_bytes=self.queue_bytes,
            )
        if self.topology == "leaf-spine":
            assert self.leaves is not None and self.spines is not None
            assert self.hosts_per_leaf is not None
            whole("leaves", self.leaves, 1, MAX_PORTS)
            whole("spines", self.spines, 1, MAX_PORTS)
            whole("hosts-per-leaf", self.hosts_per_leaf, 1, MAX_HOSTS_PER_LEAF)
            on_leaf = self.hosts_per_leaf + servers_on_leaf(self.dedicated_servers, self.leaves)
            hosts = self.leaves * on_leaf
            refuse(
                hosts > MAX_HOSTS,
                f"{self.leaves} leaves with {on_leaf} hosts each are {hosts} "
                f"hosts: at most {MAX_HOSTS}; lower leaves or hosts-per-leaf",
            )
            return clos.leaf_spine(
                self.leaves,
                self.spines,
                on_leaf,
                rate_bps=self.rate_bps,
                fabric_rate_bps=self.fabric_rate_bps(self.hosts_per_leaf, self.spines),
                delay_ns=self.delay_ns,
                queue_bytes=self.queue_bytes,
            )
        assert self.k is not None and self.tiers is not None
        whole("tiers", self.tiers, 2, 3)
        whole("k", self.k, 2, 32 if self.tiers == 3 else 64)  # see MAX_HOSTS
        return clos.fat_tree(
            self.k,
            self.tiers,
            rate_bps=self.rate_bps,
            fabric_rate_bps=self.fabric_rate_bps(self.k // 2, self.k // 2),
            delay_ns=self.delay_ns,
            queue_bytes=self.queue_bytes,
        )

    def heeds(self, row: Option) -> bool:
        """Return whether anything of what is asked goes by an option."""
        return row.heeded is None or row.heeded(self)

    def fabric_rate_bps(self, hosts_on_leaf: int, uplinks: int) -> int | None:
        """Return the rate of links between switches that gives the oversubscription asked for: what
        a leaf's hosts can send over what its uplinks carry. None: that of all links.

        Raises:
            InputError: there is no such rate.
        """
        wanted = self.oversubscription
        if wanted is None:
            return None
        refuse(
            not 0.125 <= wanted <= 64,
            f"oversubscription {wanted:g}: from 0.125 to 64; 4 means that a leaf's hosts can "
            "send four times what its uplinks carry",
        )
        rate_bps = round(self.rate_bps * hosts_on_leaf / (uplinks * wanted))
        refuse(
            rate_bps < 100_000,
            f"oversubscription {wanted:g} makes fabric links of {rate_bps} bit/s at a rate of "
            f"{self.rate_bps}: at least 100 kbit/s are needed; raise rate, or lower it",
        )
        return rate_bps

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as they stand in results.json: everything, defaults included."""
        return {
            **asdict(self),
            "algorithms": list(self.algorithms),
            "sizes_bytes": list(self.sizes_bytes),
            "seeds": list(self.seeds),
            "faults": [str(fault) for fault in self.faults],
        }


def title_of(collective: str) -> str:
    """Return a collective's name as a title has it: ``Reduce-Scatter``, ``FSDP interleaving``."""
    return "FSDP interleaving" if collective == FSDP else collective.title()


def _rows() -> dict[str, Option]:
    rows = {}
    for each in fields(Asked):
        row: Option = each.metadata["option"]
        name = row.name or each.name.replace("_", "-")
        rows[name] = replace(row, name=name, field=each.name)
    return rows


OPTIONS = _rows()
"""All options by their names, each a field of `Asked`."""


def is_heeded(row: Option, collective: str) -> bool:
    """Return whether any algorithm of a collective goes by an option."""
    return any(
        Asked(collective, algorithms=(algorithm,), workload="gpt-7b").heeds(row)
        for algorithm in CHOICES[collective]
    )
