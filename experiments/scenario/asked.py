"""What is asked of a run: the table of all options, with a row for each field."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.agents.collectives.names import (
    AGGREGATION_VALUES,
    BMV2_AGGREGATION_VALUES,
    DATA,
    MAX_AT_ONCE,
    MAX_SIZE_BYTES,
    OPS,
    ROOTED,
)
from weft.agents.congestion import (
    CONTROLS,
)
from weft.base.errors import InputError
from weft.base.option import (
    DURATION,
    FAULTS,
    FLAG,
    NETWORK,
    OPERATION,
    PROBABILITY,
    RUNS,
    SECONDS,
    SEEDS,
    SIZE,
    SIZES,
    TESTBED,
    TEXT,
    WHOLE,
    Option,
    OptionKind,
    option,
    own_of,
    read_texts,
    rows_of,
)
from weft.base.units import MAX_SEED, listed
from weft.experiments.paths.names import SCHEMES
from weft.experiments.scenario.choices import (
    DTYPE,
    DTYPES,
    MAX_JOBS,
    NOTICE_AFTER_NS,
    NOTICES,
    REDUCED_DTYPE,
    TENSOR_DTYPES,
    TOPOLOGIES,
)
from weft.experiments.scenario.families import choices, families, family_named
from weft.experiments.scenario.networks import NETWORKS
from weft.experiments.scenario.own_options import with_own_options
from weft.experiments.scenario.queues_asked import QueuesAsked
from weft.topo.faults import Fault, emulated_lines
from weft.topo.interfaces import LINK_KINDS
from weft.topo.network import MAX_DELAY_NS

if TYPE_CHECKING:  # it takes numpy, which help and messages go without
    from weft.agents.collectives.algorithm import Algorithm
    from weft.agents.collectives.needs import Needs


def _algorithms(name: str, value: Any) -> tuple[str, ...]:
    names = tuple(read_texts(name, value))
    known = sorted({each for names in choices().values() for each in names})
    if not names:
        raise InputError(
            f"no {name} was named: choose from {', '.join(known)}, or leave the key out"
        )
    return names


def _known_algorithms() -> str:
    """List the algorithms of each collective: ``allgather: ring, linear; alltoall, many-to-one:
    direct``."""
    collectives: dict[tuple[str, ...], list[str]] = {}
    for collective, names in choices().items():
        if family_named(collective).lists_algorithms:
            collectives.setdefault(names, []).append(collective)
    return "; ".join(
        f"{', '.join(some)}: {', '.join(names)}" for names, some in collectives.items()
    )


def _of_families(words: str) -> str:
    """List what an attribute of kinds of work has, where it is not empty."""
    having = (each for each in families() if getattr(each, words))
    return "".join(f"; of {each.name} {getattr(each, words)}" for each in having)


def _known_faults() -> str:
    """Say how lines of links' faults are written, without those parts that may be left out."""
    lines = [re.sub(r"\[.*?\]", "", line) for line in emulated_lines()]
    loss, *others = (line for line in lines if not line.startswith("HOST"))
    return f"{loss}, like leaf0-spine1:loss=0.1, or {', '.join(others)}"


def _are_dtypes(names: str) -> bool:
    """Return whether a text says one type for each of the tensors of a resharding."""
    return all(name.strip() in (*DTYPES, *TENSOR_DTYPES) for name in names.split(";"))


OF_REDUCTIONS = "it is for reduce-scatter and allreduce"


