"""The process group: torch.distributed's collectives over the network of P4 switches.

It is a subclass of `torch.distributed.ProcessGroup` (torch 2.13), registered as backend ``weft``
for tensors on the CPU by `register`. The names that torch 2.14 calls beside those of 2.13 are here,
too; they are untested.

Each call returns at once with a `Work`. Packets move in a thread of the process that does not hold
Python's lock meanwhile (`weft.agents.drivers.background`); what ends is told by threads of a small
pool. Callbacks of futures run in others (`weft.pytorch.callbacks`).
"""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar
from zlib import crc32

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from weft.agents.collectives.mailbox import Bytes
from weft.agents.collectives.requests import Request
from weft.base.errors import InputError, RunError
from weft.pytorch import tensors as memory_of
from weft.pytorch.callbacks import Callbacks, in_callback
from weft.pytorch.calls import call_of, call_of_flows
from weft.pytorch.choices import Choices
from weft.pytorch.errors import BadCallError, refuse
from weft.pytorch.groups import Group
from weft.pytorch.meeting import Meeting
from weft.pytorch.messages import Settings
from weft.pytorch.session import Session, session
from weft.pytorch.short_forms import short_form
from weft.pytorch.timeline import Operation, Timeline
from weft.pytorch.work import Countdown, WeftWork

NAME = "weft"
Given = TypeVar("Given")
MOST_TAG = (1 << 31) - 1
BARRIER_BYTES = 1


@dataclass
class _Lane:
    """A communicator of a group's ranks, with its own order of collectives."""

    network: Group
    choices: Choices
    messages: int = 0
    """How many collectives have been done by messages."""


_OPS: dict[Any, str] = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "average",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.PRODUCT: "product",
    dist.ReduceOp.BAND: "bitwise-and",
    dist.ReduceOp.BOR: "bitwise-or",
    dist.ReduceOp.BXOR: "bitwise-xor",
}


