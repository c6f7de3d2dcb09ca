"""Allreduce and Reduce-Scatter by switches that add: algorithm ``switch``.

Every rank sends its vector once and gets the sum once, block by block (SwitchML, NSDI 2021; here
through a tree of switches). Of a Reduce-Scatter a rank gets the sums of its own shard, to which it
adds its own part itself; of all other blocks it gets headers alone.

Error bound, floats. Let e be the smallest integer for which all of a block's values, on all ranks,
are below 2**e in magnitude, and L = ceil(log2 P). A value goes out as an integer of 30 - L bits and
sign, so each rank's is off by at most 2**(e + L - 31), and

    |result - exact sum| <= P * 2**(e + L - 31) + half a unit in the last place of the result.

An average is off by a P-th of the first term and that half unit. Results are the same on all ranks,
bit for bit, and from run to run. int32 is exact as long as no sum of some ranks' values leaves the
range; one that does stays at its end and is counted in `OperationReport.blocks_saturated`. Blocks
are V values that follow each other in the vector (of a Reduce-Scatter: in one shard).
"""

from collections.abc import Mapping

import numpy as np

from weft.agents.collectives.algorithm import Algorithm, Register
from weft.agents.collectives.algorithms.switch_model import (
    SwitchTraffic,
    switch_bound_bytes,
    switch_frames,
    switch_payload,
    switch_tier_bytes,
)
from weft.agents.collectives.algorithms.switch_options import (
    HEADER_BYTES,
    MAX_SLOTS,
    SwitchOptions,
)
from weft.agents.collectives.communicator import Communicator
from weft.agents.collectives.dtypes import is_float
from weft.agents.collectives.fixed_point import FixedPoint
from weft.agents.collectives.names import AGGREGATION_VALUES, SLOTS
from weft.agents.collectives.needs import Needs, Setting
from weft.agents.collectives.operation import Operation, OperationReport, Ticket
from weft.agents.collectives.places import TierBytes
from weft.agents.collectives.requests import Request
from weft.agents.collectives.task import Task
from weft.agents.collectives.transfers import IntArray
from weft.agents.collectives.unicast import Bytes
from weft.agents.datagrams import ipv4_text
from weft.agents.transport.aggregation import DataKind, Reduction
from weft.base.errors import InputError, refuse

_KINDS = {
    "float32": (DataKind.FLOAT32, "float32"),
    "float16": (DataKind.FLOAT16, "float16"),
    "bfloat16": (DataKind.BFLOAT16, "uint16"),
    "int32": (DataKind.INT32, "int32"),
}
"""The types that switches add, in fixed point of 32 bits: how packets name each, and numpy's type
of its bits."""


class SwitchOperation(Operation):
    """One rank's part of a reduction in switches; see the module.

    Args:
        data: the rank's vector, or its part of all ranks' results; only read.
        result: the sums, or those of this rank's shard.

    Raises:
        InputError: the communicator has no aggregation job.
    """

    def __init__(
        self, communicator: Communicator, request: Request, data: Bytes, result: Bytes
    ) -> None:
        name = f"{request.collective.title()} by {request.algorithm}"
        if communicator.aggregation is None:
            raise InputError(
                f"{name}: the communicator has no aggregation job; make it with one, or choose"
                " another algorithm"
            )
        super().__init__(communicator, request)
        self._request = request
        self._pair = communicator.aggregation
        self._data = data
        self._result = result
        self._reduction: Reduction | None = None

    def start(self, now_ns: int) -> None:
        """Post the reduction to the aggregation queue pair."""
        self._clock.enter("data", now_ns)
        request = self._request
        kind, dtype = _KINDS[request.dtype]
        scatters = request.collective == "reduce-scatter"
        shards = request.elements(self._communicator.size) if scatters else None
        self._reduction = self._pair.post_reduction(
            self._data.view(dtype), self._result.view(dtype), kind, request.number,
            shards=shards, average=request.op == "average",
            context=Ticket(request.number, "switches to add"),
        )  # fmt: skip

    def completed(self, ticket: Ticket, now_ns: int) -> None:
        """Take note that the reduction is complete."""
        self._clock.enter("done", now_ns)

    def waits_on(self) -> set[int]:
        """Return the neighbours in the ring: all ranks must contribute, and each is asked by
        two."""
        if self.done:
            return set()
        return {self._communicator.next, self._communicator.previous} - {self._communicator.rank}

    def waiting_for(self) -> str:
        """Return how many results of the switches are outstanding."""
        if self._reduction is None:
            return "nothing"
        return (
            f"{self._reduction.remaining} of {self._reduction.rounds} results of the switches of"
            f" aggregation job {ipv4_text(self._pair.address)}"
        )

    def close(self) -> None:
        """Stop the aggregation queue pair if the reduction is not complete."""
        if not self.done:
            self._pair.stop("an operation was given up")

    def report(self, now_ns: int) -> OperationReport:
        """Return the report with the number of blocks that saturated, and what blocks lost to fixed
        point."""
        report = super().report(now_ns)
        reduction = self._reduction
        if reduction is not None:
            report.blocks_saturated = reduction.saturated_blocks
            report.fixed_point = FixedPoint.of_reduction(reduction)
            if self._communicator.size > 1 and reduction.rounds:
                come = reduction.rounds - reduction.remaining
                report.received_bytes = len(self._result) * come // reduction.rounds
        return report