@dataclass(frozen=True)
@with_own_options(algorithms="jobs", families="operations")
class Asked(QueuesAsked):
    """What is asked of a run, as it was asked: every field is an option of ``weft run`` and a key
    of a scenario file. `weft.experiments.scenario.scenario.Scenario` is the same with everything
    checked and filled in."""

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
        used=lambda asked: family_named(asked.collective).takes_sizes(asked.collective),
        who="there is one size: use size",
    )
    """In place of `size_bytes`: the bytes of each rank; if ranks are more, the list starts
    again."""
    dtype: str = option(
        "",
        TEXT,
        f"Type of the elements{_of_families('about_dtypes')}.",
        group=OPERATION,
        default_text=f"{DTYPE}; of reductions {REDUCED_DTYPE}{_of_families('usual_dtype')}",
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
        used=lambda asked: asked.reducing,
        who=OF_REDUCTIONS,
    )
    data: str = option(
        "exact",
        TEXT,
        f"Of sums of floats: {DATA[0]}, or as gradients are, {listed(DATA[1:], 'or')}; their "
        "errors are in the results.",
        group=OPERATION,
        choices=DATA,
        used=lambda asked: asked.reducing,
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
        default_text="the first two",
    )
    root: int = option(
        0,
        WHOLE,
        "Whose buffer a Broadcast brings to all.",
        group=OPERATION,
        metavar="RANK",
        used=lambda asked: asked.collective in ROOTED,
        who=f"it is for {' and '.join(ROOTED)}",
    )
    """The rank whose buffer all others get in a Broadcast, and which gets everything in
    many-to-one."""
    jobs: int = option(
        1,
        WHOLE,
        "Communicators that share the network.",
        group=OPERATION,
        between=(1, MAX_JOBS),
        used=lambda asked: not family_named(asked.collective).sends_flows,
        who="a workload has the network to itself",
    )
    """How many communicators of equal size share the network and do the same at the same time."""
    operations: int = option(
        1,
        WHOLE,
        "Operations of one run.",
        group=OPERATION,
        between=(1, 10_000),
        used=lambda asked: family_named(asked.collective).repeats,
        who="it has layers, or flows",
    )
    """How many operations a run has, on one communicator."""
    at_once: int = option(
        1,
        WHOLE,
        "How many of them run at the same time.",
        group=OPERATION,
        between=(1, MAX_AT_ONCE),
        used=lambda asked: family_named(asked.collective).repeats,
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
        default_text=DURATION.write(NOTICE_AFTER_NS),
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
        default_text="by its size",
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
    payload: str = option(
        "auto",
        TEXT,
        "Of the simulated world: data travel with all their bytes, or none; auto: all, if they "
        "take no more than a quarter of memory.",
        group=TESTBED,
        choices=("auto", "all", "none"),
    )
    """Whether data travel with all their bytes, or with none: then their lengths and places do, and
    results are verified by these."""
    keep: str = option(
        "all",
        TEXT,
        "Of the simulated world: all results until the end, or none: what comes of an Allgather or "
        "Broadcast is compared, and dropped.",
        group=TESTBED,
        choices=("all", "none"),
    )
    """Whether ranks keep results until the end of a run, or drop what has come once it was
    compared."""
    link_results: str = option(
        "auto",
        TEXT,
        "Rows of results for all directions of links, or a summary: of each kind the fullest, and "
        "the others together; auto: all, up to 30,000 rows.",
        group=TESTBED,
        choices=("auto", "all", "summary"),
    )
    """What results say of links: all directions of each, or the fullest of a kind and the others
    together."""
    cores: int = option(
        1,
        WHOLE,
        "Of the simulated world: a run is driven by so many threads, a part of the network each.",
        group=TESTBED,
        between=(1, 64),
    )
    """How many parts the simulated network is cut into, each of which a thread drives; what happens
    is the same for any number."""
    trace: str = option(
        "",
        TEXT,
        "Trace a switch's first packets, step by step.",
        group=TESTBED,
        metavar="SWITCH",
        default_text="none",
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
        return bool(family_named(self.collective).reduces(self.collective))

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
        """Yield the algorithms as objects, those of all of which it consists."""
        for name in self.algorithms:
            yield from family_named(self.collective).kinds(self.collective, name)

    @property
    def needs(self) -> "Needs":
        """Return what the algorithms need of the network."""
        from weft.agents.collectives.needs import Needs

        return Needs.of_all(each.needs(own_of(self, each.options)) for each in self.kinds())

    @property
    def is_own_network(self) -> bool:
        """Return whether the network is none of Weft's own shapes."""
        return bool(self.graph) or self.topology not in TOPOLOGIES

    def owners(self) -> Iterator[Any]:
        """Yield all that may have options of its own."""
        from weft.experiments.paths.registry import scheme_of

        yield from family_named(self.collective).owners(self)
        yield scheme_of(self.paths)
        if self.congestion is not None and self.congestion in CONTROLS:
            yield CONTROLS[self.congestion]
        if self.topology in NETWORKS:
            yield NETWORKS[self.topology]

    @property
    def program_values(self) -> int:
        """Return V: how many numbers of 32 bits the switches' program takes in an aggregation
        packet."""
        usual = AGGREGATION_VALUES if self.switch == "weft" else BMV2_AGGREGATION_VALUES
        return self.needs.values or usual

    @property
    def dedicated_servers(self) -> int:
        """Return how many hosts the network has more, for servers alone. Where ranks' hosts are
        named, and in a network that is none of Weft's own shapes, servers take other hosts."""
        if self.hosts or self.is_own_network:
            return 0
        return 0 if self.needs.on_ranks else self.needs.servers

    def uses(self, row: Option) -> bool:
        """Return whether anything of what is asked uses an option."""
        return row.used is None or row.used(self)


OPTIONS = rows_of(Asked)
"""All options by their names, each a field of `Asked`."""


def is_used(row: Option, collective: str) -> bool:
    """Return whether any algorithm of a collective, or a path scheme or a congestion control beside
    it, goes by an option."""
    fullest = family_named(collective).fullest
    besides: list[dict[str, Any]] = [{}]
    besides += [{"paths": name} for name, _ in SCHEMES.options()]
    besides += [{"congestion": name} for name, _ in CONTROLS.options()]
    return any(
        Asked(collective, algorithms=(algorithm,), **beside, **fullest).uses(row)
        for algorithm in choices()[collective]
        for beside in besides
    )
