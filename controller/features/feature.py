"""What a P4 feature is: something that every switch does, with its planner and its counters."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from weft.controller.counters import LinkCells, LinkCounters
from weft.controller.entities import Entity
from weft.controller.program_names import ProgramNames
from weft.topo.faults import LinkLoss
from weft.topo.network import Topology
from weft.topo.reach import Reach


@dataclass(frozen=True)
class Demand:
    """What a run asks of its fabric. Each feature finds what is wanted of it (`Feature.wanted`)."""

    jobs: Sequence[Sequence[str]]
    """Names of the hosts of each communicator's ranks, in the order of the ranks."""
    groups: int
    """How many multicast groups each of them gets."""
    group_members: Sequence[Sequence[str]]
    """Names of the hosts of more multicast groups, behind those."""
    slots: int
    """How many rounds of each the switches add at a time; 0: they add nothing."""
    epoch: int
    """It differs for every operation on the same network."""
    plan_routes: "Callable[[Planning], Mapping[str, Sequence[Entity]]]"
    """Returns the route entries of every switch, by its name."""
    pins: Sequence[Any]
    """Flows whose paths are chosen, each a `weft.controller.features.pinned_paths.Pin`."""
    ecn_threshold_packets: int
    """From how many waiting packets on switches mark; 0: they do not."""
    loss: float
    """Probability that a direction of a link loses a packet, where `losses` say nothing else."""
    losses: Sequence[LinkLoss]
    priorities: Sequence[int] = ()
    """Those of the jobs' packets, from the start again at the end; empty: by DSCP."""
    ack_priority: int | None = None
    """That of acknowledgements; None: as other packets."""


@dataclass(frozen=True)
class Planning:
    """All that planners are told."""

    names: ProgramNames
    """The names and sizes of the program that the switches run."""
    topology: Topology
    seed: int = 1
    """Seeds all random choices of planners."""
    without: Collection[str] = ()
    """Names of links that have failed and so carry no traffic."""
    wants: Mapping[str, Any] = field(default_factory=dict)
    """What is wanted of each feature, by the feature's name. Each feature says which type that has,
    and does what is most usual where nothing is said."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options of the scenario, by the names of their fields; empty where there is no scenario,
    as in benchmarks."""

    @cached_property
    def reach(self) -> Reach:
        """The paths over the links that have not failed. Raises InputError for a link that does not
        exist."""
        return Reach(self.topology, self.without)


@dataclass(frozen=True)
class Planned:
    """What a planner makes."""

    entities: Mapping[str, Sequence[Entity]] = field(default_factory=dict)
    """What every switch holds for the feature, by the switch's name."""
    provides: Any = None
    """What others may want to know of the feature, such as addresses; None if there is nothing."""


class Feature:
    """Something that every switch of a fabric does: how it is planned, and what is counted.

    Another package brings an instance by an entry point in the group ``weft.p4_features``. Its
    include becomes a part of the fabric's program: table ``t`` of a control that is applied at
    ingress as feature ``x`` is ``FabricIngress.x.t`` there, and `ProgramNames.name` finds it by
    ``x.t``, and not by ``t`` alone.
    """

    name: str
    """The feature's name, an identifier of P4."""
    include: Path
    """For a feature of another package: a P4_16 file that defines the controls; it may use what
    p4/include/headers.p4 defines. Weft's own features stand in p4/fabric.p4."""
    ingress = ""
    """A control of ``include`` with the parameters (inout headers_t, inout metadata_t, inout
    standard_metadata_t), applied to packets that are forwarded, before their path is looked up."""
    egress = ""
    """The same, applied to packets that leave, before they are counted."""
    counters: tuple[str, ...] = ()
    """Short names of counters by port that are read at every port of a switch. A feature of another
    package puts its own name before them, as in ``x.marked``."""
    host_counters: tuple[str, ...] = ()
    """Short names of counters by port that are read where a port leads to a host."""

    def wanted(self, demand: Demand, topology: Topology) -> object:
        """Return what a run's demand asks of it, as `Planning.wants` has it; None: nothing."""

    def plan(self, planning: Planning) -> Planned:
        """Return what every switch holds for the feature. Raises InputError for what cannot be
        done."""
        return Planned()

    def share(self, cells: LinkCells) -> LinkCounters:
        """Return what the feature's counters add to the figures of a link's direction."""
        return LinkCounters()
