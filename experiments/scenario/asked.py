"""What is asked of a run: the table of all options, with a row for each field."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from weft.agents.collectives.names import (
    ALGORITHMS,
    BLOCK_BYTES,
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
from weft.agents.fused.tasks import ORDERS
from weft.base.errors import InputError, refuse
from weft.base.units import MAX_SEED, listed
from weft.experiments.fused.names import (
    CLOCKS,
    DISPATCHES,
    FUSED_OPERATORS,
    SLICE_BYTES,
    THREADS,
    WORKGROUPS,
)
from weft.experiments.fused.names import OPERATORS as FUSED_KINDS
from weft.experiments.fused.names import RATIO as FUSED_RATIO
from weft.experiments.fused.names import WAYS as FUSED_WAYS
from weft.experiments.option import (
    ADDING,
    DURATION,
    FACTOR,
    FAULTS,
    FLAG,
    FUSING,
    HOSTS,
    MULTICAST,
    NETWORK,
    OPERATION,
    OPTCAST,
    PIPELINES,
    PROBABILITY,
    RATE,
    RESHARDING,
    RUNS,
    SECONDS,
    SEEDS,
    SIZE,
    SIZES,
    TESTBED,
    TEXT,
    TRANSPORT,
    UNICAST,
    WHOLE,
    WORKLOAD,
    Option,
    OptionKind,
    option,
    read_texts,
)
from weft.experiments.paths.names import SCHEMES, described_schemes
from weft.experiments.pipeline.names import (
    COMMUNICATION,
    PIPELINE,
    PIPELINE_MODELS,
    PIPELINE_SLOWDOWN,
    STRATEGY,
)
from weft.experiments.pipeline.schedules import SCHEDULES
from weft.experiments.resharding.names import (
    AUTO,
    BALANCE,
    BALANCES,
    LOCAL_FACTOR,
    RESHARD,
    STRATEGIES,
    strategies,
)
from weft.experiments.scenario.choices import (
    CARRYING,
    CHOICES,
    COLLECTIVES,
    CONGESTION,
    DTYPE,
    DTYPES,
    GRAPHS,
    LAYERS,
    MAX_ECN_PACKETS,
    MAX_HOSTS,
    MAX_JOBS,
    MAX_SIZE_BYTES,
    MAX_SLOTS,
    MAX_SPLIT,
    MAX_WORKERS,
    MIN_CHUNK_BYTES,
    MTUS,
    NOTICE_AFTER_NS,
    NOTICES,
    PLACEMENTS,
    RATES_BPS,
    RECOVERY,
    REDUCED_DTYPE,
    REORDER_PACKETS,
    SERVER_PLACEMENTS,
    SLOTS,
    SPRAYED_REORDER_PACKETS,
    SWITCHES,
    TENSOR_DTYPES,
    TIERS,
    TOPOLOGIES,
    WORLDS,
)
from weft.experiments.scenario.fsdp_models import FSDP, MODELS, SLOWDOWN
from weft.experiments.scenario.networks import (
    FILE_ENDING,
    NetworkShape,
    described_networks,
    network_shape,
)
from weft.experiments.scenario.own_options import having_options, with_own_options
from weft.experiments.scenario.workload_checks import GPTS, MICRO_BATCHES, MODEL_SLOWDOWN, is_model
from weft.experiments.workloads.workload import Workload, described_workloads, workload_of
from weft.topo.fabric_program import AGGREGATION_VALUES, BMV2_AGGREGATION_VALUES
from weft.topo.faults import Fault, emulated_lines
from weft.topo.interfaces import LINK_KINDS
from weft.topo.network import MAX_DELAY_NS, MAX_HOSTS_PER_LEAF, MAX_PORTS
from weft.topo.switch_kinds import RATE_BPS

if TYPE_CHECKING:  # it takes numpy, which help and messages go without
    from weft.agents.collectives.algorithm import Algorithm
    from weft.experiments.paths.scheme import PathScheme


def _algorithms(name: str, value: Any) -> tuple[str, ...]:
    names = tuple(read_texts(name, value))
    known = sorted({each for choices in CHOICES.values() for each in choices})
    if not names:
        raise InputError(
            f"no {name} was named: choose from {', '.join(known)}, or leave the key out"
        )
    return names


def _known_algorithms() -> str:
    """List the algorithms of each collective: ``allgather: ring, linear; alltoall, many-to-one:
    direct``."""
    collectives: dict[tuple[str, ...], list[str]] = {}
    for collective, names in CHOICES.items():
        if collective in CARRYING:
            continue  # options of their own say it
        collectives.setdefault(names, []).append(collective)
    return "; ".join(
        f"{', '.join(some)}: {', '.join(names)}" for names, some in collectives.items()
    )


def _known_schemes() -> str:
    """List the path schemes: ``ecmp (hashed), spray``."""
    schemes = described_schemes().items()
    return ", ".join(f"{name} ({about})" if about else name for name, about in schemes)


def _known_faults() -> str:
    """Say how lines of links' faults are written, without those parts that may be left out."""
    lines = [re.sub(r"\[.*?\]", "", line) for line in emulated_lines()]
    loss, *others = (line for line in lines if not line.startswith("HOST"))
    return f"{loss}, like leaf0-spine1:loss=0.1, or {', '.join(others)}"


