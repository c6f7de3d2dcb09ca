"""A scenario: all that is asked of a run, with its defaults, checked before anything starts.

A scenario comes from the command line, from a TOML file with the same options, or from Python. It
is plain data that never changes; `Scenario.network` returns the network that it means.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from weft.base.errors import InputError, did_you_mean
from weft.base.option import own_of
from weft.experiments.scenario.asked import OPTIONS, Asked
from weft.experiments.scenario.family import Family, family_of
from weft.experiments.scenario.placement import Placement
from weft.experiments.scenario.resolve import resolve
from weft.experiments.scenario.shape import network_of, placement_of
from weft.topo.faults import Fault, LinkLoss
from weft.topo.interfaces import LinkKind
from weft.topo.network import Topology

if TYPE_CHECKING:  # it takes numpy, which help and messages go without
    from weft.agents.collectives.flow_graph import FlowGraph


def title_of(collective: str) -> str:
    """Return a collective's name in the form for titles: ``Reduce-Scatter``, ``FSDP
    interleaving``."""
    return family_of(collective).title(collective)


_FIELDS = {each.name: each for each in fields(Asked)}


def _check_field(name: str) -> None:
    """Raise InputError unless a scenario has a field of this name."""
    if name in _FIELDS:
        return
    row = OPTIONS.get(name.replace("_", "-"))
    instead = f" (option {row.name} is field {row.field!r})" if row else did_you_mean(name, _FIELDS)
    raise InputError(
        f"a scenario has no field {name!r}{instead}; its fields are those of "
        "weft.experiments.scenario.asked.Asked: see help(weft.Scenario)"
    )


@dataclass(frozen=True, init=False)
class Scenario(Asked):
    """What is to be run; it is made of what is asked, by the names of the fields of `Asked`.

    Raises:
        InputError: what is asked makes no sense.
    """

    def __init__(self, *args: Any, **asked: Any) -> None:
        for name in asked:
            _check_field(name)
        super().__init__(**vars(resolve(Asked(*args, **asked))))

    def network(self) -> Topology:
        """Return the network that the scenario asks for."""
        return network_of(self)

    @property
    def placement(self) -> Placement:
        """Return which hosts of the network are ranks, and which are servers."""
        return placement_of(self, self.network())

    @property
    def ranks(self) -> int:
        """Return how many ranks each job has."""
        return self.placement.ranks

    @property
    def family(self) -> Family:
        """Return what kind of work it is."""
        return family_of(self.collective)

    @property
    def own(self) -> Any:
        """Return what is asked of the options that its kind of work has of its own, an instance of
        `Family.options`."""
        return own_of(self, self.family.options)

    @property
    def shard_sizes(self) -> tuple[int, ...]:
        """Return the bytes that each rank contributes, in order of ranks."""
        return self.family.shard_sizes(self, self.ranks)

    def flow_graph(self, algorithm: str) -> "FlowGraph":
        """Return the flows that ranks send, if its kind of work is a graph of flows."""
        return self.family.graph(self, algorithm, self.ranks)

    @property
    def link_kind(self) -> LinkKind:
        """Return `links` in the form that the emulated world takes."""
        return "patch" if self.links == "patch" else "veth"

    @property
    def title(self) -> str:
        """Return the collective's name in the form for titles: ``Reduce-Scatter``."""
        return title_of(self.collective)

    @property
    def lossy(self) -> bool:
        """Return whether links lose packets at random."""
        return self.loss > 0 or bool(self.losses) or self._network_loses

    @property
    def _network_loses(self) -> bool:
        return self.is_own_network and any(link.loss for link in self.network().links)

    @property
    def losses(self) -> tuple[LinkLoss, ...]:
        """Return the links that have a probability of loss of their own."""
        return tuple(fault for fault in self.faults if isinstance(fault, LinkLoss))

    @property
    def injected(self) -> tuple[Fault, ...]:
        """Return the faults of single packets, links, switches and ranks."""
        return tuple(fault for fault in self.faults if not isinstance(fault, LinkLoss))

    @property
    def notice_delay_ns(self) -> int | None:
        """Return how long after a link went down, or came back, the controller knows it; None means
        never."""
        return {"never": None, "at-once": 0, "late": self.notice_after_ns}[self.notice]

    def each_seed(self) -> list["Scenario"]:
        """Return the scenario once for each of its seeds, each of which still names all seeds; if
        it has one seed, return itself."""
        return [replace(self, seed=seed) for seed in self.seeds] or [self]

    def part(self, collective: str, algorithm: str, **changes: Any) -> "Scenario":
        """Return the scenario of another collective on the same network; every option that this
        collective does not use has its default."""
        it = Asked(collective, algorithms=(algorithm,), paths=self.paths)
        defaults = {
            row.field: row.default
            for row in OPTIONS.values()
            if row.used is not None and not it.uses(row)
        }
        return replace(
            self, **{**defaults, "collective": collective, "algorithms": (algorithm,), **changes}
        )

    def runs(self) -> Iterator[tuple[str, int, str]]:
        """Return what is to be run, in order: the algorithm, the repetition, and a label for the
        run."""
        for algorithm in self.algorithms:
            for repetition in range(self.repeat):
                label = f"{self.title} by {algorithm}"
                if self.repeat > 1:
                    label += f", {repetition + 1} of {self.repeat}"
                yield algorithm, repetition, label

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, defaults included, as they stand in results.json."""
        return {
            name: [*value] if isinstance(value, tuple) else value
            for name, value in {
                **asdict(self), "faults": tuple(str(fault) for fault in self.faults)
            }.items()
        }  # fmt: skip