class Adding(Algorithm):
    """Whatever switches add some of."""

    adds = True
    options = SwitchOptions

    def needs(self, own: SwitchOptions) -> Needs:
        return Needs(slots=own.slots or 0, values=own.values or 0)

    def check_setting(self, own: SwitchOptions, setting: Setting) -> None:
        slots, values = own.slots or SLOTS, own.values or AGGREGATION_VALUES
        refuse(slots & slots - 1, f"slots {slots} is no power of 2: choose one, like 64")
        refuse(
            slots * setting.jobs > MAX_SLOTS,
            f"slots {slots} for each of {setting.jobs} jobs: a switch has "
            f"{MAX_SLOTS} in all; lower slots or jobs",
        )
        refuse(
            4 * values + HEADER_BYTES > setting.path_mtu,
            f"values {values} make {4 * values + HEADER_BYTES} bytes of payload, more "
            f"than the path MTU {setting.path_mtu}: lower values, or raise mtu",
        )


class SwitchAlgorithm(Adding):
    """The switches add what the ranks send."""

    name = "switch"
    collectives = ("reduce-scatter", "allreduce")
    position: Mapping[str, int] = {"reduce-scatter": 3, "allreduce": 1}
    interleaved_as = "in-network"
    colours = ("#0072b2", "#5aaae6")
    saturates = True
    in_turn = True

    def why_not(self, op: str, dtype: str) -> str:
        if op not in ("sum", "average"):
            return f"switches add, and this is {op}"
        known = ", ".join(_KINDS)
        return "" if dtype in _KINDS else f"switches add {known}, and this is {dtype}"

    def check(self, request: Request) -> None:
        if request.dtype not in _KINDS:
            raise InputError(
                f"dtype {request.dtype!r} by {request.algorithm}: switches add "
                f"{', '.join(_KINDS)}; choose one of these, or other algorithms"
            )
        refuse(
            request.op not in ("sum", "average"),
            f"op {request.op!r} by {request.algorithm}: switches add; choose sum or average, or "
            "other algorithms",
        )

    def operation(
        self, communicator: Communicator, request: Request, data: Bytes, result: Bytes | None,
        register: Register,
    ) -> Operation:  # fmt: skip
        assert result is not None
        return SwitchOperation(communicator, request, data, result)

    def host_bytes(self, task: Task) -> IntArray:
        traffic, ranks = self._traffic(task), range(task.ranks)
        return np.array([[way([rank]) for rank in ranks] for way in (traffic.up, traffic.down)])

    def least_bytes(self, task: Task) -> int:
        fullest = switch_bound_bytes(task.members, task.ranks, self._traffic(task))
        return task.operations * fullest

    def tier_bytes(self, task: Task) -> TierBytes:
        each = switch_tier_bytes(task.members, task.ranks, self._traffic(task))
        return each.times(task.operations)

    def _traffic(self, task: Task) -> SwitchTraffic:
        shards, own = task.shards.tolist(), self.own(task)
        if not task.counts_headers:
            return switch_payload(task.collective, shards)
        return switch_frames(
            task.collective,
            shards,
            values=own.values or AGGREGATION_VALUES,
            slots=own.slots or 0,
            item_bytes=task.item_bytes,
            floats=is_float(task.dtype),
        )


ALGORITHMS = (SwitchAlgorithm(),)