def _check_oversubscription(name: str, value: float, low: float, high: float) -> None:
    refuse(
        not low <= value <= high,
        f"{name} {value:g}: from {low:g} to {high:g}; 4 means that a leaf's hosts can "
        "send four times what its uplinks carry",
    )


def _check_local_factor(name: str, value: float, low: float, high: float) -> None:
    refuse(not low <= value <= high, f"{name} {value:g}: from {low:g} to {high:g}")


def _by_algorithm(name: str) -> Callable[["Asked"], bool]:
    """Return a function that says whether an algorithm that is asked for heeds an option."""
    return lambda asked: any(name in each.heeds for each in asked.kinds())


def _of_algorithms(name: str) -> str:
    """Say which algorithms heed an option: ``it is for the algorithm multicast``."""
    heeding = [each for each in ALGORITHMS.names() if name in ALGORITHMS.fact(each, "heeds")]
    return f"it is for the algorithm{'s' if len(heeding) > 1 else ''} {listed(heeding, 'and')}"


def _other_workloads() -> str:
    """List the workloads of other packages, behind those of Weft."""
    return "".join(f", or {name} ({about})" for name, about in described_workloads().items())


def _known_strategies() -> str:
    """List the resharding strategies: ``broadcast (a chain over the hosts), ... or auto``."""
    about = {name: STRATEGIES.fact(name, "about") for name in strategies() if name != AUTO}
    return ", ".join(
        f"{name} ({words})" if words else name
        for name, words in {**about, AUTO: "the best by the model"}.items()
    )


def _names(name: str, value: Any) -> tuple[str, ...]:
    return tuple(read_texts(name, value))


def _is_resharding(asked: "Asked") -> bool:
    return asked.collective == RESHARD


def _are_dtypes(names: str) -> bool:
    """Return whether a text says one type for each of the tensors of a resharding."""
    return all(name.strip() in (*DTYPES, *TENSOR_DTYPES) for name in names.split(";"))


def _is_pipeline(asked: "Asked") -> bool:
    return asked.collective == PIPELINE


def _check_between(name: str, value: float, low: float, high: float) -> None:
    refuse(not low <= value <= high, f"{name} {value:g} is out of range: {low:g} to {high:g}")


def _is_fused(asked: "Asked") -> bool:
    return asked.collective == FUSED_OPERATORS


def _is_carrying(asked: "Asked") -> bool:
    return asked.collective in CARRYING


def _check_efficiency(name: str, value: float, low: float, high: float) -> None:
    refuse(
        not low <= value <= high,
        f"{name} {value:g}: from {low:g} to {high:g}, as a part of the peak of a V100",
    )


def _is_model_step(asked: "Asked") -> bool:
    return asked.collective == FLOWS and is_model(asked.workload)


LEAF_SPINE = TOPOLOGIES["leaf-spine"]
FAT_TREE = TOPOLOGIES["fat-tree"]

OF_REDUCTIONS = "it is for reduce-scatter and allreduce"
OF_MODELS = f"it is for {FLOWS} of a model"
OF_RESHARDINGS = f"it is for {RESHARD}"
OF_PIPELINES = f"it is for {PIPELINE}"
OF_FUSED = f"it is for {FUSED_OPERATORS}"
_fused_option = partial(option, group=FUSING, heeded=_is_fused, who=OF_FUSED)
OF_CARRYING = f"it is for {' and '.join(CARRYING)}"


