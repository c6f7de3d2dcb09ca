"""A scenario: all that is asked of a run, with its defaults, checked before anything starts.

A scenario comes from the command line, from a TOML file with the same options, or from Python. It
is plain data; `Scenario.network` says which network it means.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from weft.agents.collectives.flow_graph import FlowGraph
from weft.agents.collectives.names import (
    CUTOFFS,
    FLOWS,
    REDUCING,
    VECTORS,
)
from weft.base.errors import InputError
from weft.base.units import (
    parse_probability,
    shown,
)
from weft.experiments.scenario.checks import (
    CHOICES,
    COLLECTIVES,
    MAX_HOSTS,
    MTUS,
    SWITCHES,
    TOPOLOGIES,
    WORLDS,
    check_collective,
    check_notice,
    check_offloading,
    check_seeds,
    choose,
    default_algorithms,
    option,
    whole,
)
from weft.experiments.scenario.fsdp_models import FSDP
from weft.experiments.scenario.outages import check_emulated
from weft.experiments.scenario.path_checks import (
    check_times,
    check_transport,
    fabric_rate_bps,
    fill_marking,
)
from weft.experiments.scenario.placement import Placement, place, servers_on_leaf
from weft.experiments.scenario.workload_checks import graph_for
from weft.topo import clos
from weft.topo.fabric_program import AGGREGATION_VALUES, BMV2_AGGREGATION_VALUES
from weft.topo.interfaces import LINK_KINDS, LinkKind
from weft.topo.network import MAX_HOSTS_PER_LEAF, MAX_PORTS
from weft.topo.packet_faults import (
    OUTAGES,
    PACKET_ACTIONS,
    InjectedFault,
    Outage,
    PacketFault,
    is_injected,
    parse_fault,
)
from weft.topo.switch_kinds import RATE_BPS, check_kind, require


@dataclass(frozen=True)
class Fault:
    """A link or one direction of it, and its probability of loss."""

    link: str
    loss: float

    @staticmethod
    def parse(text: str) -> Fault | InjectedFault:
        """Read one ``--fault``.

        ``LINK:loss=P``, LINK being ``leaf0-spine1`` (both ways) or ``leaf0>spine1``; or a fault by
        name, as `weft.topo.packet_faults` has them.
        """
        if is_injected(text):
            return parse_fault(text)
        link, colon, what = text.partition(":")
        key, equals, value = what.partition("=")
        if not (link.strip() and colon and equals) or key.strip() != "loss":
            raise InputError(
                f"fault {text!r} is not understood: write LINK:loss=P, like leaf0-spine1:loss=0.1 "
                "for both directions or 'leaf0>spine1:loss=1.0' for one; or WHERE:ACTION, ACTION "
                f"one of {', '.join((*PACKET_ACTIONS, *OUTAGES))} (see docs/faults.md)"
            )
        return Fault(link.strip(), parse_probability(value, f"fault {text!r}: loss"))

    def __str__(self) -> str:
        return f"{self.link}:loss={self.loss:g}"


@dataclass(frozen=True)
class Scenario:
    """What is to be run. Every field is an option of ``weft run`` and a key of a scenario file."""

    collective: str = "allgather"
    world: str = "emulated"
    switch: str = "weft"
    topology: str = "leaf-spine"
    leaves: int | None = None
    """Leaf switches (leaf-spine: 4 by default)."""
    spines: int | None = None
    """Spine switches (leaf-spine: 2 by default)."""
    hosts_per_leaf: int | None = None
    """Hosts of each leaf (leaf-spine: 2; single, where it is the number of hosts: 8)."""
    k: int | None = None
    """Ports of each switch of a fat tree (4 by default): k/2 hosts a leaf."""
    tiers: int | None = None
    """Tiers of switches of a fat tree: 2 or 3 (default)."""
    oversubscription: float | None = None
    """What a leaf's hosts can send, over what its uplinks carry: sets the rate of links between
    switches. By default all links have one rate."""
    paths: str = "ecmp"
    """How unicast flows choose among shortest paths (`weft.experiments.scenario.path_schemes`):
    ``ecmp`` by a hash of the flow, ``destination`` by where they go, so that those to different
    hosts keep apart."""
    congestion: str | None = None
    """What the reliable transport reacts to: ``window``, to losses alone; ``dctcp``, to marks of
    the switches' queues too, as RFC 8257 says. The default goes by `paths` and collective."""
    recovery: str | None = None
    """What it sends again: ``go-back-n`` or ``selective``, the default where paths reorder."""
    ecn_threshold_packets: int | None = None
    """Switches mark what finds so many packets in its queue, or more; 0: nothing. The default of
    dctcp follows from rate, delay, queue and flows that meet
    (`weft.experiments.scenario.marking`)."""
    reorder_packets: int | None = None
    """Selective recovery: a packet counts as lost when one sent so many later has arrived."""
    retransmit_timeout_ns: int | None = None
    """A packet is sent again when nothing has been acknowledged for so long, or for the round trip
    measured and four times its variation where that is longer. The default follows from rate,
    delay, queues and world (`weft.experiments.scenario.longest_path`)."""
    control_timeout_ns: int | None = None
    """Where flows do not meet, tokens of barriers, requests of READs and other small messages are
    sent again after this, and twice what is in flight. The default follows from rate, delay and
    world."""
    rank_placement: str = "in-order"
    """Where ranks are: ``in-order``, a leaf after the other; ``strided``, the next rank on the next
    leaf; ``random``, by the seed."""
    rate_bps: int = 0
    """Of every link, bits a second of Ethernet frames without FCS; 0: the default of the switch
    (`weft.topo.switch_kinds.RATE_BPS`)."""
    mtu: int = 4096
    """Path MTU: bytes of RoCE payload a packet."""
    size_bytes: int = 1 << 20
    """Bytes that each rank contributes; of Broadcast, all; of Reduce-Scatter, what each ends
    with; of Allreduce and All-to-all, of the vector; of FSDP, of a layer on all ranks together."""
    sizes_bytes: tuple[int, ...] = ()
    """In place of `size_bytes`: of each rank by itself, from the start again if ranks are more."""
    dtype: str = ""
    """Of the elements: uint8, of what is reduced float32."""
    op: str = "sum"
    """Of Reduce-Scatter and Allreduce: sum, min, max or average."""
    data: str = "exact"
    """Of sums and averages of floating-point numbers: what these are. ``exact``, integers so small
    that nothing is rounded; or as gradients are (`weft.agents.collectives.gradients`): ``normal``,
    ``heavy-tailed``, ``mixed`` magnitudes. Then results tell how far sums are from exact ones."""
    algorithms: tuple[str, ...] = ()
    root: int = 0
    """Of Broadcast: the rank whose buffer all others get; of many-to-one: that gets all."""
    radix: int = 2
    """k of the k-nomial tree."""
    block_bytes: int | None = None
    """Unicast algorithms pass on blocks of so many bytes; by default 64 KiB, or an eighth of the
    largest shard where that is less."""
    chains: int | None = None
    """Chains of the multicast Allgather; as many as ranks by default."""
    workers: int = 1
    """Subgroups of multicast: each has a part of every shard, and trees of its own."""
    chunk_bytes: int | None = None
    """Of multicast, the unit of recovery; the path MTU by default. A larger one is several
    packets."""
    batch: int = 1
    """Multicast chunks that leave back to back."""
    servers: int | None = None
    """Optcast's reduction servers; as many as ranks by default."""
    server_placement: str = "dedicated"
    """``dedicated``: servers have hosts of their own, which the network gets beside those of ranks,
    spread over the leaves; ``ranks``: server s is on the host of rank s."""
    split: int | None = None
    """Optcast: pieces that a request is cut into; as many as servers by default."""
    fan_in: int | None = None
    """Optcast: most contributions that one server takes; more ranks make a tree of servers. By
    default, no limit."""
    slots: int | None = None
    """Aggregation in switches: rounds under way at a time, of each job; 128 by default."""
    values: int | None = None
    """Aggregation in switches: numbers of 32 bits a packet; 256 by default, on BMv2 64."""
    jobs: int = 1
    """Communicators of equal size that share the network and do the same at the same time."""
    cutoff: str = "adaptive"
    model: str | None = None
    """FSDP: whose layers they are, by default GPT-2 small's; it says `size_bytes`, scaled to the
    rate (`weft.experiments.scenario.fsdp_models`). Empty: `size_bytes` is a layer's own."""
    layers: int | None = None
    """FSDP: steps that are run, 6 by default: in each the parameters of one layer are gathered and
    the gradients of the one before are reduced. Flows of a model: by default all its layers."""
    slowdown: float | None = None
    """FSDP, flows: how many times as long a model's layer takes as on links of 400 Gbit/s; 300 by
    default, of flows 10. Flows of a file are scaled only where it is given."""
    workload: str | None = None
    """Flows: a file of another simulator (.cm, .et), or a model of which one training step is taken
    (`weft.experiments.workloads`)."""
    tensor: int | None = None
    """Flows of a model: ranks next to each other that share each layer; by default the hosts of a
    leaf."""
    micro_batches: int | None = None
    """Flows of a model: how many a step has, 1 by default."""
    operations: int = 1
    """Operations of one run, on one communicator."""
    at_once: int = 1
    """How many of them run at the same time."""
    loss: float = 0.0
    """Probability that a link loses a packet, for every link and each direction by itself."""
    faults: tuple[Fault | InjectedFault, ...] = ()
    notice: str = "never"
    """When the controller knows that a link between switches has failed, or is back, and leads
    everything around it: ``never``, ``at-once``, or ``late``, after `notice_after_ns`."""
    notice_after_ns: int | None = None
    """Of a late notice: 100 ms by default."""
    delay_ns: int = 0
    """Propagation delay of every link; in the simulated world alone."""
    queue_bytes: int = 512 * 1024
    """Bound of every switch port's queue."""
    timeout_s: float | None = None
    """Longest time that an operation may take; by default, some times the expected time."""
    seed: int = 1
    """Of data, losses, hashes of paths and placement."""
    seeds: tuple[int, ...] = ()
    """The scenario is run for each of them as `seed`, and figures are means of all (`each_seed`);
    by default for `seed` alone."""
    repeat: int = 1
    """Runs for each seed. Data and losses of a repetition are those of the seeds that follow."""
    pcap: bool = False
    trace: str = ""
    """A built-in switch of the emulated world whose first packets are traced; none if empty."""
    links: str = "veth"
    """What joins switches of the emulated world: ``veth`` pairs, or ``patch`` links inside the
    process of the built-in switch, without the kernel in between."""
    predict: bool = True
    """Whether an emulated run is simulated first, and its fidelity judged by the difference."""

    def __post_init__(self) -> None:
        choose("collective", self.collective, COLLECTIVES)
        choose("world", self.world, WORLDS)
        choose("switch", self.switch, SWITCHES)
        choose("topology", self.topology, TOPOLOGIES)
        choose("links", self.links, LINK_KINDS)
        choose("cutoff", self.cutoff, CUTOFFS)
        check_notice(self)
        if not isinstance(self.algorithms, tuple):
            raise InputError(
                f"algorithms {shown(self.algorithms)} is not a tuple: write algorithms=('ring',)"
            )
        if not self.algorithms:
            object.__setattr__(self, "algorithms", default_algorithms(self))
        for algorithm in self.algorithms:
            choose(f"{self.collective} algorithm", algorithm, CHOICES[self.collective])
            if self.algorithms.count(algorithm) > 1:
                raise InputError(
                    f"algorithm {algorithm!r} is named more than once: name it once, and say "
                    "repeat (--repeat N) to run it N times"
                )
        if self.mtu not in MTUS:
            raise InputError(
                f"mtu {shown(self.mtu)} is no path MTU of RoCE: choose {', '.join(map(str, MTUS))} "
                "(bytes of payload a packet)"
            )
        whole("delay", self.delay_ns, 0, 10**9)
        if self.world == "emulated" and self.delay_ns:
            raise InputError(
                "delay: a host of the emulated world has no way to delay what it sends; choose "
                "--world simulated, or leave --delay out"
            )
        whole("queue", self.queue_bytes, 2 * 9216, 1 << 30)
        whole("repeat", self.repeat, 1, 10_000)
        check_seeds(self)
        parse_probability(self.loss, "loss")
        if self.timeout_s is not None and not 0 < self.timeout_s <= 3600:
            raise InputError(
                f"timeout {self.timeout_s} s is out of range: more than 0, at most 3600"
            )
        defaults = {
            "leaf-spine": {"leaves": 4, "spines": 2, "hosts_per_leaf": 2},
            "single": {"hosts_per_leaf": 8},
            "fat-tree": {"k": 4, "tiers": 3},
        }[self.topology]
        for name in ("leaves", "spines", "hosts_per_leaf", "k", "tiers"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, defaults.get(name))
            elif name not in defaults:
                raise InputError(
                    f"{option(name)} {shown(getattr(self, name))} means nothing for --topology "
                    f"{self.topology}: it takes {', '.join(map(option, defaults))}"
                )
        if self.rate_bps == 0:
            object.__setattr__(self, "rate_bps", RATE_BPS[check_kind(self.switch)])
        whole("rate", self.rate_bps, 100_000, 100_000_000_000)
        check_offloading(self)
        check_transport(self)
        network = self.network()
        fill_marking(self, network)
        check_times(self, network)
        ranks = self.placement.ranks
        check_collective(self, ranks)
        if not isinstance(self.faults, tuple):
            raise InputError(
                f"faults {shown(self.faults)} is not a tuple: write faults=(Fault.parse('...'),)"
            )
        if not isinstance(self.loss, (int, float)):
            raise InputError(f"loss {shown(self.loss)} is not a number: write loss=0.01 for 1 %")
        for fault in self.faults:
            if not isinstance(fault, (Fault, PacketFault, Outage)):
                raise InputError(
                    f"fault {shown(fault)} is of type {type(fault).__name__}: make a fault of text "
                    "by Fault.parse('leaf0-spine1:loss=0.1')"
                )
            if isinstance(fault, Fault):
                network.select(fault.link)
            else:
                fault.check(network)
                if self.world == "emulated":
                    check_emulated(fault)
                    if isinstance(fault, Outage) and fault.action == "slow":
                        require(check_kind(self.switch), ["links that become slow"])
        if self.world == "simulated" and self.switch != "weft":
            raise InputError(
                f"switch {self.switch!r} does not run in the simulated world: that world's switch "
                "is the built-in one, weft; or choose world 'emulated'"
            )
        if self.links == "patch":
            require(check_kind(self.switch), ["patch links"])
            if self.world == "simulated":
                raise InputError(
                    "links 'patch' is for the emulated world: in the simulated, all are; leave "
                    "links out"
                )
        if self.world == "simulated" and self.pcap:
            raise InputError("pcap captures the emulated world's links; the simulated has none")
        if self.trace:
            self._check_trace()

    def _check_trace(self) -> None:
        """Raise InputError unless the switch to be traced is one that can be."""
        if self.world == "simulated" or self.switch != "weft":
            raise InputError(
                f"trace {self.trace!r}: the built-in switch is traced, in the emulated world; "
                "choose world 'emulated' and switch 'weft', or leave trace out"
            )
        names = [switch.name for switch in self.network().switches]
        if self.trace not in names:
            raise InputError(
                f"trace {self.trace!r}: there is no such switch; there are: {', '.join(names)}"
            )

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
        return not {"switch", "in-network"}.isdisjoint(self.algorithms)

    @property
    def multicasting(self) -> bool:
        """Whether ranks multicast."""
        return not {"multicast", "in-network"}.isdisjoint(self.algorithms)

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
        if not self.sizes_bytes:
            return (self.size_bytes,) * ranks
        return tuple(self.sizes_bytes[rank % len(self.sizes_bytes)] for rank in range(ranks))

    def flow_graph(self, algorithm: str) -> FlowGraph:
        """Of the collective flows: what is sent."""
        return graph_for(self, algorithm, self.ranks)

    def each_seed(self) -> list[Scenario]:
        """The scenario with each of its seeds, which still names them all; itself if it has one."""
        return [replace(self, seed=seed) for seed in self.seeds] or [self]

    def runs(self) -> Iterator[tuple[str, int, str]]:
        """What is to be run, in order: algorithm, repetition, and how to call it."""
        for algorithm in self.algorithms:
            for repetition in range(self.repeat):
                label = f"{self.title} by {algorithm}"
                if self.repeat > 1:
                    label += f", {repetition + 1} of {self.repeat}"
                yield algorithm, repetition, label

    @property
    def title(self) -> str:
        """The collective's name as a title has it: ``Reduce-Scatter``."""
        return title_of(self.collective)

    @property
    def lossy(self) -> bool:
        """Whether links lose packets at random."""
        return self.loss > 0 or bool(self.losses)

    @property
    def losses(self) -> tuple[Fault, ...]:
        """The links with a probability of loss of their own."""
        return tuple(fault for fault in self.faults if isinstance(fault, Fault))

    @property
    def injected(self) -> tuple[InjectedFault, ...]:
        """What happens to single packets, links, switches and ranks."""
        return tuple(fault for fault in self.faults if not isinstance(fault, Fault))

    @property
    def notice_delay_ns(self) -> int | None:
        """How long after a link went down, or came back, the controller knows it; None: never."""
        return {"never": None, "at-once": 0, "late": self.notice_after_ns}[self.notice]

    def network(self) -> clos.Topology:
        """The network that the scenario asks for (raises `InputError` where there is none)."""
        if self.topology == "single":
            assert self.hosts_per_leaf is not None
            whole("hosts-per-leaf", self.hosts_per_leaf, 1, MAX_HOSTS_PER_LEAF)
            if self.oversubscription is not None:
                raise InputError(
                    "oversubscription means nothing for --topology single, which has no uplinks: "
                    "leave it out, or choose leaf-spine or fat-tree"
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
            if hosts > MAX_HOSTS:
                raise InputError(
                    f"{self.leaves} leaves with {on_leaf} hosts each are {hosts} "
                    f"hosts: at most {MAX_HOSTS}; lower leaves or hosts-per-leaf"
                )
            return clos.leaf_spine(
                self.leaves,
                self.spines,
                on_leaf,
                rate_bps=self.rate_bps,
                fabric_rate_bps=fabric_rate_bps(self, self.hosts_per_leaf, self.spines),
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
            fabric_rate_bps=fabric_rate_bps(self, self.k // 2, self.k // 2),
            delay_ns=self.delay_ns,
            queue_bytes=self.queue_bytes,
        )

    def to_dict(self) -> dict[str, Any]:
        """As it stands in results.json: everything, defaults included."""
        document = asdict(self)
        document["algorithms"] = list(self.algorithms)
        document["sizes_bytes"] = list(self.sizes_bytes)
        document["seeds"] = list(self.seeds)
        document["faults"] = [str(fault) for fault in self.faults]
        return document


def title_of(collective: str) -> str:
    """A collective's name as a title has it: ``Reduce-Scatter``, ``FSDP interleaving``."""
    return "FSDP interleaving" if collective == FSDP else collective.title()
