"""The collectives of a process group that there are algorithms for, on tensors."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import torch

from weft.agents.collectives.mailbox import Bytes
from weft.agents.collectives.requests import Request
from weft.agents.collectives.unicast import combine
from weft.pytorch import tensors as memory_of
from weft.pytorch.arguments import equal_parts, one_dtype, same_number
from weft.pytorch.calls import call_of, call_of_flows
from weft.pytorch.errors import BadCallError, refuse
from weft.pytorch.operations import Operations
from weft.pytorch.reductions import Reduction, reduction_of
from weft.pytorch.tensors import Staged, size_bytes
from weft.pytorch.work import WeftWork

Tensors = Sequence[torch.Tensor]
BARRIER_BYTES = 1
MESSAGES = "messages"
"""What the record calls the way of small collectives."""


class Collectives:
    """The collectives of a process group that there are algorithms for."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._rank = operations.rank
        self._size = operations.size

    def barrier(self, opts: Any) -> WeftWork:
        """Wait for all ranks."""
        operations, what = self._operations, "barrier"
        work, group = operations.begin(what, [], [], opts), operations.lanes.current.network
        if operations.is_trivial(work, group, what, True):
            return work
        work.algorithm = MESSAGES
        own = np.zeros(BARRIER_BYTES, np.uint8)
        operations.gather(work, group, what, own, opts, lambda gathered: None)
        return work

    def broadcast(self, tensor: torch.Tensor, root: int, opts: Any) -> WeftWork:
        """Give all ranks the root's tensor."""
        return self._carry_out(
            "broadcast", "broadcast", opts, [tensor], [tensor], [size_bytes(tensor)], root=root,
            changes_one=False,
        )  # fmt: skip

    def allreduce(self, what: str, tensors: Tensors, opts: Any, algorithm: str = "") -> WeftWork:
        """Reduce tensors of all ranks; all get the results."""
        reduction = reduction_of(what, one_dtype(what, tensors), opts)
        return self._carry_out(
            "allreduce", what, opts, tensors, tensors, [sum(map(size_bytes, tensors))],
            reduction=reduction, algorithm=algorithm, changes_one=reduction.factor is not None,
        )  # fmt: skip

    def allgather(
        self,
        what: str,
        outputs: Sequence[Tensors],
        inputs: Tensors,
        result: Tensors,
        opts: Any,
        algorithm: str = "",
        then: Callable[[], None] = lambda: None,
    ) -> WeftWork:
        """Give all ranks several tensors of each.

        Args:
            outputs: those of each rank.
            result: what the work ends with.
            algorithm: by which it is done; by default that for its size.
            then: what is left to do when all is in the outputs.
        """
        for output, tensor in zip(outputs[self._rank], inputs, strict=True):
            if output.numel() != tensor.numel():
                raise BadCallError(
                    f"{what}: the output for rank {self._rank}, this one, has {output.numel()} "
                    f"elements and the input {tensor.numel()}"
                )
        for each in outputs:
            for output, tensor in zip(each, inputs, strict=True):
                one_dtype(what, [output, tensor])
        sizes = [sum(map(size_bytes, each)) for each in outputs]
        return self._carry_out(
            "allgather", what, opts, inputs, [*chain.from_iterable(outputs)], sizes, result=result,
            algorithm=algorithm, then=then,
        )  # fmt: skip

    def gather_single(self, what: str, outputs: Tensors, inputs: Tensors, opts: Any) -> WeftWork:
        """Give all ranks the tensors of all; each output has those of one input, one behind the
        other, and the input may be its part of this rank."""
        same_number(what, outputs, inputs)
        for output, tensor in zip(outputs, inputs, strict=True):
            one_dtype(what, [output, tensor])
            if size_bytes(output) != self._size * size_bytes(tensor):
                raise BadCallError(
                    f"{what}: an output of {output.numel()} elements of {output.dtype} for inputs "
                    f"of {tensor.numel()} of {tensor.dtype} on {self._size} ranks"
                )
        if len(outputs) == 1:
            sizes = [size_bytes(inputs[0])] * self._size
            return self._carry_out("allgather", what, opts, inputs, outputs, sizes, named=inputs)
        # Outputs of any strides are put together of parts that are not.
        wholes = [
            each
            if memory_of.is_plain(each)
            else torch.empty_like(each, memory_format=torch.contiguous_format)
            for each in outputs
        ]

        def copy() -> None:
            for output, whole in zip(outputs, wholes, strict=True):
                if output is not whole:
                    output.detach().copy_(whole)

        by_rank = self._by_rank(wholes)
        return self.allgather(what, by_rank, inputs, outputs, opts, then=copy)

    def reduce_scatter(
        self, what: str, outputs: Tensors, inputs: Sequence[Tensors], opts: Any
    ) -> WeftWork:
        """Reduce several tensors for each rank, which gets its own; `inputs` has those for each."""
        sizes = [sum(map(size_bytes, each)) for each in inputs]
        return self._scatter(what, outputs, [*chain.from_iterable(inputs)], sizes, opts)

    def _scatter(
        self, what: str, outputs: Tensors, inputs: Tensors, sizes: Sequence[int], opts: Any
    ) -> WeftWork:
        reduction = reduction_of(what, one_dtype(what, [*inputs, *outputs]), opts)
        own = sum(map(size_bytes, outputs))
        refuse(
            own != sizes[self._rank],
            f"{what}: the input for rank {self._rank}, this one, has {sizes[self._rank]} bytes "
            f"and the output {own}",
        )
        return self._carry_out(
            "reduce-scatter", what, opts, inputs, outputs, sizes, reduction=reduction
        )

    def scatter_single(self, what: str, outputs: Tensors, inputs: Tensors, opts: Any) -> WeftWork:
        """Reduce tensors that have a part for each rank, which gets its own."""
        same_number(what, outputs, inputs)
        for output, tensor in zip(outputs, inputs, strict=True):
            if tensor.numel() != self._size * output.numel():
                raise BadCallError(
                    f"{what}: an input of {tensor.numel()} elements for outputs of "
                    f"{output.numel()} on {self._size} ranks"
                )
        if len(inputs) == 1:
            return self._scatter(what, outputs, inputs, [size_bytes(outputs[0])] * self._size, opts)
        by_rank = self._by_rank([tensor.contiguous() for tensor in inputs])
        return self.reduce_scatter(what, outputs, by_rank, opts)

    def _by_rank(self, tensors: Tensors) -> list[Tensors]:
        """Return the parts of contiguous tensors for each rank, as views."""
        return [*zip(*(equal_parts(each, self._size) for each in tensors), strict=True)]

    def flows(self, what: str, request: Request, data: Bytes, result: Bytes) -> WeftWork:
        """Carry out flows of all ranks, `weft.agents.collectives.flow_graph`.

        Args:
            request: of the collective flows.
            data, result: this rank's buffer and output.
        """
        assert request.flows is not None
        operations = self._operations
        group = operations.lanes.of_flows(what, tuple(map(tuple, request.flows.groups)))
        work = operations.begin(what, [], [])
        work.algorithm, work.size_bytes = request.algorithm, len(data)
        asked = replace(
            request,
            pace_bps=operations.shared.settings.pace_bps,
            timeout_ns=int(operations.timeout.total_seconds() * 1e9),
        )
        operations.start(work, group, call_of_flows(what, request), asked, data, result)
        return work

    def _carry_out(
        self,
        collective: str,
        what: str,
        opts: Any,
        inputs: Tensors,
        outputs: Tensors,
        sizes: Sequence[int],
        *,
        result: Tensors | None = None,
        named: Tensors | None = None,
        reduction: Reduction | None = None,
        root: int | None = None,
        algorithm: str = "",
        changes_one: bool = True,
        then: Callable[[], None] = lambda: None,
    ) -> WeftWork:
        """Carry out a collective.

        Args:
            collective: as `Request` has it.
            what: what the program called.
            inputs, outputs: the elements that are given, and where those of the result go. Without
                a reduction, the first are a part of the second.
            sizes: the bytes of each rank's part, or of the only one.
            result: what the work ends with; by default the outputs.
            named: whose elements all ranks name alike; by default all that are moved.
            reduction: how elements become one, if they do.
            algorithm: by which it is done; by default that for its size.
            changes_one: whether the result differs from what is given in a group of one rank.
            then: what is left to do when the result is in the outputs.
        """
        operations, total = self._operations, sum(sizes)
        work = operations.begin(what, inputs, result or outputs, opts)
        work.size_bytes = sum(map(size_bytes, inputs))
        lane = operations.lanes.current
        dtype, op = (reduction.dtype, reduction.op) if reduction else ("uint8", "")
        small = not algorithm and lane.choices.goes_by_messages(
            collective, sizes, self._size, lane.network.most_gathered
        )
        chosen = algorithm or lane.choices.algorithm(collective, total, dtype, op or "sum")
        work.algorithm = MESSAGES if small else chosen
        named = named or (inputs if reduction else outputs)
        text = call_of(what, named, op=op, root=root, algorithm=work.algorithm)
        if operations.is_trivial(work, lane.network, text, bool(total), changes_one):
            return work
        pool = operations.shared.pool
        if reduction:
            stays = inputs is not outputs and reduction.factor is None
            given = Staged(pool, inputs, direct=stays)
            given.read(inputs)
            reduction.premultiply(given.memory)
            found = Staged(pool, outputs, apart=given)
        else:
            given = found = Staged(pool, outputs)
            before = 0 if len(sizes) == 1 else sum(sizes[: self._rank])
            given.read(inputs, before)

        def finish() -> None:
            if found is not given:
                given.give_back()
            found.write()
            then()
            found.give_back()

        if self._size == 1:
            if found is not given:
                found.memory[:] = given.memory
            finish()
            operations.end(work)
            return work
        buffer = memory_of.typed(given.memory, dtype)
        output = memory_of.typed(found.memory, dtype) if found is not given else None
        counts = [size // buffer.itemsize for size in sizes]
        equal = len(set(counts)) == 1
        request = operations.request(
            collective, chosen, counts[0] if equal else tuple(counts), opts, reduction,
            root or 0,
        )  # fmt: skip
        if small:
            own = given.memory if reduction else given.memory[before : before + sizes[self._rank]]

            def put_together(gathered: Bytes) -> None:
                if reduction:
                    combine_all(request, gathered, found.memory)
                else:
                    found.memory[:] = gathered.reshape(-1)
                finish()

            operations.gather(work, lane.network, text, own, opts, put_together)
            return work
        operations.start(work, lane.network, text, request, buffer, output, finish)
        return work


def combine_all(request: Request, vectors: Bytes, out: Bytes) -> None:
    """Reduce the vectors of all ranks, uint8[P, m], in order of ranks into `out`, uint8[m]."""
    size, before = len(vectors), vectors[0]
    for count, vector in enumerate(vectors[1:], 2):
        combine(request, before, vector, out, ranks=size if count == size else 0)
        before = out
