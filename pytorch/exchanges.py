"""The operations of a process group that consist of messages, on tensors."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import torch

from weft.agents.collectives.mailbox import Bytes
from weft.pytorch import tensors as memory_of
from weft.pytorch.arguments import one_dtype
from weft.pytorch.calls import call_of
from weft.pytorch.errors import refuse
from weft.pytorch.operations import Operations
from weft.pytorch.reductions import reduction_of
from weft.pytorch.tensors import Staged, size_bytes
from weft.pytorch.work import Countdown, WeftWork


class Exchanges:
    """The operations of a process group that consist of messages."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._rank = operations.rank
        self._size = operations.size

    def send(self, tensor: torch.Tensor, destination: int, tag: int) -> WeftWork:
        """Send a tensor to a rank. It is copied, as far as there is room, so that it belongs to the
        caller at once."""
        operations = self._operations
        work = operations.begin("send", [tensor], [], between=f"{self._rank}->{destination}")
        work.size_bytes = size = size_bytes(tensor)
        keeps = operations.shared.buffer(size)
        plain = memory_of.is_plain(tensor) and not keeps
        memory = memory_of.bytes_of(tensor) if plain else _copied(tensor)

        def done(error: str, _source: int) -> None:
            if keeps:
                operations.shared.unbuffer(size)
                operations.note(work, error)
            else:
                operations.end(work, error)

        work.missing = lambda: f"rank {destination} of the group has not received it"
        operations.lanes.own.network.send(destination, tag, memory, done)
        if keeps:
            work.end()
        return work

    def receive(self, what: str, tensor: torch.Tensor, source: int | None, tag: int) -> WeftWork:
        """Receive a tensor from a rank, or from any; the work knows from which."""
        operations = self._operations
        sender = "any" if source is None else source
        work = operations.begin(what, [], [tensor], between=f"{self._rank}<-{sender}")
        work.size_bytes = size_bytes(tensor)
        staged = Staged(operations.shared.pool, [tensor])

        def ended(error: str, source: int) -> None:
            if not error:
                staged.write()
            operations.end(work, error, source)

        def done(error: str, source: int) -> None:
            operations.later(lambda: ended(error, source), work.size_bytes)

        network = operations.lanes.own.network
        work.withdraw = network.receive(source, tag, staged.memory, done)
        sender = "any rank" if source is None else f"rank {source}"
        work.missing = lambda: f"nothing has come from {sender} of the group"
        return work

    def exchange(
        self,
        what: str,
        comes: dict[int, torch.Tensor],
        goes: dict[int, torch.Tensor],
        result: Sequence[torch.Tensor],
        opts: Any,
        root: int | None = None,
    ) -> WeftWork:
        """Do a collective by messages: what goes to each rank and comes from it. Both ends know
        the sizes, and empty messages are none. Ranks compare all but the sizes, which differ."""
        operations, tensors = self._operations, [*goes.values(), *comes.values()]
        one_dtype(what, tensors)
        to_itself = goes.keys() & comes.keys() & {self._rank}
        for own in to_itself:
            given, taken = size_bytes(goes[own]), size_bytes(comes[own])
            refuse(
                given != taken, f"{what}: rank {own} gives itself {given} bytes and takes {taken}"
            )
        work = operations.begin(what, list(goes.values()), result, opts)
        work.size_bytes = sum(map(size_bytes, goes.values()))
        copies = [(comes.pop(own), _copied(goes.pop(own))) for own in to_itself]
        text = call_of(what, tensors, counts=False, root=root)
        sent = {peer: each for peer, each in goes.items() if each.numel()}
        received = {peer: each for peer, each in comes.items() if each.numel()}

        def finish(error: str) -> None:
            for tensor, memory in copies if not error else ():
                memory_of.write(tensor, memory)
            operations.end(work, error)

        waits = Countdown(
            len(sent) + len(received) + 1,
            lambda error: operations.later(lambda: finish(error), sum(map(size_bytes, tensors))),
        )

        lane = operations.lanes.current
        tag, network = lane.next_tag(text), lane.network
        operations.in_order(work, network, lambda: network.agree(text, waits.one))
        # All is read before anything is written.
        sending = [(peer, _copied(tensor)) for peer, tensor in sent.items()]
        for peer, tensor in received.items():
            plain = memory_of.is_plain(tensor)
            memory = memory_of.bytes_of(tensor) if plain else _empty(size_bytes(tensor))
            if not plain:
                copies.append((tensor, memory))
            network.receive(peer, tag, memory, waits.one)
        for peer, memory in sending:
            network.send(peer, tag, memory, waits.one)
        return work

    def reduce(self, tensor: torch.Tensor, root: int, opts: Any) -> WeftWork:
        """Reduce by a Reduce-Scatter, whose parts go to the root by messages."""
        operations, what, is_root = self._operations, "reduce", self._rank == root
        reduction = reduction_of(what, tensor.dtype, opts)
        work = operations.begin(what, [tensor], [tensor], opts)
        work.size_bytes = total = size_bytes(tensor)
        lane = operations.lanes.current
        work.algorithm = lane.choices.algorithm(
            "reduce-scatter", total, reduction.dtype, reduction.op
        )
        text = call_of(what, [tensor], op=reduction.op, root=root, algorithm=work.algorithm)
        tag, network = lane.next_tag(text), lane.network
        changes = reduction.factor is not None
        if operations.is_trivial(work, network, text, bool(total), changes):
            return work
        buffer = _copied(tensor)
        reduction.premultiply(buffer)
        given = memory_of.typed(buffer, reduction.dtype)
        each, more = divmod(given.size, self._size)
        counts = tuple(each + (rank < more) for rank in range(self._size))
        ends = [end * given.itemsize for end in accumulate(counts, initial=0)]
        own = _empty(counts[self._rank] * given.itemsize)
        gathered = _empty(total) if is_root else buffer

        def finish(error: str) -> None:
            if not error and is_root:
                memory_of.write(tensor, gathered)
            operations.end(work, error)

        waits = Countdown(
            self._size if is_root else 2,
            lambda error: operations.later(lambda: finish(error), total),
        )

        def reduced(error: str, _source: int) -> None:
            if not error and is_root:
                gathered[ends[root] : ends[root + 1]] = own
            elif not error:
                network.send(root, tag, own, waits.one)
            waits.one(error)

        request = operations.request(
            "reduce-scatter", work.algorithm, counts if more else each, opts, reduction
        )
        typed = memory_of.typed(own, reduction.dtype)
        operations.in_order(
            work, network, lambda: network.collective(text, request, given, typed, reduced)
        )
        for other in range(self._size) if is_root else ():
            if other != root:
                network.receive(other, tag, gathered[ends[other] : ends[other + 1]], waits.one)
        return work


def _empty(size: int) -> Bytes:
    return np.empty(size, np.uint8)


def _copied(tensor: torch.Tensor) -> Bytes:
    """Return a copy of a tensor's elements, one behind the other."""
    memory = _empty(size_bytes(tensor))
    memory_of.read(tensor, memory)
    return memory
