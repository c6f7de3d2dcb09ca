"""What a kind of work is: one object says all that the rest of Weft asks of it.

Help and messages ask it, too: so the module that has it imports no numpy, and its methods import
what they need.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from weft.agents.collectives.names import MAX_SIZE_BYTES
from weft.base.option import whole
from weft.base.registry import NoOptions
from weft.base.units import format_size
from weft.experiments.scenario.choices import choose
from weft.experiments.scenario.families import choices, family_named
from weft.experiments.scenario.part import Part, Run

if TYPE_CHECKING:
    from weft.agents.collectives.algorithm import Algorithm
    from weft.agents.collectives.flow_graph import FlowGraph
    from weft.agents.collectives.places import TierBytes
    from weft.agents.ranks import OperationConfig, RankReport
    from weft.controller.flows import Flows
    from weft.experiments.scenario.asked import Asked
    from weft.topo.network import Topology

T = TypeVar("T")
A = TypeVar("A", bound="Asked")
Scenario: TypeAlias = Any
"""A `weft.experiments.scenario.scenario.Scenario`, which is made with what is in this module."""

Metric: TypeAlias = Any
"""A `weft.experiments.results.metric.Metric`."""
ResultsKind: TypeAlias = Any
"""A `weft.experiments.results.kind.ResultsKind`."""
Chart: TypeAlias = Any
"""A `weft.experiments.plots.gantt.Chart`."""


class Family:
    """A kind of work that a network can be given: collectives, a training step, flows.

    A subclass gives `algorithms`, `shard_sizes`, `operation`, `check_memory`, `bound_ns`, `steps`
    and `tier_bytes`, or takes them from `weft.experiments.families.collectives.family.Collectives`
    or from `weft.experiments.families.graphs.FlowFamily`. Everything else has defaults. One without
    `algorithms` is named by no scenario and has a command of its own. Weft's own are folders of
    `weft.experiments.families`; another package brings an instance by an entry point in the group
    ``weft.families``.
    """

    name: str
    position: int | None = None
    """Its place among all in lists; those without one are last."""
    options: type[Any] = NoOptions
    """Options of its own: a frozen dataclass whose fields are made by `option` of
    `weft.base.option`, as those of `Asked` are. `own` has what is asked of them."""
    lists_algorithms = True
    """Whether help lists its algorithms; otherwise options of its own say them."""
    fullest: Mapping[str, Any] = {}
    """Fields of `Asked` with which it uses as many options as it can."""
    sends_flows = False
    """Whether what ranks do is a graph of flows (`graph`), which has the network to itself."""
    has_places = False
    """Whether these flows have places in memory, and multicast groups of their own."""
    on_cores = False
    """Whether several cores may drive its runs in virtual time."""
    repeats = True
    """Whether a scenario says how many operations a run has."""
    fills_links = False
    """Whether its time is decided by how full hosts' links are, so that the headers of packets
    always count in its bound, and results say how full they were."""
    types_itself = False
    """Whether `resolve` checks the type of elements."""
    more_dtypes: tuple[str, ...] = ()
    """More types of elements, beside those of all."""
    about_dtypes = ""
    """What help says of these, behind ``of NAME``."""
    usual_dtype = ""
    """The type where none is asked for, if it is not that of all others."""
    meets_at_hosts = False
    """Whether all ranks send to all others at the same time."""
    sums_apart = False
    """Whether multicasts beside sums go by trees with another root than theirs."""

    about_workloads = ""
    """What help of ``weft paths`` says of flows that can be asked for there, beside collectives."""
    workload_options: Mapping[str, str | tuple[str, str]] = {}
    """What help says there of options of its own, by their names with underscores."""
    adds: tuple[type[Part], ...] = ()
    """What parts results of it may have, beside those of all work."""

    def algorithms(self) -> Mapping[str, tuple[str, ...]]:
        """Return by each collective, as scenarios name it, what it can be done by."""
        raise NotImplementedError

    def title(self, collective: str) -> str:
        """Return a collective's name in the form for titles: ``Reduce-Scatter``."""
        return collective.title()

    def described(self, scenario: Mapping[str, Any]) -> str:
        """Return what was run, like ``Allgather of 1 MiB a rank``, from a scenario's document."""
        title = self.title(str(scenario["collective"]))
        return f"{title} of {format_size(int(scenario['size_bytes']))}"

    def parts(self, collective: str, algorithm: str) -> tuple[tuple[str, str], ...]:
        """Return (collective, algorithm) for each kind of operation that a scenario consists of."""
        return ((collective, algorithm),)

    def kinds(self, collective: str, algorithm: str) -> "tuple[Algorithm, ...]":
        """Return the algorithms, as objects, that do a collective by a name."""
        from weft.agents.collectives.registry import algorithm_of

        return tuple(algorithm_of(*part) for part in self.parts(collective, algorithm))

    def operation_name(self, collective: str, place: int) -> tuple[str, int]:
        """Return the collective of the operation at a place in a run, and its number among
        those."""
        return collective, place

    def colours(self) -> Mapping[str, tuple[str, str]]:
        """Return the colours of what its algorithms are made of, on white and on dark, as far as
        nobody else has them."""
        return {}

    def reduces(self, collective: str) -> bool:
        """Return whether elements are summed."""
        return False

    def payload_reader(self, asked: "Asked") -> str:
        """Return who needs the bytes of data beside those who compare them, as it is said behind
        their name; empty if nobody does, so that they need not travel."""
        rounded = self.reduces(asked.collective) and asked.data != "exact"
        return f"measures how far sums of {asked.data} data are off" if rounded else ""

    def takes_sizes(self, collective: str) -> bool:
        """Return whether ranks' sizes may differ."""
        return False

    def meets(self, collective: str) -> bool:
        """Return whether flows meet by their nature, so that they react to marks whatever their
        paths are."""
        return False

    def uses(self, asked: "Asked", option: str) -> bool:
        """Return whether it goes by one of its own options, given by its field."""
        return True

    def having_options(self) -> Iterator[Any]:
        """Yield all that may be a part of such work and have options of their own, beside
        algorithms."""
        yield from ()

    def owners(self, asked: "Asked") -> Iterator[Any]:
        """Yield what is asked for of such parts that may have options of their own."""
        yield from asked.kinds()

    def read(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return what options say, by fields, with what follows from their being there."""
        return values

    def located(self, options: Mapping[str, Any], places: Sequence[Path]) -> Mapping[str, Any]:
        """Return options in which a file that they name is given in the first place that holds
        it. Raises `InputError` for a file that cannot be looked for."""
        return options

    def workloads(self) -> Sequence[str]:
        """Return what ``weft paths`` can be asked for, beside collectives; ``FILE.cm`` stands for
        all files of that ending."""
        return ()

    def asked_for(self, workload: str) -> Mapping[str, Any] | None:
        """Return the options, by fields, that ask for one of these; None if it is none."""
        return None

    def check_names(self, asked: "Asked") -> None:
        """Raise `InputError` for unknown names in options of its own, whatever is asked for."""

    def with_algorithms(self, asked: "Asked") -> Sequence[str]:
        """Return the algorithms that are asked for, or those that are run by default. Raises
        `InputError`."""
        return asked.algorithms or choices()[asked.collective][:2]

    def check_algorithm(self, collective: str, algorithm: str) -> None:
        """Raise `InputError` for an algorithm that there is not."""
        choose(f"{collective} algorithm", algorithm, choices()[collective])

    def resolve(self, asked: "Asked", ranks: int) -> "Asked":
        """Return what is asked of so many ranks, checked and with defaults filled in. Raises
        `InputError`."""
        return asked

    def check_sizes(self, asked: "Asked") -> None:
        """Raise `InputError` for sizes that there cannot be."""
        for size in asked.sizes_bytes or (asked.size_bytes,):
            whole("size", size, 0, MAX_SIZE_BYTES)

    def files(self, asked: "Asked") -> Sequence[Path]:
        """Return the files whose contents decide what is run."""
        return ()

    def notes(self, asked: "Asked", algorithm: str, ranks: int) -> Sequence[str]:
        """Return what somebody who runs it should know."""
        return ()

    def shard_sizes(self, asked: "Asked", ranks: int) -> tuple[int, ...]:
        """Return how many bytes each of so many ranks contributes."""
        raise NotImplementedError

    def graph(self, asked: "Asked", algorithm: str, ranks: int) -> "FlowGraph":
        """Return the flows between so many ranks, if it `sends_flows`. Raises `InputError`."""
        raise NotImplementedError

    def operation(self, scenario: Scenario, algorithm: str, seed: int) -> "OperationConfig":
        """Return what ranks are asked to do in a run. ``seed`` is that of its data."""
        raise NotImplementedError

    def check_memory(self, scenario: Scenario, available_bytes: int | None) -> int:
        """Return how many bytes of memory a run takes, roughly. Raises `MachineError` for more than
        there are; None means that this is not known."""
        raise NotImplementedError

    def result(
        self, scenario: Scenario, algorithm: str, reports: "Sequence[RankReport]"
    ) -> Iterator[Part]:
        """Yield what it adds to the result of a run, of the types that it `adds`."""
        yield from ()

    def metrics(self) -> Sequence[Metric]:
        """Return the metrics that are read from what it adds."""
        return ()

    def documents(self) -> Sequence[ResultsKind]:
        """Return the kinds of results documents that a command of its own writes."""
        return ()

    def chart(self, run: Run) -> Chart | None:
        """Return when what was under way in a run, or None where there is nothing to draw."""
        return None

    def is_settled(self, scenario: Scenario) -> bool:
        """Return whether all is known that a scenario asks for, and nothing must be run to know it
        (`settled`). Raises `InputError` for what makes no sense."""
        return True

    def settled(self, scenario: Scenario) -> Scenario:
        """Return a scenario of which all is known that it asks for. Raises `InputError` or
        `RunError`."""
        return scenario

    def compared(
        self, run: Run, scenario: Scenario, took_ns: Callable[[str], int] | None = None
    ) -> Run:
        """Return a run with what its time is compared with, and with the verdict ``invalid`` where
        that contradicts it.

        Args:
            took_ns: runs another algorithm on the same machine and returns how long it takes; by
                default it is simulated.

        Raises:
            RunError: what it is compared with did not come to its end.
        """
        return run

    def bound_ns(self, scenario: Scenario, algorithm: str, *, frames: bool) -> int:
        """Return the least time that hosts' links need, as
        `weft.experiments.theory.bounds.completion_bound_ns` has it."""
        raise NotImplementedError

    def steps(self, scenario: Scenario, algorithm: str) -> "list[Flows]":
        """Return the flows between ranks, step by step; the list is empty if it does not consist of
        unicast flows."""
        raise NotImplementedError

    def tier_bytes(
        self, network: "Topology", scenario: Scenario, algorithm: str, *, frames: bool
    ) -> "Iterator[TierBytes]":
        """Yield the bytes of each job on links of each tier of a Clos."""
        raise NotImplementedError


def with_own(asked: A, own: Any, **more: Any) -> A:
    """Return what is asked with other values of the options of a kind of work's own, and with more
    fields of all."""
    return replace(asked, **vars(own), **more)


def family_of(collective: str) -> Family:
    """Return the kind of work of a collective."""
    found: Family = family_named(collective)
    return found