@dataclass(frozen=True)
@with_own_options
class Asked:
    """Hold what is asked of a run, as it was asked: every field is an option of ``weft run`` and a
    key of a scenario file. `weft.experiments.scenario.scenario.Scenario` is the same with
    everything checked and filled in."""

    collective: str = option("allgather", TEXT, group=OPERATION, choices=COLLECTIVES)
    world: str = option("emulated", TEXT, "{choices}.", group=TESTBED, choices=WORLDS)
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
        "{choices}; or a file with a network of your own, NAME.toml.",
        group=NETWORK,
        otherwise="",
        choices=dict.fromkeys(TOPOLOGIES, "") | described_networks(),
        besides=lambda name: name.endswith(FILE_ENDING),
        network=lambda asked: (asked.topology, asked.graph),
    )
    """One of Weft's own shapes, a shape that another package brings, or the network of a file."""
    hosts: tuple[str, ...] = option(
        (),
        HOSTS,
        "Which hosts are ranks, in order.",
        group=NETWORK,
        metavar="NAMES",
        otherwise="all",
    )
    """The names of the ranks' hosts, in the order of the ranks; empty: all but those of dedicated
    servers."""
    leaves: int | None = option(
        None,
        WHOLE,
        "Leaf switches of a leaf-spine.",
        group=NETWORK,
        otherwise=str(LEAF_SPINE["leaves"]),
        between=(1, MAX_PORTS),
        network=True,
    )
    spines: int | None = option(
        None,
        WHOLE,
        "Spine switches of a leaf-spine.",
        group=NETWORK,
        otherwise=str(LEAF_SPINE["spines"]),
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
        otherwise=str(FAT_TREE["k"]),
        between=lambda asked: (2, 64 if asked.tiers == 2 else 32),
        network=True,
    )
    """A leaf has k/2 hosts."""
    tiers: int | None = option(
        None,
        WHOLE,
        f"Tiers of switches of a fat tree, {TIERS[0]} or {TIERS[1]}.",
        group=NETWORK,
        otherwise=str(FAT_TREE["tiers"]),
        between=TIERS,
        network=True,
    )
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
    """What the reliable transport reacts to: with ``window``, to losses alone; with ``dctcp``, also
    to marks of the switches' queues, as RFC 8257 says. The default depends on `paths` and the
    collective."""
    recovery: str | None = option(
        None,
        TEXT,
        "{choices}.",
        group=TRANSPORT,
        otherwise="selective where paths reorder",
        choices=RECOVERY,
    )
    """What the reliable transport sends again after a loss."""
    ecn_threshold_packets: int | None = option(
        None,
        WHOLE,
        "Switches mark from a queue of N packets on.",
        group=TRANSPORT,
        between=lambda asked: (1 if asked.congestion == "dctcp" else 0, MAX_ECN_PACKETS),
        name="ecn-threshold",
        counted="packets",
        otherwise="of dctcp: by rate, delay and hosts",
    )
    """Switches mark a packet that finds so many packets or more in its queue; with 0 they mark
    none. The default of dctcp follows from rate, delay, queue and the number of flows that meet
    (`weft.experiments.scenario.longest_path`)."""
    reorder_packets: int | None = option(
        None,
        WHOLE,
        "Selective: lost is what N packets have overtaken.",
        group=TRANSPORT,
        name="reorder",
        counted="packets",
        between=(1, 1 << 16),
        otherwise=f"{REORDER_PACKETS}; {SPRAYED_REORDER_PACKETS} where paths reorder",
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
        otherwise="by rate, delay, queue and world",
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
        otherwise="by rate, delay and world",
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
        otherwise=f"{RATE.write(RATE_BPS['weft'])}; "
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
    size_bytes: int = option(
        1 << 20,
        SIZE,
        "Bytes that each rank contributes; of Broadcast: the root's; of Reduce-Scatter: that each "
        "ends with; of FSDP: of a layer, in place of a model.",
        group=OPERATION,
        name="size",
        between=(0, MAX_SIZE_BYTES),
        instead_of=("sizes", "model"),
    )
    """Bytes that each rank contributes; for Broadcast, all bytes; for Reduce-Scatter, what each
    rank ends with; for Allreduce and All-to-all, the vector; for FSDP, a layer on all ranks
    together."""
    sizes_bytes: tuple[int, ...] = option(
        (),
        SIZES,
        "Sizes of ranks 0, 1 and so on, from the start again at the end.",
        group=OPERATION,
        name="sizes",
        instead_of=("size", "model"),
        metavar="SIZE,...",
        heeded=lambda asked: asked.collective not in ("broadcast", *VECTORS, FSDP, *GRAPHS),
        who="there is one size: use size",
    )
    """In place of `size_bytes`: the bytes of each rank; if ranks are more, the list starts
    again."""
    dtype: str = option(
        "",
        TEXT,
        f"Type of the elements; of reshard also {', '.join(TENSOR_DTYPES)}, and one for each "
        "tensor, like int32;float16.",
        group=OPERATION,
        otherwise=f"{DTYPE}; of reductions {REDUCED_DTYPE}; of reshard int32",
        choices=DTYPES,
        besides=_are_dtypes,
    )
    """The type of the elements; of a resharding of several tensors also one for each, with
    semicolons between."""
    op: str = option(
        "sum",
        TEXT,
        "Of reductions: {choices}.",
        group=OPERATION,
        choices=OPS,
        heeded=lambda asked: asked.reducing,
        who=OF_REDUCTIONS,
    )
    data: str = option(
        "exact",
        TEXT,
        f"Of sums of floats: {DATA[0]}, or as gradients are, {listed(DATA[1:], 'or')}; their "
        "errors are in the results.",
        group=OPERATION,
        choices=DATA,
        heeded=lambda asked: asked.reducing,
        who=OF_REDUCTIONS,
    )
    """What the floating-point numbers are like that are summed or averaged: ``exact``, integers so
    small that nothing is rounded; or as gradients are (`weft.agents.collectives.gradients`):
    ``normal``, ``heavy-tailed``, or ``mixed`` magnitudes. With the latter, results tell how far
    sums are from exact ones."""
    algorithms: tuple[str, ...] = option(
        (),
        OptionKind("names", _algorithms, listed=True),
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
    """The rank whose buffer all others get in a Broadcast, and which gets everything in
    many-to-one."""
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
        otherwise=f"{SIZE.write(BLOCK_BYTES)}, or an eighth of a shard",
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
        who=_of_algorithms("workers"),
    )
    """How many subgroups multicast has; each has a part of every shard, and trees of its own."""
    chunk_bytes: int | None = option(
        None,
        SIZE,
        f"Multicast: unit of recovery, {SIZE.say(MIN_CHUNK_BYTES)} to "
        f"{SIZE.write(MAX_CHUNK_BYTES)}.",
        group=MULTICAST,
        name="chunk",
        metavar="SIZE",
        otherwise="the MTU",
        between=(MIN_CHUNK_BYTES, MAX_CHUNK_BYTES),
        heeded=_by_algorithm("chunk"),
        who=_of_algorithms("chunk"),
    )
    """The unit of recovery of multicast; by default the path MTU. A larger chunk is several
    packets."""
    batch: int = option(
        1,
        WHOLE,
        "Multicast: chunks that leave back to back.",
        group=MULTICAST,
        between=(1, 1 << 16),
        heeded=_by_algorithm("batch"),
        who=_of_algorithms("batch"),
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
        who=_of_algorithms("servers"),
    )
    server_placement: str = option(
        "dedicated",
        TEXT,
        "Optcast: servers have dedicated hosts, or the ranks'.",
        group=OPTCAST,
        choices=SERVER_PLACEMENTS,
        heeded=_by_algorithm("server-placement"),
        who=_of_algorithms("server-placement"),
    )
    """With ``dedicated``, servers have hosts of their own, which the network gets beside those of
    ranks, spread over the leaves; with ``ranks``, server s is on the host of rank s."""
    split: int | None = option(
        None,
        WHOLE,
        "Optcast: pieces of a request.",
        group=OPTCAST,
        otherwise="one a server",
        between=(1, MAX_SPLIT),
        heeded=_by_algorithm("split"),
        who=_of_algorithms("split"),
    )
    """How many pieces a request is cut into."""
    fan_in: int | None = option(
        None,
        WHOLE,
        "Optcast: most contributions to one server.",
        group=OPTCAST,
        otherwise="no limit",
        between=(2, MAX_HOSTS),
        heeded=_by_algorithm("fan-in"),
        who=_of_algorithms("fan-in"),
    )
    """The most contributions that one server takes; if there are more ranks, servers form a
    tree."""
    slots: int | None = option(
        None,
        WHOLE,
        "Switch: rounds under way at a time.",
        group=ADDING,
        otherwise=str(SLOTS),
        between=(1, MAX_SLOTS),
        heeded=_by_algorithm("slots"),
        who=_of_algorithms("slots"),
    )
    """Aggregation in switches: how many rounds each job may have under way at a time."""
    values: int | None = option(
        None,
        WHOLE,
        "Switch: numbers in a packet.",
        group=ADDING,
        metavar="V",
        otherwise=f"{AGGREGATION_VALUES}; BMv2 {BMV2_AGGREGATION_VALUES}",
        network=lambda asked: asked.program_values,
        heeded=_by_algorithm("values"),
        who=_of_algorithms("values"),
    )
    """Aggregation in switches: how many numbers of 32 bits a packet has; by default 256, on BMv2
    64."""
    jobs: int = option(
        1,
        WHOLE,
        "Communicators that share the network.",
        group=OPERATION,
        between=(1, MAX_JOBS),
        heeded=lambda asked: asked.collective not in GRAPHS,
        who="a workload has the network to itself",
    )
    """How many communicators of equal size share the network and do the same at the same time."""
    cutoff: str = option(
        "adaptive",
        TEXT,
        "When to fetch: {choices}.",
        group=MULTICAST,
        choices=CUTOFFS,
        heeded=_by_algorithm("cutoff"),
        who=_of_algorithms("cutoff"),
    )
    model: str | None = option(
        None,
        TEXT,
        f"FSDP: whose layers, {', '.join(MODELS)}; pipeline: {', '.join(PIPELINE_MODELS)}.",
        group=WORKLOAD,
        instead_of=("size", "sizes"),
        otherwise=f"{MODELS[0]}; of pipeline {PIPELINE_MODELS[0]}",
        heeded=lambda asked: asked.collective in (FSDP, PIPELINE),
        who=f"it is for {FSDP} and {PIPELINE}",
    )
    """The model whose layers give `size_bytes`, scaled to the rate
    (`weft.experiments.scenario.fsdp_models`). If it is empty, `size_bytes` is that of a layer."""
    layers: int | None = option(
        None,
        WHOLE,
        f"FSDP: steps that are run [{LAYERS}]; flows of a model: layers.",
        group=WORKLOAD,
        otherwise="all",
        heeded=lambda asked: asked.collective == FSDP or _is_model_step(asked),
        who=f"it is for {FSDP}, and {FLOWS} of a model",
    )
    """FSDP: how many steps are run; in each the parameters of one layer are gathered and the
    gradients of the one before are reduced. Flows of a model: how many layers, by default all."""
    slowdown: float | None = option(
        None,
        FACTOR,
        "FSDP, flows: a layer takes X times as long as at 400 Gbit/s; pipeline: as at 10 Gbit/s; "
        "fused: as on the device.",
        group=WORKLOAD,
        otherwise=f"{SLOWDOWN}; flows of a model {MODEL_SLOWDOWN:g}; pipeline "
        f"{PIPELINE_SLOWDOWN:g}; fused by ratio",
        instead_of=("ratio",),
        heeded=lambda asked: asked.collective in (FSDP, FLOWS, PIPELINE, FUSED_OPERATORS),
        who=f"it is for {FSDP}, {FLOWS}, {PIPELINE} and {FUSED_OPERATORS}",
    )
    """FSDP, flows: how many times as long a model's layer takes as on links of 400 Gbit/s. Flows of
    a file are scaled only where it is given."""
    workload: str | None = option(
        None,
        TEXT,
        "Flows: a connection matrix (.cm), Chakra's traces (.0.et), or a step of "
        f"{', '.join(GPTS)}{_other_workloads()}.",
        group=WORKLOAD,
        metavar="FILE|NAME",
        heeded=lambda asked: asked.collective == FLOWS,
        who=f"it is for {FLOWS}",
    )
    """Flows: a file of another simulator (.cm, .et), a model, of which one training step is run
    (`weft.experiments.workloads`), or a workload of another package."""
    tensor: int | None = option(
        None,
        WHOLE,
        "Flows of a model: ranks that share a layer.",
        group=WORKLOAD,
        otherwise="a leaf's hosts",
        heeded=_is_model_step,
        who=OF_MODELS,
    )
    """Flows of a model: how many ranks next to each other share each layer."""
    micro_batches: int | None = option(
        None,
        WHOLE,
        "Flows of a model, pipeline: micro-batches of a step.",
        group=WORKLOAD,
        otherwise=f"{MICRO_BATCHES}; of pipeline the model's",
        heeded=lambda asked: _is_model_step(asked) or _is_pipeline(asked),
        who=f"{OF_MODELS}, and for {PIPELINE}",
    )
    strategies: tuple[str, ...] = option(
        (),
        OptionKind("names", _names, listed=True),
        f"How slices are sent; may be repeated. {_known_strategies()}.",
        group=RESHARDING,
        name="strategy",
        otherwise=f"{' and '.join(strategies()[:2])}; of pipeline {STRATEGY}",
        heeded=_is_carrying,
        who=OF_CARRYING,
    )
    """How slices of tensors get from their senders to the hosts that need them. With `balances`
    these make up `algorithms`."""
    balances: tuple[str, ...] = option(
        (),
        OptionKind("names", _names, listed=True),
        "How senders and order are chosen; may be repeated. "
        f"{', '.join(f'{name} ({about})' for name, about in BALANCES.items())}.",
        group=RESHARDING,
        name="balance",
        otherwise=BALANCE,
        heeded=_is_carrying,
        who=OF_CARRYING,
    )
    case: int | None = option(
        None,
        WHOLE,
        "One of the nine cases of MLSys 2023, the tensor an eighth.",
        group=RESHARDING,
        instead_of=("one-to-many", "source", "destination"),
        between=(1, 9),
        heeded=_is_resharding,
        who=OF_RESHARDINGS,
    )
    """A case of table 2 of "On Optimizing the Communication of Model Parallelism" (MLSys 2023,
    arXiv 2211.05322); its tensor's first dimension is an eighth of the paper's."""
    one_to_many: str = option(
        "",
        TEXT,
        "From one device to H hosts of D devices, like 4x2.",
        group=RESHARDING,
        metavar="HxD",
        otherwise="",
        instead_of=("case", "source", "destination"),
        heeded=_is_resharding,
        who=OF_RESHARDINGS,
    )
    full: bool = option(
        False,
        FLAG,
        "The paper's whole tensor.",
        group=RESHARDING,
        heeded=_is_resharding,
        who=OF_RESHARDINGS,
    )
    source: str = option(
        "",
        TEXT,
        "The source mesh and the tensor's sharding, like 2x4:S0RR or h0,h3x4:Shard(0),Replicate().",
        group=RESHARDING,
        metavar="MESH:SPEC",
        otherwise="",
        instead_of=("case", "one-to-many"),
        heeded=_is_resharding,
        who=OF_RESHARDINGS,
    )
    """A mesh is hosts and devices a host: the first ranks, or the hosts that are named. Behind a
    slash may stand its shape, if that is not hosts x devices, with names or without: ``2x4/8``,
    ``2x4/dp=2,tp=4``. The sharding is Alpa's, or a list of DTensor's placements; of several
    tensors, with semicolons between."""
    destination: str = option(
        "",
        TEXT,
        "The same of the destination.",
        group=RESHARDING,
        metavar="MESH:SPEC",
        otherwise="",
        instead_of=("case", "one-to-many"),
        heeded=_is_resharding,
        who=OF_RESHARDINGS,
    )
    """The destination as `source` has it; hosts that are not named are those behind the source's.
    """
    shape: str = option(
        "",
        TEXT,
        "The tensor's shape, like 3072,1024,170, also in place of a case's.",
        group=RESHARDING,
        metavar="N,...",
        otherwise="",
        heeded=_is_resharding,
        who=OF_RESHARDINGS,
    )
    """The shape of the tensor, in place of a case's, too; of several tensors, with semicolons
    between."""
    local_factor: float | None = option(
        None,
        replace(FACTOR, check=_check_local_factor),
        "Copies inside a host are X times as fast as its link.",
        group=RESHARDING,
        otherwise=f"{LOCAL_FACTOR:g}",
        between=(0.01, 1e9),
        heeded=_is_carrying,
        who=OF_CARRYING,
    )
    """How fast a host copies between its devices. These copies are modelled: they take this time,
    and the bytes are in the tiles in the end."""
    schedules: tuple[str, ...] = option(
        (),
        OptionKind("names", _names, listed=True),
        f"Who does what in which order; may be repeated. {', '.join(SCHEDULES)}, or a file, "
        "NAME.toml.",
        group=PIPELINES,
        name="schedule",
        otherwise="1f1b and eager-1f1b",
        heeded=_is_pipeline,
        who=OF_PIPELINES,
    )
    """The schedules of a training step. With `strategies` and `communications` these make up
    `algorithms`."""
    communications: tuple[str, ...] = option(
        (),
        OptionKind("names", _names, listed=True),
        "How stages communicate; may be repeated. "
        f"{', '.join(f'{name} ({about})' for name, about in COMMUNICATION.items())}.",
        group=PIPELINES,
        name="communication",
        otherwise=next(iter(COMMUNICATION)),
        heeded=_is_pipeline,
        who=OF_PIPELINES,
    )
    stages: int | None = option(
        None,
        WHOLE,
        "Stages that the model is cut into.",
        group=PIPELINES,
        otherwise="the model's",
        between=(1, 256),
        heeded=_is_pipeline,
        who=OF_PIPELINES,
    )
    model_chunks: int | None = option(
        None,
        WHOLE,
        "Of interleaved-1f1b: model chunks of each stage.",
        group=PIPELINES,
        otherwise="2",
        between=(2, 64),
        heeded=_is_pipeline,
        who=OF_PIPELINES,
    )
    stage_mesh: str = option(
        "",
        TEXT,
        "Hosts and devices of each stage, like 1x4.",
        group=PIPELINES,
        metavar="HxD",
        otherwise="the model's",
        heeded=_is_pipeline,
        who=OF_PIPELINES,
    )
    """The mesh of each stage; stage i is on the ranks that follow those of the stage before."""
    sharding: str = option(
        "",
        TEXT,
        "How tensors are sharded over a stage's mesh, like S01RR.",
        group=PIPELINES,
        metavar="SPEC",
        otherwise="samples over hosts, S0RR",
        heeded=_is_pipeline,
        who=OF_PIPELINES,
    )
    delayed_weights: bool = option(
        False,
        FLAG,
        "Gradients of weights come after those of activations, for which others wait.",
        group=PIPELINES,
        heeded=_is_pipeline,
        who=OF_PIPELINES,
    )
    efficiency: float | None = option(
        None,
        replace(FACTOR, check=_check_efficiency),
        "Which part of a V100's peak FLOP/s a device computes with.",
        group=PIPELINES,
        otherwise="0.4",
        between=(0.0001, 1000),
        heeded=_is_pipeline,
        who=OF_PIPELINES,
    )
    operator: str | None = _fused_option(
        None,
        TEXT,
        f"{'; '.join(f'{name}: {about}' for name, about in FUSED_KINDS.items())}.",
        otherwise=next(iter(FUSED_KINDS)),
    )
    """The operator whose computation and communication are fused."""
    ways: tuple[str, ...] = _fused_option(
        (),
        OptionKind("names", _names, listed=True),
        "How bytes go; may be repeated. "
        f"{', '.join(f'{name} ({about})' for name, about in FUSED_WAYS.items())}.",
        name="way",
        otherwise=next(iter(FUSED_WAYS)),
    )
    """How the bytes of an operator go. Each way is run fused and unfused, unless `algorithms` says
    what is run."""
    clock: str | None = _fused_option(
        None,
        TEXT,
        f"Time to compute. {'; '.join(f'{name}: {about}' for name, about in CLOCKS.items())}.",
        choices=tuple(CLOCKS),
        otherwise=next(iter(CLOCKS)),
    )
    """Whether computing takes the time that the declared device takes, or that which it takes on
    this machine's processors, a thread for each workgroup."""
    ratio: float | None = _fused_option(
        None,
        replace(FACTOR, check=_check_between),
        "Time to compute over time to communicate, each alone.",
        otherwise=f"{FUSED_RATIO:g}",
        instead_of=("slowdown",),
        between=(0.001, 1000),
    )
    """What the kernel takes alone over what the communication takes alone: the device is made as
    slow as that needs. `slowdown` says how slow it is, in place of this."""
    flops: float | None = _fused_option(
        None,
        replace(FACTOR, check=_check_between),
        "FLOP/s of the declared device.",
        otherwise="22.6e12",
        between=(1, 1e21),
    )
    """What all workgroups of the device compute with together. The defaults are those of AMD's data
    sheet of the Instinct MI210, with vectors of float32."""
    memory_bandwidth: float | None = _fused_option(
        None,
        replace(FACTOR, check=_check_between),
        "Bytes/s of its memory.",
        otherwise="1.6384e12",
        between=(1, 1e21),
    )
    """What all workgroups of the device read and write together."""
    launch_ns: int | None = _fused_option(
        None,
        DURATION,
        "What it takes to launch a kernel on it.",
        name="launch-time",
        metavar="TIME",
        otherwise="5us",
        between=(0, 10**12),
    )
    put_ns: int | None = _fused_option(
        None,
        DURATION,
        "What a put takes of its workgroup's time.",
        name="put-time",
        metavar="TIME",
        otherwise="250ns",
        between=(0, 10**12),
    )
    task_order: str | None = _fused_option(
        None,
        TEXT,
        f"{'; '.join(f'{name}: {about}' for name, about in ORDERS.items())}.",
        choices=tuple(ORDERS),
        otherwise="by the operator",
    )
    """The order in which a rank computes its tiles."""
    slice_bytes: int | None = _fused_option(
        None,
        SIZE,
        "The most that one put brings, as far as tiles are not larger.",
        name="slice",
        otherwise=SIZE.write(SLICE_BYTES),
        between=(4, 1 << 30),
    )
    workgroups: int | None = _fused_option(
        None,
        WHOLE,
        "Workgroups of a device.",
        otherwise=f"{WORKGROUPS}; measured {THREADS}",
        between=(1, 1024),
    )
    senders: int | None = _fused_option(
        None,
        WHOLE,
        "Workgroups of them that only put, in a fused operator.",
        otherwise="0",
        between=(0, 1023),
    )
    dispatch: str | None = _fused_option(
        None,
        TEXT,
        "How tokens get to their experts: {choices}.",
        choices=DISPATCHES,
        otherwise="none",
    )
    batch_size: int | None = _fused_option(
        None,
        WHOLE,
        "Samples, tokens or rows of the whole input.",
        otherwise="the operator's",
        between=(1, 1 << 24),
    )
    width: int | None = _fused_option(
        None,
        WHOLE,
        "Columns of the result; of tables, numbers of a row.",
        otherwise="the operator's",
        between=(1, 1 << 24),
    )
    inner: int | None = _fused_option(
        None,
        WHOLE,
        "What a multiplication sums over.",
        otherwise="the operator's",
        between=(1, 1 << 24),
    )
    tables: int | None = _fused_option(
        None,
        WHOLE,
        "Embedding tables of all ranks.",
        otherwise="the operator's",
        between=(1, 1 << 20),
    )
    table_rows: int | None = _fused_option(
        None,
        WHOLE,
        "Rows of a table.",
        otherwise="the operator's",
        between=(1, 1 << 24),
    )
    pooling: int | None = _fused_option(
        None,
        WHOLE,
        "Rows of a table that are summed for a sample.",
        otherwise="the operator's",
        between=(1, 1 << 16),
    )
    experts: int | None = _fused_option(
        None,
        WHOLE,
        "Experts of all ranks.",
        otherwise="the operator's",
        between=(1, 1 << 16),
    )
    top_k: int | None = _fused_option(
        None,
        WHOLE,
        "Experts that a token goes to.",
        otherwise="the operator's",
        between=(1, 1 << 16),
    )
    imbalance: float | None = _fused_option(
        None,
        replace(FACTOR, check=_check_between),
        "How uneven experts are wanted: expert e in proportion to (e + 1) ** -X.",
        otherwise="0",
        between=(0, 10),
    )
    tile_rows: int | None = _fused_option(
        None,
        WHOLE,
        "Rows of a tile.",
        otherwise="the operator's",
        between=(1, 1 << 24),
    )
    operations: int = option(
        1,
        WHOLE,
        "Operations of one run.",
        group=OPERATION,
        between=(1, 10_000),
        heeded=lambda asked: asked.collective not in (FSDP, *GRAPHS),
        who="it has layers, or flows",
    )
    """How many operations a run has, on one communicator."""
    at_once: int = option(
        1,
        WHOLE,
        "How many of them run at the same time.",
        group=OPERATION,
        between=(1, MAX_AT_ONCE),
        heeded=lambda asked: asked.collective not in (FSDP, *GRAPHS),
        who="it has layers, or flows, whose order says how many are under way at a time",
    )
    loss: float = option(
        0.0, PROBABILITY, "Loss probability of every link and direction: 0.01 or 1%.", group=FAULTS
    )
    """The probability with which every link loses a packet, in each direction by itself."""
    faults: tuple[Fault, ...] = option(
        (),
        OptionKind(
            "lines, as docs/faults.md has them",
            lambda name, value: tuple(map(Fault.parse, read_texts(name, value))),
            listed=True,
        ),
        f"{_known_faults()} and more (docs/faults.md); may be repeated.",
        group=FAULTS,
        name="fault",
    )
    notice: str = option(
        "never",
        TEXT,
        "Failed links are known and avoided {choices}.",
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
        otherwise=DURATION.write(NOTICE_AFTER_NS),
        between=(1, 10**12),
    )
    delay_ns: int = option(
        0,
        DURATION,
        "Propagation delay of every link; of the built-in switch alone.",
        group=NETWORK,
        name="delay",
        between=(0, MAX_DELAY_NS),
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
        between=(0, 3600),
    )
    """The longest time that an operation may take, in seconds; by default some times the expected
    time."""
    seed: int = option(
        1,
        WHOLE,
        "Seed of data, losses and hashes.",
        group=RUNS,
        instead_of=("seeds",),
        between=(0, MAX_SEED),
        network=True,
    )
    """The seed of data, losses, hashes of paths and placement."""
    seeds: tuple[int, ...] = option(
        (),
        SEEDS,
        "Run for each seed; tell means and ranges: 1..20 or 1,2,5.",
        group=RUNS,
        instead_of=("seed",),
        metavar="A..B",
    )
    """The scenario is run with each of these as `seed`, and figures are means over all; by default
    only with `seed`."""
    repeat: int = option(1, WHOLE, "Runs of each algorithm.", group=RUNS, between=(1, 10_000))
    """How many runs there are for each seed. Data and losses of a repetition are those of the seeds
    that follow."""
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
    """The built-in switch of the emulated world whose first packets are traced; empty if
    none is."""
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
    """Whether an emulated run is simulated, too, and its fidelity judged by the difference."""
    graph: str = ""
    """The description of a network that is none of Weft's own shapes, as JSON
    (`weft.topo.own.NetworkDocument`); it is filled in from a file, or from Python."""

    @property
    def reducing(self) -> bool:
        """Return whether elements are summed."""
        return self.collective in (*REDUCING, FSDP)

    @property
    def adding(self) -> bool:
        """Return whether switches sum."""
        return any(each.adds for each in self.kinds())

    @property
    def multicasting(self) -> bool:
        """Return whether ranks multicast."""
        return any(each.multicasts for each in self.kinds())

    @property
    def serving(self) -> bool:
        """Return whether reduction servers sum."""
        return any(each.serves for each in self.kinds())

    def kinds(self) -> Iterator["Algorithm"]:
        """Yield the algorithms as objects; for FSDP, those of which it consists."""
        from weft.experiments.scenario.kinds import kinds_of

        for name in self.algorithms:
            yield from kinds_of(self.collective, name)

    @property
    def is_own_network(self) -> bool:
        """Return whether the network is none of Weft's own shapes."""
        return bool(self.graph) or self.topology not in TOPOLOGIES

    def owners(self) -> "Iterator[Algorithm | PathScheme | NetworkShape | Workload]":
        """Yield all that may have options of its own."""
        from weft.experiments.paths.registry import scheme_of

        yield from self.kinds() if self.collective not in GRAPHS else ()
        yield scheme_of(self.paths)
        if self.collective == FLOWS and self.workload in described_workloads():
            yield workload_of(self.workload)
        if self.topology in described_networks():
            yield network_shape(self.topology)

    @property
    def program_values(self) -> int:
        """Return V: how many numbers of 32 bits the switches' program takes in an aggregation
        packet."""
        if self.values is not None:
            return self.values
        return AGGREGATION_VALUES if self.switch == "weft" else BMV2_AGGREGATION_VALUES

    @property
    def dedicated_servers(self) -> int:
        """Return how many hosts the network has more, for servers alone. Where ranks' hosts are
        named, and in a network that is none of Weft's own shapes, servers take other hosts."""
        if self.hosts or self.is_own_network:
            return 0
        return (self.servers or 0) if self.server_placement == "dedicated" else 0

    def heeds(self, row: Option) -> bool:
        """Return whether anything of what is asked heeds an option."""
        return row.heeded is None or row.heeded(self)


def _rows() -> dict[str, Option]:
    rows = {}
    for each in fields(Asked):
        if "option" not in each.metadata:  # `graph`, which nobody writes
            continue
        row: Option = each.metadata["option"]
        name = row.name or each.name.replace("_", "-")
        rows[name] = replace(row, name=name, field=each.name)
    return rows


OPTIONS = _rows()
"""All options by their names, each a field of `Asked`."""


def is_heeded(row: Option, collective: str) -> bool:
    """Return whether any algorithm of a collective, or a path scheme beside it, goes by an
    option."""
    return any(
        Asked(collective, algorithms=(algorithm,), paths=paths, workload="gpt-7b").heeds(row)
        for algorithm in CHOICES[collective]
        for paths in (Asked.paths, *having_options(SCHEMES))
    )
