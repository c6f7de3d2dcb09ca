"""What a collective algorithm is: one object says all that the rest of Weft asks of it.

An algorithm of unicast writes gives its pattern, which ranks run, and its messages by rounds, which
theory counts. The two are written apart from each other, so that tests can hold one to the other.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Union

from weft.agents.collectives.communicator import Communicator
from weft.agents.collectives.needs import Needs, Setting
from weft.agents.collectives.operation import Operation
from weft.agents.collectives.overheads import write_frames
from weft.agents.collectives.places import TierBytes
from weft.agents.collectives.requests import Request
from weft.agents.collectives.task import Task
from weft.agents.collectives.transfers import IntArray, Sizing, Transfers, link_bytes, payload
from weft.agents.collectives.unicast import Bytes, Pattern
from weft.agents.collectives.unicast_operation import operation_of
from weft.agents.collectives.unicast_options import UnicastOptions
from weft.agents.transport.types import MemoryRegion
from weft.base.errors import InputError
from weft.base.option import check_own

Order = Union[int, "tuple[Order, ...]"]
"""The order in which ranks' elements are added: a rank, or a tuple of orders whose sums are added
one after the other. ((0, 1), 2) means (x0 + x1) + x2."""

Register = Callable[[Bytes], MemoryRegion]
"""Gives the memory region of an array of bytes."""


class Algorithm:
    """An algorithm says how one or several collectives are carried out and what they cost.

    A subclass gives `patterns` (or `pattern`) and `rounds`. One that is no unicast flows between
    ranks gives its own `operation`, `host_bytes` (or `least_bytes`) and `tier_bytes` instead.
    Everything else has defaults. Another package brings an instance by an entry point in the
    group ``weft.algorithms``.
    """

    name: str
    collectives: tuple[str, ...]
    """Which of `weft.agents.collectives.names.COLLECTIVES` it does."""
    position: Mapping[str, int] = {}
    """By collective, its place among the algorithms in lists; those without one are last. A
    scenario that names no algorithms runs the first two. ``flows``: its place among those that can
    do the collectives in a workload of flows, which are all unicast ones of Allreduce."""
    baseline = False
    """Whether other algorithms are compared with this one if nothing else is said."""
    counterparts: Mapping[str, str] = {}
    """By collective, the algorithm that does it in a workload of flows whose Allreduces this one
    does; by default this one if it can, else the collective's first that is unicast."""
    interleaved_as = ""
    """The algorithm of FSDP interleaving in which this one does the Allgathers, or the
    Reduce-Scatters, or both; its place among these is that of ``fsdp-interleave``."""
    patterns: Mapping[str, Callable[..., Pattern]]
    """By collective, what makes the pattern of a rank; its arguments are those of `pattern`."""
    label = ""
    """What plots and pages call it, if not by its name."""
    colours: tuple[str, str] = ("#6a51a3", "#ab95dd")
    """Its colours in plots and pages, on white and on dark."""
    options: type[Any] = UnicastOptions
    """Options of its own: a frozen dataclass whose fields are made by `option` of
    `weft.base.option`, as those of a scenario are. `own` has what is asked of them. What others of
    Weft's algorithms have may be among them: then it goes by these, too. One of unicast is a
    subclass of `UnicastOptions`."""
    multicasts = False
    """Whether ranks multicast data, so that the algorithm needs multicast groups of the
    switches."""
    adds = False
    """Whether switches add, in fixed point."""
    serves = False
    """Whether the algorithm needs reduction servers, which add half types in float32."""
    saturates = False
    """Whether sums of integers stay at their ends, where others wrap around."""
    all_at_once = False
    """Whether every rank sends to all others at once, so that each begins with another one."""
    in_turn = False
    """Whether operations of one kind that run at once have the links one after the other."""
    buffers = 1
    """The memory that its data takes on the machine, in times of what every rank's buffers take:
    more where others than ranks hold it, too."""
    in_rounds = False
    """Whether a rank has another partner in each round. Where rounds mix on a rank's link, the
    ranks get out of step until several partners fill one rank's queue, so less is kept under
    way."""

    def own(self, asked: Request | Task) -> Any:
        """Return what is asked of its own options, as an instance of `options`. Raises `InputError`
        for what there is not, or cannot be."""
        try:
            own = self.options(**dict(asked.own))
        except TypeError as error:
            raise InputError(f"options of {self.name}: {error}") from None
        check_own(own)
        return own

    def needs(self, own: Any) -> Needs:
        """Return what the algorithm needs of a network with these options of its own."""
        return Needs()

    @property
    def unicast(self) -> bool:
        """Return whether the algorithm consists of unicast flows between ranks, so that it has
        `rounds`."""
        return not (self.multicasts or self.adds or self.serves)

    # -- on ranks

    def why_not(self, op: str, dtype: str) -> str:
        """Return why the algorithm cannot reduce elements of a type by an op; empty if it can."""
        return ""

    def check(self, request: Request) -> None:
        """Raise `InputError` for a request that the algorithm cannot do.

        A scenario is asked before anything of it starts; ranks ask for each operation.
        """

    def check_setting(self, own: Any, setting: Setting) -> None:
        """Raise `InputError` for options of its own that make no sense with what an operation has
        around it. A scenario is asked before anything of it starts."""

    def warm_ups(self, request: Request) -> Iterator[Request]:
        """Yield the requests, made of one of two ranks, that together run all its compiled code."""
        yield request

    def operation(
        self,
        communicator: Communicator,
        request: Request,
        data: Bytes,
        result: Bytes | None,
        register: Register,
    ) -> Operation:
        """Return what carries a request out on this rank.

        Args:
            data, result: buffer and output as bytes; no output where the collective works in place.

        Raises:
            InputError: the communicator lacks something that the algorithm needs.
        """
        self.own(request)
        rank, size, path_mtu = communicator.rank, communicator.size, communicator.endpoint.path_mtu
        pattern = self.pattern(request, rank, size, path_mtu, data, result)
        pattern.sums = communicator.endpoint.sums
        return operation_of(communicator, request, pattern, register, in_rounds=self.in_rounds)

    def pattern(
        self,
        request: Request,
        rank: int,
        size: int,
        path_mtu: int,
        data: Bytes,
        result: Bytes | None,
    ) -> Pattern:
        """Return which blocks a rank writes to whom."""
        return self.patterns[request.collective](request, rank, size, path_mtu, data, result)

    def partners(self, request: Request, rank: int, size: int) -> set[int]:
        """Return the ranks that `rank` writes to or is written to by. Its neighbours in the ring
        may be left out: every rank has queue pairs with those."""
        return set()

    # -- in theory

    def rounds(self, task: Task) -> Iterator[Transfers]:
        """Yield all messages of one operation, in rounds, as the literature has them; rounds that
        are all alike to a link may be one. `Task.sizing` gives the size of what is cut into packets
        together."""
        raise InputError(f"{task.collective} by {self.name!r} has no traffic model: it is not "
                         "unicast")  # fmt: skip

    def steps(self, task: Task) -> Iterator[Transfers]:
        """Yield the messages step by step: in a step a rank sends what came in the steps before.
        The messages of one source are in the order in which it sends them."""
        return self.rounds(replace(task, sizing=payload))

    def counted_steps(self, task: Task) -> Iterator[tuple[Transfers, int]]:
        """Yield the steps of `steps`, each with how many like it follow each other, where the
        algorithm knows that."""
        return ((step, 1) for step in self.steps(task))

    def frames(self, task: Task) -> Sizing:
        """Return the `Sizing` of the frames in which data goes over links."""
        return write_frames(task.packet_bytes)

    def host_bytes(self, task: Task) -> IntArray:
        """Return what the link of every rank carries up and down in one operation, int64 [2, P]."""
        return link_bytes(task.ranks, self.rounds(task))

    def least_bytes(self, task: Task) -> int:
        """Return the least completion time, in bytes that one link could carry meanwhile: what the
        fullest link carries. Several operations count as one of so many times the bytes."""
        return task.operations * int(self.host_bytes(task).max())

    def tier_bytes(self, task: Task) -> TierBytes:
        """Return what all links of each tier carry in all operations."""
        return task.members.unicast_bytes(self.rounds(task)).times(task.operations)

    exchanges: Mapping[str, int] = {}
    """By collective, how many times every rank sends every other one a part of its own, where that
    is all that happens: so many flows that theory may count them without telling them apart."""

    # -- sums

    def sum_order(self, request: Request, size: int, place: int) -> Order:
        """Return in which order elements of the `place`-th span (`sum_spans`) are added.

        This is a model, written apart from the code that adds. Adding two numbers is commutative,
        so it says nothing of which of them was there first.
        """
        return tuple(range(size))

    def sum_spans(self, request: Request, size: int) -> Sequence[int]:
        """Return where the spans of a vector end within which all elements are added alike."""
        return [sum(request.elements(size))]
