"""What a collective algorithm is: one object says all that the rest of Weft asks of it.

An algorithm of unicast writes gives its pattern, which ranks run, and its messages by rounds, which
theory counts. The two are written apart from each other, so that tests can hold one to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Union

from weft.agents.collectives.communicator import Communicator
from weft.agents.collectives.operation import Operation
from weft.agents.collectives.requests import Request
from weft.agents.collectives.transfers import Task, Transfers, fullest_link_bytes, payload
from weft.agents.collectives.unicast import Bytes, Pattern, UnicastOperation
from weft.agents.transport.types import MemoryRegion
from weft.base.errors import InputError

Order = Union[int, "tuple[Order, ...]"]
"""In which order ranks' elements are added: a rank, or orders that are summed up one after the
other. ((0, 1), 2) is (x0 + x1) + x2."""

Register = Callable[[Bytes], MemoryRegion]
"""Gives the memory region of an array of bytes."""


class Algorithm:
    """An algorithm of one or several collectives.

    A subclass gives `pattern` and `rounds`, or its own `operation`; all else has defaults. Another
    package brings an instance by an entry point in the group ``weft.algorithms``.
    """

    name: str
    collectives: tuple[str, ...]
    """Those of `weft.agents.collectives.names.COLLECTIVES` that it does."""
    colours: tuple[str, str] = ("#6a51a3", "#ab95dd")
    """In plots and pages, on white and on dark."""
    heeds: frozenset[str] = frozenset({"block"})
    """Options of a scenario that go by the algorithm."""
    multicasts = False
    """Whether ranks multicast data: it needs groups of the switches."""
    adds = False
    """Whether switches add, in fixed point."""
    serves = False
    """Whether it needs reduction servers, which add half types in float32."""
    in_rounds = False
    """Whether each round has another partner. Rounds that mix on a rank's link come apart between
    the ranks, until several partners fill one's queue: so less is under way."""

    @property
    def unicast(self) -> bool:
        """Whether it consists of unicast flows between ranks, so that it has `rounds`."""
        return not (self.multicasts or self.adds or self.serves)

    # -- on ranks

    def check(self, request: Request) -> None:
        """Raise `InputError` for a request that the algorithm cannot do."""

    def operation(
        self,
        communicator: Communicator,
        request: Request,
        data: Bytes,
        result: Bytes | None,
        register: Register,
    ) -> Operation:
        """What carries a request out on this rank.

        Args:
            data, result: buffer and output as bytes; no output where the collective works in place.

        Raises:
            InputError: the communicator has not what it needs.
        """
        rank, size, path_mtu = communicator.rank, communicator.size, communicator.endpoint.path_mtu
        pattern = self.pattern(request, rank, size, path_mtu, data, result)
        return UnicastOperation(communicator, request, pattern, register, in_rounds=self.in_rounds)

    def pattern(
        self,
        request: Request,
        rank: int,
        size: int,
        path_mtu: int,
        data: Bytes,
        result: Bytes | None,
    ) -> Pattern:
        """Which blocks a rank writes to whom."""
        raise NotImplementedError

    def partners(self, request: Request, rank: int, size: int) -> set[int]:
        """The ranks that `rank` writes to or is written to by, beside its neighbours in the ring,
        with which every rank has a queue pair."""
        return set()

    # -- in theory

    def rounds(self, task: Task) -> Iterator[Transfers]:
        """All messages of one operation, in rounds, as the literature has them; rounds that are all
        alike to a link may be one. Sizes are what `Task.sizing` makes of what is cut together."""
        raise InputError(f"{task.collective} by {self.name!r} has no traffic model: it is not "
                         "unicast")  # fmt: skip

    def steps(self, task: Task) -> Iterator[Transfers]:
        """The messages step by step: in a step a rank sends what came in the steps before. Those of
        one source are in the order in which it sends them."""
        return self.rounds(replace(task, sizing=payload))

    def least_bytes(self, task: Task) -> int:
        """The least completion time in bytes that one link could carry meanwhile, of several
        operations as of one of so many times the bytes: what the fullest link carries."""
        return task.operations * fullest_link_bytes(task.ranks, self.rounds(task))

    # -- sums

    def sum_order(self, request: Request, size: int, place: int) -> Order:
        """In which order elements of the `place`-th span (`sum_spans`) are added.

        This is a model, written apart from the code that adds. Adding two numbers is commutative,
        so it says nothing of which of them was there first.
        """
        return tuple(range(size))

    def sum_spans(self, request: Request, size: int) -> Sequence[int]:
        """Where the spans of a vector end within which all elements are added alike."""
        return [sum(request.elements(size))]
