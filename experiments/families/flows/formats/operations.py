"""What becomes of the operations of a GOAL schedule, whether it is text or binary.

``calc`` keeps one processor of its rank busy: those of one ``cpu`` are carried out one at a time.
``send`` is a flow to the rank that has a ``recv`` with the same tag; 0 bytes count as 1. A send of
up to `EAGER_BYTES` is done as soon as it has begun, as LogGOPSim has it; a longer one when all of
it is acknowledged. Hosts have one network card: ``nic`` is not heeded, and a note says so. A
``recv`` from any rank or with any tag is refused, since what it takes would depend on when
messages come, and a run is decided beforehand. The size of a ``recv`` means nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.agents.collectives.flow_graph import MAX_TASKS
from weft.base.errors import InputError, refuse
from weft.experiments.families.flows.file_format import FileFlows
from weft.experiments.families.flows.traces import Computation, Node, Receive, Send, Traces

ANY = -1
"""Any rank, any tag."""
EAGER_BYTES = 65535
"""LogGOPSim's default of S."""
MAX_NS = 1 << 50
MAX_BYTES = 1 << 40
MAX_CPUS = 256


@dataclass(frozen=True)
class Operation:
    """An operation of a rank."""

    number: int
    where: str
    kind: str
    """``calc``, ``send`` or ``recv``."""
    amount: int
    """Nanoseconds, or bytes."""
    peer: int
    tag: int
    cpu: int
    nic: int
    before: list[int] = field(default_factory=list)
    """The operations that must be done before it begins, by their numbers."""
    begun: list[int] = field(default_factory=list)
    """The operations that must have begun before it begins."""

    def error(self, what: str) -> InputError:
        return InputError(f"{self.where}: {self.kind}: {what}")


Schedule = dict[int, list[Operation]]
"""The operations of every rank, in order."""


def flows_of(schedule: Schedule, name: str) -> FileFlows:
    """Return the flows of a schedule.

    Raises:
        InputError: an operation makes no sense, or never begins; the message names it.
    """
    every = [each for operations in schedule.values() for each in operations]
    if len(every) > MAX_TASKS:
        raise InputError(f"{name} has {len(every)} operations: at most {MAX_TASKS} are run")
    cpus = sorted({each.cpu for each in every if each.kind == "calc"})
    pools = {cpu: place for place, cpu in enumerate(cpus)}
    ranks = [
        {each.number: _node(rank, len(schedule), each, pools) for each in operations}
        for rank, operations in schedule.items()
    ]
    builder = Traces(ranks, "").build(len(pools))
    if not builder.flows:
        raise InputError(f"{name}: nothing is sent")
    try:
        graph = builder.build()
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    cards = [each for each in every if each.nic]
    notes = (
        (f"{cards[0].where}: nic {cards[0].nic} is not heeded: a host has one network card",)
        if cards
        else ()
    )
    return FileFlows(graph, notes)


def _node(rank: int, ranks: int, operation: Operation, pools: Mapping[int, int]) -> Node:
    most = MAX_NS if operation.kind == "calc" else MAX_BYTES
    refuse(operation.amount > most, f"{operation.amount} is out of range: at most {most}",
           operation.error)  # fmt: skip
    refuse(operation.cpu >= MAX_CPUS, f"cpu {operation.cpu}: 0 to {MAX_CPUS - 1}", operation.error)
    work: Computation | Send | Receive
    if operation.kind == "calc":
        work = Computation(operation.amount, pools[operation.cpu])
    else:
        if ANY in (operation.peer, operation.tag):
            raise operation.error(
                "it takes any message: which one depends on when they come, and flows are "
                "decided before a run; name the rank and the tag"
            )
        refuse(operation.peer >= ranks, f"ranks are 0 to {ranks - 1}", operation.error)
        refuse(operation.peer == rank, "a message goes to another rank", operation.error)
        work = (
            Send(
                operation.peer, max(1, operation.amount), operation.tag,
                operation.amount > EAGER_BYTES,
            )
            if operation.kind == "send"
            else Receive(operation.peer, operation.tag)
        )  # fmt: skip
    return Node(
        rank, operation.number, f"{operation.where}: {operation.kind}", work,
        tuple(operation.before), tuple(operation.begun),
    )  # fmt: skip