class WeftProcessGroup(dist.ProcessGroup):
    """A group of ranks whose collectives go over the fabric.

    Args:
        store: of the group, by which its ranks find each other.
        rank, size: of this process in the group.
        timeout: of operations that are not told another.
        name: of the group.
        shared: what the groups of this process share.

    Raises:
        RunError: a rank of the group has ended, or did not come in time.
    """

    supports_coalescing = False
    supports_splitting = False
    supports_time_estimate = False
    bound_device_id: Any = None
    """The device that torch was told the group is bound to; it makes no difference on the CPU."""

    def __init__(
        self, store: Any, rank: int, size: int, timeout: timedelta, name: str, shared: Session
    ) -> None:
        super().__init__(rank, size)
        self._shared = shared
        self._rank = rank
        self._size = size
        self._timeout = timeout
        self._store = store
        self._name = name
        self._torch_name = ""
        self._gathered: list[WeftWork] | None = None
        """What has been called since `start_coalescing`."""
        self._callbacks = Callbacks(shared.callback_threads)
        self._meeting = Meeting(store, rank, size, name, timeout.total_seconds(), shared.network)
        self._own_lane = self._new_lane("weft")
        self._lane_of_callbacks: _Lane | None = None
        """By which collectives go that callbacks begin; it is made for the first of them."""
        self._lane_lock = threading.Lock()
        # The store of a group that is gone may yet be asked by ranks that are slower.
        shared.stores.append(store)
        self._of_flows: dict[tuple[tuple[int, ...], ...], Group] = {}
        """Communicators that carry flows, by the ranks of their multicast groups."""
        self.fused_calls = threading.Lock()
        """Held while a fused operator is called: one at a time."""
        shared.timeline.begin()

    @property
    def settings(self) -> Settings:
        """Return what is known of this process and its link."""
        return self._shared.settings

    @property
    def network(self) -> Group:
        """Return the group as the network has it."""
        return self._own_lane.network

    @property
    def timeline(self) -> Timeline:
        """Return the record of this process."""
        return self._shared.timeline

    @property
    def timeout_s(self) -> float:
        """Return the timeout of operations that are not told another."""
        return self._timeout.total_seconds()

    # -- what torch asks of a group

    def getBackendName(self) -> str:
        """Return the backend's name."""
        return NAME

    def name(self) -> str:
        """Return the backend's name."""
        return NAME

    @property
    def group_name(self) -> str:
        """Return the name by which torch knows the group."""
        return self._torch_name or str(distributed_c10d._world.pg_names[self])

    pg_name = group_name

    @property
    def group_desc(self) -> str:
        """Return what the group is for, as torch was told."""
        return getattr(self, "_description", "undefined")

    def _set_group_desc(self, description: str) -> None:
        self._description = description

    def _set_group_name(self, name: str) -> None:
        self._torch_name = name

    def _get_backend(self, device: Any) -> "WeftProcessGroup":
        return self

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def size(self) -> int:
        """Return the number of ranks."""
        return self._size

    def rank(self) -> int:
        """Return this process's rank in the group."""
        return self._rank

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the timeout of operations that are not told another."""
        self._timeout = timeout

    _set_default_timeout = set_timeout

    def shutdown(self) -> None:
        """Leave the group. Its trees leave the switches when all of its ranks have left."""
        lanes = [lane for lane in (self._own_lane, self._lane_of_callbacks) if lane is not None]
        for group in (*(lane.network for lane in lanes), *self._of_flows.values()):
            self._shared.network.drop_group(group)

    abort = shutdown

    # -- collectives

    @short_form(dist.BroadcastOptions, "root", tensors=1)
    def broadcast(self, tensors: Sequence[torch.Tensor], opts: Any = None) -> WeftWork:
        """Give all ranks the root's tensor."""
        tensor = _only("broadcast", tensors)
        root = self._root("broadcast", opts)
        size = memory_of.size_bytes(tensor)
        algorithm = self._choices.algorithm("broadcast", size)
        work, begun = self._begin("broadcast", tensors, tensors, opts)
        call = call_of("broadcast", tensors, root=root, algorithm=algorithm)
        if self._is_trivial(call, work, begun, algorithm, size):
            return work
        buffer, scratch = self._usable(tensor, reads=True)

        def finish() -> None:
            if scratch:
                memory_of.write(tensor, buffer)
                self._shared.pool.give(buffer)

        request = self._request("broadcast", algorithm, size, opts, root=root)
        self._collective(call, request, buffer, None, work, begun, size, finish)
        return work

    @short_form(dist.AllreduceOptions, "op", tensors=1)
    def allreduce(self, tensors: Sequence[torch.Tensor], opts: Any = None) -> WeftWork:
        """Reduce a tensor of all ranks; all get the result."""
        return self._allreduce("allreduce", tensors, opts)

    def allreduce_coalesced(self, tensors: Sequence[torch.Tensor], opts: Any = None) -> WeftWork:
        """Reduce several tensors together."""
        return self._allreduce("allreduce_coalesced", tensors, opts)

    @short_form(distributed_c10d.AllgatherOptions, tensors=2)
    def allgather(
        self,
        output_tensors: Sequence[Sequence[torch.Tensor]],
        input_tensors: Sequence[torch.Tensor],
        opts: Any = None,
    ) -> WeftWork:
        """Give all ranks the tensors of all, which may differ in size."""
        outputs, tensor = _only("allgather", output_tensors), _only("allgather", input_tensors)
        refuse(
            len(outputs) != self._size,
            f"allgather: {len(outputs)} outputs for {self._size} ranks",
        )
        return self._allgather("allgather", [[each] for each in outputs], [tensor], outputs, opts)

    def allgather_coalesced(
        self,
        output_lists: Sequence[Sequence[torch.Tensor]],
        input_list: Sequence[torch.Tensor],
        opts: Any = None,
    ) -> WeftWork:
        """Give all ranks several tensors of all; each list of outputs is a rank's, like the
        inputs."""
        what = "allgather_coalesced"
        refuse(
            len(output_lists) != self._size,
            f"{what}: {len(output_lists)} lists of outputs for {self._size} ranks",
        )
        for rank, each in enumerate(output_lists):
            refuse(
                len(each) != len(input_list),
                f"{what}: the list of outputs for rank {rank} has {len(each)} tensors, and "
                f"{len(input_list)} are given; each rank's list is like the inputs",
            )
        flat = [each for one in output_lists for each in one]
        work = self._allgather(what, output_lists, input_list, flat, opts)
        if self._size > 1:  # as Gloo's has it
            work.ends_with([list(each) for each in output_lists])
        return work

    def all_gather_single(
        self, output: torch.Tensor, input: torch.Tensor, opts: Any = None
    ) -> WeftWork:
        """Give all ranks the tensors of all, one behind the other in one tensor."""
        return self._gather_single("all_gather_single", [output], [input], opts)

    def all_gather_single_coalesced(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> WeftWork:
        """Do several `all_gather_single` together."""
        return self._gather_single("all_gather_single_coalesced", outputs, inputs, opts)

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced

    @short_form(dist.ReduceScatterOptions, "op", tensors=2)
    def reduce_scatter(
        self,
        output_tensors: Sequence[torch.Tensor],
        input_tensors: Sequence[Sequence[torch.Tensor]],
        opts: Any = None,
    ) -> WeftWork:
        """Reduce a list of tensors, one for each rank; each gets its own. They may differ in
        size."""
        what = "reduce_scatter"
        output, inputs = _only(what, output_tensors), _only(what, input_tensors)
        refuse(
            len(inputs) != self._size,
            f"{what}: {len(inputs)} inputs for {self._size} ranks",
        )
        return self._reduce_scatter(what, [output], [[each] for each in inputs], opts)

    def reduce_scatter_single(
        self, output: torch.Tensor, input: torch.Tensor, opts: Any = None
    ) -> WeftWork:
        """Reduce a tensor that has a part for each rank; each gets its own."""
        return self._scatter_single("reduce_scatter_single", [output], [input], opts)

    def reduce_scatter_single_coalesced(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> WeftWork:
        """Do several `reduce_scatter_single` together."""
        return self._scatter_single("reduce_scatter_single_coalesced", outputs, inputs, opts)

    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    @short_form(dist.AllToAllOptions, tensors=4, lists=False)
    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_split_sizes: Sequence[int] = (),
        input_split_sizes: Sequence[int] = (),
        opts: Any = None,
    ) -> WeftWork:
        """Give each rank a part of the tensor, and get its part for this one. Without sizes all
        parts are equal."""
        what = "all_to_all_single"
        comes = _split(f"{what}: the output", output, output_split_sizes, self._size)
        goes = _split(f"{what}: the input", input, input_split_sizes, self._size)
        return self._exchange(what, dict(enumerate(comes)), dict(enumerate(goes)), [output], opts)

    alltoall_base = all_to_all_single

    def alltoall(
        self,
        output_tensors: Sequence[torch.Tensor],
        input_tensors: Sequence[torch.Tensor],
        opts: Any = None,
    ) -> WeftWork:
        """Give each rank a tensor of a list, and get one from each; they may differ in size."""
        for which, given in (("outputs", output_tensors), ("inputs", input_tensors)):
            refuse(
                len(given) != self._size, f"alltoall: {len(given)} {which} for {self._size} ranks"
            )
        return self._exchange(
            "alltoall", dict(enumerate(output_tensors)), dict(enumerate(input_tensors)),
            output_tensors, opts,
        )  # fmt: skip

    @short_form(dist.GatherOptions, "root", tensors=2)
    def gather(
        self,
        output_tensors: Sequence[Sequence[torch.Tensor]],
        input_tensors: Sequence[torch.Tensor],
        opts: Any = None,
    ) -> WeftWork:
        """Give the root the tensors of all ranks."""
        tensor = _only("gather", input_tensors)
        root = self._root("gather", opts)
        outputs = _only("gather", output_tensors) if self._rank == root else []
        refuse(
            self._rank == root and len(outputs) != self._size,
            f"gather: {len(outputs)} outputs for {self._size} ranks",
        )
        return self._exchange(
            "gather", dict(enumerate(outputs)), {root: tensor}, list(outputs), opts, root
        )

    def gather_single(
        self, output: torch.Tensor, input: torch.Tensor, opts: Any = None
    ) -> WeftWork:
        """Give the root the tensors of all ranks, one behind the other in one tensor."""
        parts = _parts(output, self._size) if self._rank == int(opts.rootRank) else []
        return self.gather([parts], [input], opts)

    @short_form(dist.ScatterOptions, "root", tensors=2)
    def scatter(
        self,
        output_tensors: Sequence[torch.Tensor],
        input_tensors: Sequence[Sequence[torch.Tensor]],
        opts: Any = None,
    ) -> WeftWork:
        """Give each rank a tensor of the root's."""
        output = _only("scatter", output_tensors)
        root = self._root("scatter", opts)
        inputs = _only("scatter", input_tensors) if self._rank == root else []
        refuse(
            self._rank == root and len(inputs) != self._size,
            f"scatter: {len(inputs)} inputs for {self._size} ranks",
        )
        return self._exchange(
            "scatter", {root: output}, dict(enumerate(inputs)), [output], opts, root
        )

    @short_form(dist.ReduceOptions, "root", "op", tensors=1)
    def reduce(self, tensors: Sequence[torch.Tensor], opts: Any = None) -> WeftWork:
        """Reduce a tensor of all ranks; the root gets the result."""
        return self._reduce(tensors, opts)

    @short_form(dist.BarrierOptions, tensors=0)
    def barrier(self, opts: Any = None) -> WeftWork:
        """Wait for all ranks."""
        work, begun = self._begin("barrier", [], [], opts)
        if self._is_trivial("barrier", work, begun, "", BARRIER_BYTES):
            return work
        buffer = np.zeros(self._size * BARRIER_BYTES, np.uint8)
        request = self._request("allgather", "recursive-doubling", BARRIER_BYTES, opts)
        self._collective("barrier", request, buffer, None, work, begun, 0, lambda: None)
        return work

    def monitored_barrier(
        self, timeout: timedelta | None = None, wait_all_ranks: bool = False
    ) -> None:
        """Wait for all ranks, for so long at most."""
        self.barrier().wait(timeout)

    def start_coalescing(self, device: Any = None) -> None:
        """Gather what is called from now on into one work; it begins at once all the same."""
        self._gathered = []

    def end_coalescing(self, device: Any = None) -> WeftWork:
        """Return a work that ends when all has ended that was called since `start_coalescing`."""
        gathered, self._gathered = self._gathered or [], None
        work, _ = self._begin("coalesced operations", [], [], None)
        waits = Countdown(len(gathered) + 1, work.end)
        for each in gathered:
            each.when_over(waits.one)
        waits.one("")
        return work

    _start_coalescing = start_coalescing
    _end_coalescing = end_coalescing

    # -- messages

    def send(self, tensors: Sequence[torch.Tensor], dst: int, tag: int = 0) -> WeftWork:
        """Send a tensor to a rank. It is copied, as far as there is room, so that it belongs to the
        caller at once."""
        tensor = _only("send", tensors)
        self._check_peer("send", dst, tag)
        work, begun = self._begin("send", tensors, [], None)
        size = memory_of.size_bytes(tensor)
        keeps = self._shared.buffer(size)
        memory = np.empty(size, np.uint8) if keeps or not memory_of.is_plain(tensor) else None
        if memory is not None:
            memory_of.read(tensor, memory)
        else:
            memory = memory_of.bytes_of(tensor)

        def done(error: str, _source: int) -> None:
            if keeps:
                self._shared.unbuffer(size)
                self._note(work, "", begun, size, error)
            else:
                self._end(work, "", begun, size, error)

        work.missing = lambda: f"rank {dst} of the group has not received it"
        self.network.send(dst, tag, memory, done)
        if keeps:
            work.end()
        return work

    def recv(self, tensors: Sequence[torch.Tensor], src: int, tag: int = 0) -> WeftWork:
        """Receive a tensor from a rank."""
        self._check_peer("recv", src, tag)
        return self._receive("recv", tensors, src, tag)

    def recv_anysource(self, tensors: Sequence[torch.Tensor], tag: int = 0) -> WeftWork:
        """Receive a tensor from any rank; the work knows from which."""
        return self._receive("recv_anysource", tensors, None, tag)

    # -- how

    def _new_lane(self, key: str) -> _Lane:
        """Make a communicator of the group's ranks, with what the switches hold for it."""
        shared = self._shared
        used = {algorithm for choice in shared.choices.values() for _, algorithm in choice.steps}
        group, made = self._meeting.group(
            key, multicast="multicast" in used, aggregation="switch" in used,
            serves="optcast" in used,
        )  # fmt: skip
        choices = Choices(shared.choices, bool(made.groups), made.job is not None, shared.notes)
        return _Lane(group, choices)

    @property
    def _lane(self) -> _Lane:
        """Return by what a collective goes that this thread begins. Callbacks have a communicator
        of their own, since they run beside the program: the order of what they begin among its own
        collectives is not the same on all ranks."""
        if not in_callback() or self._size == 1:
            return self._own_lane
        with self._lane_lock:
            if self._lane_of_callbacks is None:
                self._lane_of_callbacks = self._new_lane("weft callbacks")
            return self._lane_of_callbacks

    @property
    def _choices(self) -> Choices:
        return self._lane.choices

    def _begin(
        self, what: str, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], opts: Any
    ) -> tuple[WeftWork, int]:
        memory_of.check(what, [*inputs, *outputs])
        work = WeftWork(
            f"{what} on rank {self._rank} of group {self._name!r}",
            self._timeout_of(opts), outputs, self._shared.timeline, self._callbacks,
        )  # fmt: skip
        if self._gathered is not None:
            self._gathered.append(work)
        return work, time.monotonic_ns()

    def _root(self, what: str, opts: Any) -> int:
        root = int(opts.rootRank) if opts is not None else 0
        refuse(
            not 0 <= root < self._size,
            f"{what}: root {root} of a group of {self._size} ranks: choose 0 to {self._size - 1}",
        )
        return root

    def _timeout_of(self, opts: Any) -> timedelta:
        """Return the timeout that an operation was told, or else the group's."""
        given = getattr(opts, "timeout", None)
        if isinstance(given, timedelta) and given.total_seconds() > 0:
            return given
        return self._timeout

    def _request(
        self,
        collective: str,
        algorithm: str,
        counts: int | tuple[int, ...],
        opts: Any,
        dtype: str = "uint8",
        op: str = "sum",
        root: int = 0,
    ) -> Request:
        return Request(
            0, collective, algorithm, counts, dtype, op, root,
            pace_bps=self._shared.settings.pace_bps,
            timeout_ns=int(self._timeout_of(opts).total_seconds() * 1e9),
        )  # fmt: skip

    def _is_trivial(self, call: str, work: WeftWork, begun: int, algorithm: str, size: int) -> bool:
        """Return whether there is nothing to be moved, and let the work end then: at once in a
        group of one rank, and else when the ranks were seen to call the same."""
        if self._size == 1:
            self._end(work, algorithm, begun, size, "")
            return True
        if size:
            return False

        def done(error: str, _source: int) -> None:
            self._later(lambda: self._end(work, algorithm, begun, size, error))

        self._callbacks.begun(work)
        network = self._lane.network
        work.missing = partial(network.who_is_late, network.agree(call, done))
        return True

    def _note(self, work: WeftWork, algorithm: str, begun: int, size: int, error: str) -> None:
        name = work.what.partition(" ")[0]
        self._shared.timeline.ended(
            Operation(name, algorithm, self._name, size, begun, time.monotonic_ns(), error)
        )

    def _end(
        self, work: WeftWork, algorithm: str, begun: int, size: int, error: str, source: int = -1
    ) -> None:
        self._note(work, algorithm, begun, size, error)
        work.end(error, source)

    def _collective(
        self,
        call: str,
        request: Request,
        buffer: Any,
        output: Any,
        work: WeftWork,
        begun: int,
        size: int,
        finish: Callable[[], None],
        group: Group | None = None,
    ) -> None:
        """Let the network do a collective, and then finish it in a thread of the pool."""

        def ended(error: str) -> None:
            if not error:
                try:
                    finish()
                except Exception as failure:
                    error = f"{type(failure).__name__}: {failure}"
            self._end(work, request.algorithm, begun, size, error)

        def done(error: str, _source: int) -> None:
            self._later(lambda: ended(error))

        self._callbacks.begun(work)
        network = group or self._lane.network
        place = network.collective(call, request, buffer, output, done)
        work.missing = partial(network.who_is_late, place)
        work.ends_itself = True

    def _later(self, work: Callable[[], None]) -> None:
        try:
            self._shared.finishers.submit(work)
        except RuntimeError:  # the interpreter is about to end
            work()

    def _usable(self, tensor: torch.Tensor, *, reads: bool) -> tuple[Bytes, bool]:
        """Return the memory of a tensor, or other memory in its place; and whether it is that."""
        if memory_of.is_plain(tensor):
            return memory_of.bytes_of(tensor), False
        memory = self._shared.pool.take(memory_of.size_bytes(tensor))
        if reads:
            memory_of.read(tensor, memory)
        return memory, True

    def _reduction(self, what: str, dtype: torch.dtype, opts: Any) -> tuple[str, str, Any]:
        """Return numpy's type, the operation, and the factor of PREMUL_SUM or None."""
        asked = opts.reduceOp if opts is not None else dist.ReduceOp.SUM
        factor = None
        if asked == dist.ReduceOp.PREMUL_SUM:
            factor = memory_of.scalar_of(asked.__getstate__()[1])
            name = "sum"
            refuse(
                not dtype.is_floating_point,
                f"{what} of {dtype} by PREMUL_SUM: it is for floating-point numbers",
            )
        else:
            name = next((name for op, name in _OPS.items() if asked == op), "")
            if not name:
                raise BadCallError(f"{what} by {asked}: choose {', '.join(str(op) for op in _OPS)}")
        dtype_name, op = memory_of.reduced_as(what, dtype, name)
        return dtype_name, op, factor

    @staticmethod
    def _premultiply(memory: Bytes, dtype: torch.dtype, factor: Any) -> None:
        if factor is not None and len(memory):
            torch.from_numpy(memory).view(dtype).mul_(factor)

    def _one_dtype(self, what: str, tensors: Sequence[torch.Tensor]) -> torch.dtype:
        refuse(not tensors, f"{what}: there is no tensor; give one at least")
        kinds = {tensor.dtype for tensor in tensors}
        if len(kinds) != 1:
            raise BadCallError(
                f"{what}: tensors of {', '.join(sorted(map(str, kinds)))}; all of a call have one "
                "type"
            )
        return kinds.pop()

    def _allreduce(self, what: str, tensors: Sequence[torch.Tensor], opts: Any) -> WeftWork:
        work, begun = self._begin(what, tensors, tensors, opts)
        dtype = self._one_dtype(what, tensors)
        name, op, factor = self._reduction(what, dtype, opts)
        total = sum(map(memory_of.size_bytes, tensors))
        algorithm = self._choices.algorithm("allreduce", total, name, op)
        call = call_of(what, tensors, op=op, algorithm=algorithm)
        plain = not total or factor is None
        if plain and self._is_trivial(call, work, begun, algorithm, total):
            return work
        pool = self._shared.pool
        buffer = pool.take(total)
        for tensor, part in zip(tensors, _cut(buffer, tensors), strict=True):
            memory_of.read(tensor, part)
        self._premultiply(buffer, dtype, factor)
        direct = len(tensors) == 1 and memory_of.is_plain(tensors[0])
        output = memory_of.bytes_of(tensors[0]) if direct else pool.take(total)

        def finish() -> None:
            pool.give(buffer)
            if not direct:
                for tensor, part in zip(tensors, _cut(output, tensors), strict=True):
                    memory_of.write(tensor, part)
                pool.give(output)

        given, result = memory_of.typed(buffer, name), memory_of.typed(output, name)
        request = self._request("allreduce", algorithm, given.size, opts, name, op)
        self._collective(call, request, given, result, work, begun, total, finish)
        return work

    def _allgather(
        self,
        what: str,
        outputs: Sequence[Sequence[torch.Tensor]],
        inputs: Sequence[torch.Tensor],
        result: Sequence[torch.Tensor],
        opts: Any,
        copied: Sequence[tuple[torch.Tensor, torch.Tensor]] = (),
        algorithm: str = "",
    ) -> WeftWork:
        """Gather several tensors of each rank; `outputs` has those of each. In the end each first
        one of `copied` gets what the second has. The algorithm goes by size if none is given."""
        work, begun = self._begin(what, inputs, result, opts)
        sizes = [sum(map(memory_of.size_bytes, each)) for each in outputs]
        own = sum(map(memory_of.size_bytes, inputs))
        for output, tensor in zip(outputs[self._rank], inputs, strict=True):
            if output.numel() != tensor.numel():
                raise BadCallError(
                    f"{what}: the output for rank {self._rank}, this one, has {output.numel()} "
                    f"elements and the input {tensor.numel()}"
                )
        for each in outputs:
            for output, tensor in zip(each, inputs, strict=True):
                self._one_dtype(what, [output, tensor])
        total = sum(sizes)
        algorithm = algorithm or self._choices.algorithm("allgather", total)
        call = call_of(what, [each for one in outputs for each in one], algorithm=algorithm)
        if not total and self._is_trivial(call, work, begun, algorithm, total):
            return work
        buffer = self._shared.pool.take(total)
        ends = np.cumsum([0, *sizes])
        parts = [buffer[ends[rank] : ends[rank + 1]] for rank in range(self._size)]
        for tensor, part in zip(inputs, _cut(parts[self._rank], inputs), strict=True):
            memory_of.read(tensor, part)

        def finish() -> None:
            for each, part in zip(outputs, parts, strict=True):
                for tensor, source in zip(each, _cut(part, each), strict=True):
                    memory_of.write(tensor, source)
            for tensor, whole in copied:
                tensor.detach().copy_(whole)
            self._shared.pool.give(buffer)

        counts = sizes[0] if len(set(sizes)) == 1 else tuple(sizes)
        request = self._request("allgather", algorithm, counts, opts)
        self._collective(call, request, buffer, None, work, begun, own, finish)
        return work

    def _gather_single(
        self,
        what: str,
        outputs: Sequence[torch.Tensor],
        inputs: Sequence[torch.Tensor],
        opts: Any,
    ) -> WeftWork:
        _same_number(what, outputs, inputs)
        for output, tensor in zip(outputs, inputs, strict=True):
            self._one_dtype(what, [output, tensor])
            if memory_of.size_bytes(output) != self._size * memory_of.size_bytes(tensor):
                raise BadCallError(
                    f"{what}: an output of {output.numel()} elements of {output.dtype} for inputs "
                    f"of {tensor.numel()} of {tensor.dtype} on {self._size} ranks"
                )
        if len(outputs) == 1:
            return self._gather_in_place(what, outputs[0], inputs[0], opts)
        # Outputs of any strides are put together of parts that are not.
        wholes = [
            each
            if memory_of.is_plain(each)
            else torch.empty_like(each, memory_format=torch.contiguous_format)
            for each in outputs
        ]
        parts = [_parts(whole, self._size) for whole in wholes]
        by_rank = [[each[rank] for each in parts] for rank in range(self._size)]
        strided = [
            (output, whole)
            for output, whole in zip(outputs, wholes, strict=True)
            if output is not whole
        ]
        return self._allgather(what, by_rank, inputs, outputs, opts, strided)

    def _gather_in_place(
        self, what: str, output: torch.Tensor, tensor: torch.Tensor, opts: Any
    ) -> WeftWork:
        """Gather into the output itself, of which the input may be a view."""
        work, begun = self._begin(what, [tensor], [output], opts)
        own = memory_of.size_bytes(tensor)
        buffer, scratch = self._usable(output, reads=False)
        algorithm = self._choices.algorithm("allgather", len(buffer))
        if own:
            memory_of.read(tensor, buffer[self._rank * own :][:own])
        if self._size == 1 and scratch:
            memory_of.write(output, buffer)
        call = call_of(what, [tensor], algorithm=algorithm)
        if self._is_trivial(call, work, begun, algorithm, own):
            return work

        def finish() -> None:
            if scratch:
                memory_of.write(output, buffer)
                self._shared.pool.give(buffer)

        request = self._request("allgather", algorithm, own, opts)
        self._collective(call, request, buffer, None, work, begun, own, finish)
        return work

    def _reduce_scatter(
        self,
        what: str,
        outputs: Sequence[torch.Tensor],
        inputs: Sequence[Sequence[torch.Tensor]],
        opts: Any,
    ) -> WeftWork:
        """Reduce several tensors for each rank; `inputs` has those for each."""
        flat = [tensor for each in inputs for tensor in each]
        work, begun = self._begin(what, flat, outputs, opts)
        dtype = self._one_dtype(what, [*flat, *outputs])
        name, op, factor = self._reduction(what, dtype, opts)
        sizes = [sum(map(memory_of.size_bytes, each)) for each in inputs]
        own = sum(map(memory_of.size_bytes, outputs))
        refuse(
            own != sizes[self._rank],
            f"{what}: the input for rank {self._rank}, this one, has {sizes[self._rank]} bytes "
            f"and the output {own}",
        )
        total = sum(sizes)
        algorithm = self._choices.algorithm("reduce-scatter", total, name, op)
        call = call_of(what, flat, op=op, algorithm=algorithm)
        if not total and self._is_trivial(call, work, begun, algorithm, total):
            return work
        pool = self._shared.pool
        direct = len(flat) == 1 and memory_of.is_plain(flat[0]) and factor is None
        buffer = memory_of.bytes_of(flat[0]) if direct else pool.take(total)
        if not direct:
            for tensor, part in zip(flat, _cut(buffer, flat), strict=True):
                memory_of.read(tensor, part)
            self._premultiply(buffer, dtype, factor)
        to_output = (
            len(outputs) == 1 and memory_of.is_plain(outputs[0])
            and not np.may_share_memory(memory_of.bytes_of(outputs[0]), buffer)
        )  # fmt: skip
        result = memory_of.bytes_of(outputs[0]) if to_output else pool.take(own)

        def finish() -> None:
            if not to_output:
                for tensor, part in zip(outputs, _cut(result, outputs), strict=True):
                    memory_of.write(tensor, part)
                pool.give(result)
            if not direct:
                pool.give(buffer)

        item = memory_of.typed(result, name).itemsize
        counts = [size // item for size in sizes]
        request = self._request(
            "reduce-scatter", algorithm, counts[0] if len(set(counts)) == 1 else tuple(counts),
            opts, name, op,
        )  # fmt: skip
        self._collective(
            call, request, memory_of.typed(buffer, name), memory_of.typed(result, name), work,
            begun, total, finish,
        )  # fmt: skip
        return work

    def _scatter_single(
        self,
        what: str,
        outputs: Sequence[torch.Tensor],
        inputs: Sequence[torch.Tensor],
        opts: Any,
    ) -> WeftWork:
        _same_number(what, outputs, inputs)
        for output, tensor in zip(outputs, inputs, strict=True):
            if tensor.numel() != self._size * output.numel():
                raise BadCallError(
                    f"{what}: an input of {tensor.numel()} elements for outputs of "
                    f"{output.numel()} on {self._size} ranks"
                )
        if len(inputs) == 1 and memory_of.is_plain(inputs[0]):
            return self._scatter_in_place(what, outputs[0], inputs[0], opts)
        parts = [_parts(tensor.contiguous(), self._size) for tensor in inputs]
        by_rank = [[each[rank] for each in parts] for rank in range(self._size)]
        return self._reduce_scatter(what, outputs, by_rank, opts)

    def _scatter_in_place(
        self, what: str, output: torch.Tensor, tensor: torch.Tensor, opts: Any
    ) -> WeftWork:
        """Reduce one tensor that is used as it is, unless it is to be multiplied first."""
        work, begun = self._begin(what, [tensor], [output], opts)
        dtype = self._one_dtype(what, [tensor, output])
        name, op, factor = self._reduction(what, dtype, opts)
        total = memory_of.size_bytes(tensor)
        algorithm = self._choices.algorithm("reduce-scatter", total, name, op)
        call = call_of(what, [tensor], op=op, algorithm=algorithm)
        if not total and self._is_trivial(call, work, begun, algorithm, total):
            return work
        pool = self._shared.pool
        buffer = memory_of.bytes_of(tensor)
        copied = factor is not None
        if copied:
            buffer = pool.take(total)
            memory_of.read(tensor, buffer)
            self._premultiply(buffer, dtype, factor)
        plain = memory_of.is_plain(output)
        plain = plain and not np.may_share_memory(memory_of.bytes_of(output), buffer)
        result = memory_of.bytes_of(output) if plain else pool.take(total // self._size)

        def finish() -> None:
            if not plain:
                memory_of.write(output, result)
                pool.give(result)
            if copied:
                pool.give(buffer)

        typed = memory_of.typed(result, name)
        request = self._request("reduce-scatter", algorithm, typed.size, opts, name, op)
        given = memory_of.typed(buffer, name)
        self._collective(call, request, given, typed, work, begun, total, finish)
        return work

    def check_multicasts(self) -> None:
        """Raise BadCallError if the switches cannot replicate for this group."""
        why = self._choices.why_not("allgather", "multicast", "uint8", "sum")
        refuse(why, f"multicast: {why}")

    def allgather_by(
        self, algorithm: str, outputs: Sequence[torch.Tensor], tensor: torch.Tensor, what: str
    ) -> WeftWork:
        """Give all ranks the tensors of all, which may differ in size, by an algorithm that was
        chosen for it.

        Args:
            outputs: of each rank.
            what: what the operation is called.
        """
        parts = [[each] for each in outputs]
        return self._allgather(what, parts, [tensor], outputs, None, algorithm=algorithm)

    def check_switches_add(self, dtype: torch.dtype) -> None:
        """Raise BadCallError if the switches cannot add numbers of a type for this group."""
        name = memory_of.NAMES.get(dtype, str(dtype))
        why = self._choices.why_not("allreduce", "switch", name, "sum")
        refuse(why, f"algorithm switch: {why}")

    def allreduce_by(self, algorithm: str, tensor: torch.Tensor, what: str) -> WeftWork:
        """Add a contiguous tensor of all ranks by an algorithm that was chosen for it; all get the
        sum.

        Args:
            what: what the operation is called.
        """
        work, begun = self._begin(what, [tensor], [tensor], None)
        size = memory_of.size_bytes(tensor)
        call = call_of(what, [tensor], op="sum", algorithm=algorithm)
        if self._is_trivial(call, work, begun, algorithm, size):
            return work
        name = memory_of.NAMES[tensor.dtype]
        output = memory_of.typed(memory_of.bytes_of(tensor), name)
        given = output.copy()
        request = self._request("allreduce", algorithm, given.size, None, name, "sum")
        self._collective(call, request, given, output, work, begun, size, lambda: None)
        return work

    def _reduce(self, tensors: Sequence[torch.Tensor], opts: Any) -> WeftWork:
        """Reduce by a Reduce-Scatter, whose parts go to the root by messages."""
        tensor = _only("reduce", tensors)
        work, begun = self._begin("reduce", tensors, tensors, opts)
        name, op, factor = self._reduction("reduce", tensor.dtype, opts)
        total, root = memory_of.size_bytes(tensor), self._root("reduce", opts)
        algorithm = self._choices.algorithm("reduce-scatter", total, name, op)
        call = call_of("reduce", tensors, op=op, root=root, algorithm=algorithm)
        tag = self._next_tag(call)
        plain = not total or factor is None
        if plain and self._is_trivial(call, work, begun, algorithm, total):
            return work
        buffer = np.empty(total, np.uint8)
        memory_of.read(tensor, buffer)
        self._premultiply(buffer, tensor.dtype, factor)
        given = memory_of.typed(buffer, name)
        each, more = divmod(given.size, self._size)
        counts = tuple(each + (rank < more) for rank in range(self._size))
        own = np.empty(counts[self._rank] * given.itemsize, np.uint8)
        ends = np.cumsum([0, *counts]) * given.itemsize
        gathered = np.empty(total, np.uint8) if self._rank == root else buffer
        waits = Countdown(self._size if self._rank == root else 2, lambda error: self._later(
            lambda: self._finish_reduce(work, tensor, gathered, root, algorithm, begun, error)
        ))  # fmt: skip

        network = self._lane.network
        self._callbacks.begun(work)

        def reduced(error: str, _source: int) -> None:
            if not error and self._rank == root:
                gathered[ends[root] : ends[root + 1]] = own
            elif not error:
                network.send(root, tag, own, lambda error, _: waits.one(error))
            waits.one(error)

        for other in range(self._size) if self._rank == root else ():
            if other != root:
                part = gathered[ends[other] : ends[other + 1]]
                network.receive(other, tag, part, lambda error, _: waits.one(error))
        request = self._request(
            "reduce-scatter", algorithm, counts if more else each, opts, name, op
        )
        place = network.collective(call, request, given, memory_of.typed(own, name), reduced)
        work.missing = partial(network.who_is_late, place)
        return work

    def _finish_reduce(
        self, work: WeftWork, tensor: torch.Tensor, gathered: Bytes, root: int, algorithm: str,
        begun: int, error: str,
    ) -> None:  # fmt: skip
        if not error and self._rank == root:
            memory_of.write(tensor, gathered)
        self._end(work, algorithm, begun, memory_of.size_bytes(tensor), error)

    def _next_tag(self, call: str) -> int:
        """Return the tag of the messages of the next collective that consists of some: those of
        programs are not negative. What is called is in it, so that nobody takes the messages of
        another collective for its own."""
        lane = self._lane
        lane.messages += 1
        return -1 - ((lane.messages & 0x3FFF) << 16 | crc32(call.encode()) & 0xFFFF)

    def _exchange(
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
        tensors = [*goes.values(), *comes.values()]
        self._one_dtype(what, tensors)
        work, begun = self._begin(what, list(goes.values()), result, opts)
        size = sum(map(memory_of.size_bytes, goes.values()))
        own_in, own_out = goes.pop(self._rank, None), comes.pop(self._rank, None)
        copies: list[tuple[torch.Tensor, Bytes]] = []
        if own_in is not None and own_out is not None:
            if memory_of.size_bytes(own_in) != memory_of.size_bytes(own_out):
                raise BadCallError(
                    f"{what}: rank {self._rank} gives itself {memory_of.size_bytes(own_in)} bytes "
                    f"and takes {memory_of.size_bytes(own_out)}"
                )
            memory = np.empty(memory_of.size_bytes(own_in), np.uint8)
            memory_of.read(own_in, memory)
            copies.append((own_out, memory))
        call = call_of(what, tensors, counts=False, root=root)
        tag = self._next_tag(call)
        sent = {peer: each for peer, each in goes.items() if each.numel()}
        received = {peer: each for peer, each in comes.items() if each.numel()}

        def finish(error: str) -> None:
            if not error:
                for tensor, memory in copies:
                    memory_of.write(tensor, memory)
            self._end(work, "", begun, size, error)

        waits = Countdown(
            len(sent) + len(received) + 1, lambda error: self._later(lambda: finish(error))
        )
        network = self._lane.network
        self._callbacks.begun(work)
        place = network.agree(call, lambda error, _: waits.one(error))
        work.missing = partial(network.who_is_late, place)
        sending = []
        for peer, tensor in sent.items():  # read before anything is written
            memory = np.empty(memory_of.size_bytes(tensor), np.uint8)
            memory_of.read(tensor, memory)
            sending.append((peer, memory))
        for peer, tensor in received.items():
            plain = memory_of.is_plain(tensor)
            memory = memory_of.bytes_of(tensor) if plain else np.empty(
                memory_of.size_bytes(tensor), np.uint8
            )  # fmt: skip
            if not plain:
                copies.append((tensor, memory))
            network.receive(peer, tag, memory, lambda error, _: waits.one(error))
        for peer, memory in sending:
            network.send(peer, tag, memory, lambda error, _: waits.one(error))
        return work

    def carry_flows(self, what: str, request: Request, data: Bytes, result: Bytes) -> WeftWork:
        """Carry out flows of all ranks of the group, `weft.agents.collectives.flow_graph`. All
        ranks ask for the same.

        Args:
            request: of the collective flows.
            data, result: this rank's buffer and output.
        """
        assert request.flows is not None
        subsets = tuple(tuple(each) for each in request.flows.groups)
        if subsets not in self._of_flows:
            key = f"weft flows {len(self._of_flows)}"
            group, made = self._meeting.group(key, multicast=bool(subsets), subsets=subsets)
            self._of_flows[subsets] = group
            refuse(
                len(made.groups) < len(subsets),
                f"{what}: {made.note or 'the switches hold no multicast groups for it'}; choose a "
                "strategy of unicast, like broadcast",
                RunError,
            )
        work, begun = self._begin(what, [], [], None)
        asked = replace(
            request,
            pace_bps=self._shared.settings.pace_bps,
            timeout_ns=int(self._timeout.total_seconds() * 1e9),
        )
        self._collective(
            call_of_flows(what, request), asked, data, result, work, begun, len(data),
            lambda: None, self._of_flows[subsets],
        )  # fmt: skip
        return work

    def _check_peer(self, what: str, peer: int, tag: int) -> None:
        refuse(
            not 0 <= peer < self._size or peer == self._rank,
            f"{what}: rank {peer}: choose another rank than this one, {self._rank}, of 0 to "
            f"{self._size - 1}",
        )
        refuse(not 0 <= tag <= MOST_TAG, f"{what}: tag {tag}: choose 0 to {MOST_TAG}")

    def _receive(
        self, what: str, tensors: Sequence[torch.Tensor], source: int | None, tag: int
    ) -> WeftWork:
        tensor = _only(what, tensors)
        work, begun = self._begin(what, [], tensors, None)
        size = memory_of.size_bytes(tensor)
        memory, scratch = self._usable(tensor, reads=False)

        def ended(error: str, source: int) -> None:
            if scratch and not error:
                memory_of.write(tensor, memory)
            self._end(work, "", begun, size, error, source)

        def done(error: str, source: int) -> None:
            self._later(lambda: ended(error, source))

        work.withdraw = self.network.receive(source, tag, memory, done)
        sender = "any rank" if source is None else f"rank {source}"
        work.missing = lambda: f"nothing has come from {sender} of the group"
        return work


def _only(what: str, given: Sequence[Given]) -> Given:
    """Return what stands alone in a list: a list has one for each device, and there is one."""
    refuse(len(given) != 1, f"{what}: a list has {len(given)} in place of one; give one for a call")
    return given[0]


def _same_number(
    what: str, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]
) -> None:
    refuse(
        not inputs or len(outputs) != len(inputs),
        f"{what}: {len(outputs)} outputs for {len(inputs)} inputs; give as many of both, one at "
        "least",
    )


def _cut(memory: Bytes, tensors: Sequence[torch.Tensor]) -> list[Bytes]:
    """Return the parts of memory that hold tensors one behind the other."""
    ends = np.cumsum([0, *map(memory_of.size_bytes, tensors)])
    return [memory[first:end] for first, end in pairwise(ends)]


def _parts(tensor: torch.Tensor, size: int) -> list[torch.Tensor]:
    """Return equal parts of a contiguous tensor, as views."""
    return list(tensor.detach().reshape(-1).chunk(size)) if tensor.numel() else [tensor] * size


def _split(what: str, tensor: torch.Tensor, sizes: Sequence[int], size: int) -> list[torch.Tensor]:
    """Return parts of a tensor along its first dimension; equal ones if no sizes are given."""
    refuse(
        not tensor.dim(),
        f"{what} has no dimension; give it a first one that {size}, the number of ranks, divides",
    )
    rows = int(tensor.shape[0])
    if not sizes:
        if rows % size:
            raise BadCallError(
                f"{what} has shape {tuple(tensor.shape)}: {rows} rows are no equal parts for "
                f"{size} ranks; give the sizes of the parts"
            )
        sizes = [rows // size] * size
    if len(sizes) != size or sum(sizes) != rows:
        raise BadCallError(
            f"{what} has {rows} rows, and the parts {list(sizes)}: {size} parts that make that are "
            "needed"
        )
    return list(torch.split(tensor.detach(), list(sizes)))


def create(options: Any, _backend_options: Any = None) -> WeftProcessGroup:
    """Make a group, as torch asks for one (`Backend.register_backend` with `extended_api`)."""
    try:
        return WeftProcessGroup(
            options.store,
            int(options.group_rank),
            int(options.group_size),
            options.timeout,
            str(options.group_id),
            session(),
        )
    except (InputError, RunError) as error:
        raise RuntimeError(str(error)) from error


_CALLED = (
    "broadcast", "allreduce", "allreduce_coalesced", "allgather", "allgather_coalesced",
    "all_gather_single", "all_gather_single_coalesced", "_allgather_base",
    "allgather_into_tensor_coalesced", "reduce_scatter", "reduce_scatter_single",
    "reduce_scatter_single_coalesced", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced",
    "all_to_all_single", "alltoall_base", "alltoall", "gather", "gather_single", "scatter",
    "reduce", "barrier", "monitored_barrier", "start_coalescing", "end_coalescing",
    "_start_coalescing", "_end_coalescing", "send", "recv", "recv_anysource",
)  # fmt: skip
"""What torch calls of a group while a program runs."""


def _keep_out_of_graphs() -> None:
    """Let torch.compile end its graph where a group is called, and not look into what it does."""
    methods = [*((WeftProcessGroup, name) for name in _CALLED), (WeftWork, "wait")]
    for kind, name in methods:
        setattr(kind, name, torch.compiler.disable(getattr(kind, name)))


def register() -> None:
    """Make the backend known to torch; a bare `init_process_group` gets it on the CPU."""
    if NAME not in dist.Backend.backend_list:
        _keep_out_of_graphs()
        dist.Backend.register_backend(NAME, create, extended_api=True, devices=["cpu"])
    with contextlib.suppress(AttributeError):
        dist.Backend.default_device_backend_map["cpu"] = NAME
