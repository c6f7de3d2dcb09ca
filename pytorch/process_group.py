"""The process group: torch.distributed's collectives over the network of P4 switches.

It is a subclass of `torch.distributed.ProcessGroup` (torch 2.13), which `weft.pytorch.backend`
registers. The names that torch 2.14 calls beside those of 2.13 are here, too; they are untested.

Each call returns at once with a `Work`. Packets move in a thread of the process that does not hold
Python's lock meanwhile (`weft.agents.drivers.background`); what ends is told by threads of a small
pool. Callbacks of futures run in others (`weft.pytorch.callbacks`).
"""

import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from weft.agents.collectives.mailbox import Bytes
from weft.agents.collectives.requests import Request
from weft.pytorch import tensors as memory_of
from weft.pytorch.arguments import equal_parts, one_for_each_rank, only, split
from weft.pytorch.collectives import Collectives
from weft.pytorch.errors import BadCallError, refuse
from weft.pytorch.exchanges import Exchanges
from weft.pytorch.groups import Group
from weft.pytorch.lanes import Lanes
from weft.pytorch.meeting import Meeting
from weft.pytorch.messages import Settings
from weft.pytorch.operations import Operations
from weft.pytorch.session import Session
from weft.pytorch.short_forms import short_form
from weft.pytorch.timeline import Timeline
from weft.pytorch.work import WeftWork

