"""From a request to the operation that carries it out on one rank."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weft.agents.collectives.aggregation_operation import SwitchOperation
from weft.agents.collectives.allreduce_direct import DirectAllreduce
from weft.agents.collectives.allreduce_halving import HalvingDoublingAllreduce
from weft.agents.collectives.allreduce_ring import RingAllreduce
from weft.agents.collectives.allreduce_trees import DoubleBinaryTreeAllreduce
from weft.agents.collectives.communicator import Communicator
from weft.agents.collectives.direct import DirectAlltoall, DirectGather
from weft.agents.collectives.dtypes import Array
from weft.agents.collectives.flows_operation import FlowsOperation
from weft.agents.collectives.halving import RecursiveHalvingReduceScatter
from weft.agents.collectives.linear import LinearAllgather
from weft.agents.collectives.multicast import MulticastOperation
from weft.agents.collectives.operation import Operation
from weft.agents.collectives.optcast import OptcastOperation
from weft.agents.collectives.recursive import RecursiveDoublingAllgather
from weft.agents.collectives.requests import Request, flat_bytes
from weft.agents.collectives.ring import RingAllgather, RingReduceScatter
from weft.agents.collectives.trees import TreeBroadcast
from weft.agents.collectives.unicast import Bytes, Pattern, UnicastOperation
from weft.agents.transport.types import MemoryRegion, TransportMisuse
from weft.base.errors import InputError

_IN_PLACE: dict[str, Callable[..., Pattern]] = {
    "ring": RingAllgather,
    "linear": LinearAllgather,
    "recursive-doubling": RecursiveDoublingAllgather,
    "k-nomial": TreeBroadcast,
    "binary-tree": TreeBroadcast,
    "pipelined-ring": TreeBroadcast,
    "direct": DirectGather,
}
_WITH_OUTPUT: dict[tuple[str, str], Callable[..., Pattern]] = {
    ("reduce-scatter", "ring"): RingReduceScatter,
    ("reduce-scatter", "recursive-halving"): RecursiveHalvingReduceScatter,
    ("allreduce", "ring"): RingAllreduce,
    ("allreduce", "halving-doubling"): HalvingDoublingAllreduce,
    ("allreduce", "double-binary-tree"): DoubleBinaryTreeAllreduce,
    ("allreduce", "direct"): DirectAllreduce,
    ("alltoall", "direct"): DirectAlltoall,
}


def build(
    communicator: Communicator,
    request: Request,
    buffer: Array,
    output: Array | None,
    register: Callable[[Bytes], MemoryRegion],
) -> Operation:
    """The operation of a request on this rank.

    Args:
        buffer, output: as `HostAgent.start` has them.
        register: gives the memory region of an array of bytes.

    Raises:
        InputError: the arrays do not fit the request, or the request the communicator.
    """
    name = f"{request.collective.title()} on {communicator.size} ranks"
    rank, size, path_mtu = communicator.rank, communicator.size, communicator.endpoint.path_mtu
    own = request.buffer_elements(rank, size)
    data = flat_bytes(buffer, request, own, f"{name}, the buffer of rank {rank}")
    count = request.output_elements(rank, size)
    if count is None:
        if output is not None:
            raise InputError(f"{name}: it works in place and has no output")
        if request.algorithm == "multicast":
            try:
                return MulticastOperation(communicator, request, register(data))
            except TransportMisuse as error:
                raise InputError(f"{name}: {error}") from error
        pattern = _IN_PLACE[request.algorithm](request, rank, size, path_mtu, data)
    else:
        if output is None:
            raise InputError(f"{name}: pass the array for the result as output")
        result = flat_bytes(output, request, count, f"{name}, the output of rank {rank}")
        if np.may_share_memory(data, result):
            raise InputError(f"{name}: buffer and output overlap; pass arrays of their own")
        if request.flows is not None:
            return FlowsOperation(communicator, request, data, result, register)
        if request.algorithm == "optcast":
            return OptcastOperation(communicator, request, data, result, register)
        if request.algorithm == "switch":
            return SwitchOperation(communicator, request, data, result)
        kind = _WITH_OUTPUT[request.collective, request.algorithm]
        pattern = kind(request, rank, size, path_mtu, data, result)
    return UnicastOperation(communicator, request, pattern, register)
