"""What is asked of a workload of flows, and what one of another package is: its own code makes
flows that wait for each other."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.base.registry import NoOptions, Registry

if TYPE_CHECKING:  # help and messages go without numpy
    from weft.agents.collectives.flow_graph import FlowGraph

REAL_RATE_BPS = 400_000_000_000
"""The rate of the links that models' sizes, and those of files with a slowdown, are scaled from."""


@dataclass(frozen=True)
class WorkloadOptions:
    """What is asked of a workload."""

    workload: str
    """A file, one of `weft.experiments.families.flows.gpt.MODELS`, or a workload of another
    package."""
    algorithm: str
    """The algorithm of the collectives in it, one of
    `weft.agents.collectives.names.flow_algorithms`."""
    ranks: int
    rate_bps: int
    slowdown: float | None = None
    """How many times as long everything takes as on links of `REAL_RATE_BPS`; None means that a
    file's sizes and times are taken as they are."""
    layers: int | None = None
    tensor: int = 1
    micro_batches: int = 1
    size_bytes: int = 0
    """The size of a file's collective, for forms that do not say."""
    own: tuple[tuple[str, Any], ...] = ()
    """What is asked of options of the workload's own, by the names of their fields."""


class Workload:
    """A source of flows, for ``weft run flows --workload NAME`` and ``weft paths NAME``.

    A package names an instance of a subclass by an entry point in the group ``weft.workloads``.
    """

    name: str
    about = ""
    """What help says of it beside its name, in a few words."""
    collectives = False
    """Whether there are collectives in it, so that somebody who runs it chooses their algorithm
    (`WorkloadOptions.algorithm`)."""
    options: type[Any] = NoOptions
    """Options of its own, as those of `weft.agents.collectives.algorithm.Algorithm`."""

    def graph(self, options: WorkloadOptions, own: Any) -> "FlowGraph":
        """Return the flows between ``options.ranks`` ranks, as
        `weft.agents.collectives.flow_graph.GraphBuilder` makes them; ``own`` is what is asked of
        the options of its own, an instance of `options`. Raises InputError for what makes no
        sense."""
        raise NotImplementedError


WORKLOADS: Registry[Workload] = Registry(
    "weft.workloads", needs=("graph", "options", "about", "collectives")
)
"""The workloads of other packages, each a `Workload`."""