NAME = "weft"
MOST_TAG = (1 << 31) - 1


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
        self._torch_name = ""
        meeting = Meeting(store, rank, size, name, timeout.total_seconds(), shared.network)
        self._lanes = Lanes(meeting, shared, size)
        # The store of a group that is gone may yet be asked by ranks that are slower.
        shared.stores.append(store)
        self._operations = Operations(self._lanes, shared, rank, size, name, timeout)
        self._collectives = Collectives(self._operations)
        self._exchanges = Exchanges(self._operations)
        self.fused_calls = threading.Lock()
        """Held while a fused operator is called: one at a time."""
        self.as_torch = dist.ProcessGroup(rank, size)
        """A group of torch's own, whose operators others see (`weft.pytorch.dispatcher`)."""
        self.as_torch._set_group_name(name)
        shared.timeline.begin()

    @property
    def settings(self) -> Settings:
        """Return what is known of this process and its link."""
        return self._shared.settings

    @property
    def network(self) -> Group:
        """Return the group as the network has it."""
        return self._lanes.own.network

    @property
    def timeline(self) -> Timeline:
        """Return the record of this process."""
        return self._shared.timeline

    @property
    def timeout_s(self) -> float:
        """Return the timeout of operations that are not told another."""
        return self._operations.timeout.total_seconds()

    # -- what torch asks of a group

    def getBackendName(self) -> str:
        """Return the backend's name."""
        return NAME

    name = getBackendName

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
        self._operations.recorded.description = description

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
        self._operations.timeout = timeout

    _set_default_timeout = set_timeout

    def shutdown(self) -> None:
        """Leave the group. Its trees leave the switches when all of its ranks have left."""
        self._lanes.leave()

    abort = shutdown

    # -- collectives

    @short_form(dist.BroadcastOptions, "root", tensors=1)
    def broadcast(self, tensors: Sequence[torch.Tensor], opts: Any = None) -> WeftWork:
        """Give all ranks the root's tensor."""
        root = self._root("broadcast", opts)
        return self._collectives.broadcast(only("broadcast", tensors), root, opts)

    @short_form(dist.AllreduceOptions, "op", tensors=1)
    def allreduce(self, tensors: Sequence[torch.Tensor], opts: Any = None) -> WeftWork:
        """Reduce a tensor of all ranks; all get the result."""
        return self._collectives.allreduce("allreduce", tensors, opts)

    def allreduce_coalesced(self, tensors: Sequence[torch.Tensor], opts: Any = None) -> WeftWork:
        """Reduce several tensors together."""
        return self._collectives.allreduce("allreduce_coalesced", tensors, opts)

    @short_form(distributed_c10d.AllgatherOptions, tensors=2)
    def allgather(
        self,
        output_tensors: Sequence[Sequence[torch.Tensor]],
        input_tensors: Sequence[torch.Tensor],
        opts: Any = None,
    ) -> WeftWork:
        """Give all ranks the tensors of all, which may differ in size."""
        what, outputs = "allgather", self._lists("allgather", "outputs", output_tensors)
        parts = [[each] for each in outputs]
        return self._collectives.allgather(what, parts, [only(what, input_tensors)], outputs, opts)

    def allgather_coalesced(
        self,
        output_lists: Sequence[Sequence[torch.Tensor]],
        input_list: Sequence[torch.Tensor],
        opts: Any = None,
    ) -> WeftWork:
        """Give all ranks several tensors of all; each list of outputs is a rank's, like the
        inputs."""
        what = "allgather_coalesced"
        one_for_each_rank(what, "lists of outputs", output_lists, self._size)
        for rank, each in enumerate(output_lists):
            refuse(
                len(each) != len(input_list),
                f"{what}: the list of outputs for rank {rank} has {len(each)} tensors, and "
                f"{len(input_list)} are given; each rank's list is like the inputs",
            )
        flat = [each for one in output_lists for each in one]
        work = self._collectives.allgather(what, output_lists, input_list, flat, opts)
        if self._size > 1:  # as Gloo's has it
            work.ends_with([list(each) for each in output_lists])
        return work

    def all_gather_single(
        self, output: torch.Tensor, input: torch.Tensor, opts: Any = None
    ) -> WeftWork:
        """Give all ranks the tensors of all, one behind the other in one tensor."""
        return self._collectives.gather_single("all_gather_single", [output], [input], opts)

    def all_gather_single_coalesced(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> WeftWork:
        """Do several `all_gather_single` together."""
        return self._collectives.gather_single("all_gather_single_coalesced", outputs, inputs, opts)

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
        parts = [[each] for each in self._lists(what, "inputs", input_tensors)]
        return self._collectives.reduce_scatter(what, [only(what, output_tensors)], parts, opts)

    def reduce_scatter_single(
        self, output: torch.Tensor, input: torch.Tensor, opts: Any = None
    ) -> WeftWork:
        """Reduce a tensor that has a part for each rank; each gets its own."""
        return self._collectives.scatter_single("reduce_scatter_single", [output], [input], opts)

    def reduce_scatter_single_coalesced(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> WeftWork:
        """Do several `reduce_scatter_single` together."""
        return self._collectives.scatter_single(
            "reduce_scatter_single_coalesced", outputs, inputs, opts
        )

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
        comes = split(f"{what}: the output", output, output_split_sizes, self._size)
        goes = split(f"{what}: the input", input, input_split_sizes, self._size)
        return self._exchanges.exchange(
            what, dict(enumerate(comes)), dict(enumerate(goes)), [output], opts
        )

    alltoall_base = all_to_all_single

    def alltoall(
        self,
        output_tensors: Sequence[torch.Tensor],
        input_tensors: Sequence[torch.Tensor],
        opts: Any = None,
    ) -> WeftWork:
        """Give each rank a tensor of a list, and get one from each; they may differ in size."""
        for which, given in (("outputs", output_tensors), ("inputs", input_tensors)):
            one_for_each_rank("alltoall", which, given, self._size)
        return self._exchanges.exchange(
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
        what, root = "gather", self._root("gather", opts)
        outputs = self._lists(what, "outputs", output_tensors) if self._rank == root else []
        goes = {root: only(what, input_tensors)}
        return self._exchanges.exchange(what, dict(enumerate(outputs)), goes, outputs, opts, root)

    def gather_single(
        self, output: torch.Tensor, input: torch.Tensor, opts: Any = None
    ) -> WeftWork:
        """Give the root the tensors of all ranks, one behind the other in one tensor."""
        parts = equal_parts(output, self._size) if self._rank == int(opts.rootRank) else []
        return self.gather([parts], [input], opts)

    @short_form(dist.ScatterOptions, "root", tensors=2)
    def scatter(
        self,
        output_tensors: Sequence[torch.Tensor],
        input_tensors: Sequence[Sequence[torch.Tensor]],
        opts: Any = None,
    ) -> WeftWork:
        """Give each rank a tensor of the root's."""
        what, root = "scatter", self._root("scatter", opts)
        inputs = self._lists(what, "inputs", input_tensors) if self._rank == root else []
        output = only(what, output_tensors)
        return self._exchanges.exchange(
            what, {root: output}, dict(enumerate(inputs)), [output], opts, root
        )

    @short_form(dist.ReduceOptions, "root", "op", tensors=1)
    def reduce(self, tensors: Sequence[torch.Tensor], opts: Any = None) -> WeftWork:
        """Reduce a tensor of all ranks; the root gets the result."""
        tensor = only("reduce", tensors)
        return self._exchanges.reduce(tensor, self._root("reduce", opts), opts)

    @short_form(dist.BarrierOptions, tensors=0)
    def barrier(self, opts: Any = None) -> WeftWork:
        """Wait for all ranks."""
        return self._collectives.barrier(opts)

    def monitored_barrier(
        self, timeout: timedelta | None = None, wait_all_ranks: bool = False
    ) -> None:
        """Wait for all ranks, for so long at most."""
        self.barrier().wait(timeout)

    def start_coalescing(self, device: Any = None) -> None:
        """Gather what is called from now on into one work; it begins at once all the same."""
        self._operations.start_coalescing()

    def end_coalescing(self, device: Any = None) -> WeftWork:
        """Return a work that ends when all has ended that was called since `start_coalescing`."""
        return self._operations.end_coalescing()

    _start_coalescing = start_coalescing
    _end_coalescing = end_coalescing

    # -- messages

    def send(self, tensors: Sequence[torch.Tensor], dst: int, tag: int = 0) -> WeftWork:
        """Send a tensor to a rank. It is copied, as far as there is room, so that it belongs to the
        caller at once."""
        tensor = only("send", tensors)
        self._check_peer("send", dst, tag)
        return self._exchanges.send(tensor, dst, tag)

    def recv(self, tensors: Sequence[torch.Tensor], src: int, tag: int = 0) -> WeftWork:
        """Receive a tensor from a rank."""
        self._check_peer("recv", src, tag)
        return self._exchanges.receive("recv", only("recv", tensors), src, tag)

    def recv_anysource(self, tensors: Sequence[torch.Tensor], tag: int = 0) -> WeftWork:
        """Receive a tensor from any rank; the work knows from which."""
        what = "recv_anysource"
        return self._exchanges.receive(what, only(what, tensors), None, tag)

    # -- what others than torch ask of it

    def check_able(
        self, collective: str, algorithm: str, what: str, dtype: torch.dtype = torch.uint8
    ) -> None:
        """Raise BadCallError if an algorithm cannot do a collective of elements of a type for this
        group.

        Args:
            what: what asks for it, as the message says first.
        """
        name = memory_of.NAMES.get(dtype, str(dtype))
        why = self._lanes.current.choices.why_not(collective, algorithm, name, "sum")
        refuse(why, f"{what}: {why}")

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
        return self._collectives.allgather(what, parts, [tensor], outputs, None, algorithm)

    def allreduce_by(self, algorithm: str, tensor: torch.Tensor, what: str) -> WeftWork:
        """Add a tensor of all ranks by an algorithm that was chosen for it; all get the sum.

        Args:
            what: what the operation is called.
        """
        return self._collectives.allreduce(what, [tensor], None, algorithm)

    def carry_flows(self, what: str, request: Request, data: Bytes, result: Bytes) -> WeftWork:
        """Carry out flows of all ranks of the group, `weft.agents.collectives.flow_graph`. All
        ranks ask for the same.

        Args:
            request: of the collective flows.
            data, result: this rank's buffer and output.
        """
        return self._collectives.flows(what, request, data, result)

    def _lists(
        self, what: str, which: str, given: Sequence[Sequence[torch.Tensor]]
    ) -> Sequence[torch.Tensor]:
        """Return the tensors of a list of lists, one for each rank."""
        return one_for_each_rank(what, which, only(what, given), self._size)

    def _root(self, what: str, opts: Any) -> int:
        root = int(opts.rootRank) if opts is not None else 0
        if not 0 <= root < self._size:
            raise BadCallError(
                f"{what}: root {root} of a group of {self._size} ranks: choose 0 to "
                f"{self._size - 1}"
            )
        return root

    def _check_peer(self, what: str, peer: int, tag: int) -> None:
        refuse(
            not 0 <= peer < self._size or peer == self._rank,
            f"{what}: rank {peer}: choose another rank than this one, {self._rank}, of 0 to "
            f"{self._size - 1}",
        )
        if not 0 <= tag <= MOST_TAG:
            raise BadCallError(f"{what}: tag {tag}: choose 0 to {MOST_TAG}")
