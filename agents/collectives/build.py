"""From a request to the operation that carries it out on one rank."""

from __future__ import annotations

import numpy as np

from weft.agents.collectives.algorithm import Register
from weft.agents.collectives.communicator import Communicator
from weft.agents.collectives.dtypes import Array
from weft.agents.collectives.flows_operation import FlowsOperation
from weft.agents.collectives.operation import Operation
from weft.agents.collectives.registry import algorithm_of
from weft.agents.collectives.requests import Request, flat_bytes
from weft.base.errors import InputError


def build(
    communicator: Communicator,
    request: Request,
    buffer: Array,
    output: Array | None,
    register: Register,
) -> Operation:
    """The operation of a request on this rank.

    Args:
        buffer, output: as `HostAgent.start` has them.
        register: gives the memory region of an array of bytes.

    Raises:
        InputError: the arrays do not fit the request, or the request the communicator.
    """
    name = f"{request.collective.title()} on {communicator.size} ranks"
    rank, size = communicator.rank, communicator.size
    own = request.buffer_elements(rank, size)
    data = flat_bytes(buffer, request, own, f"{name}, the buffer of rank {rank}")
    count = request.output_elements(rank, size)
    result = None
    if count is None:
        if output is not None:
            raise InputError(f"{name}: it works in place and has no output")
    else:
        if output is None:
            raise InputError(f"{name}: pass the array for the result as output")
        result = flat_bytes(output, request, count, f"{name}, the output of rank {rank}")
        if np.may_share_memory(data, result):
            raise InputError(f"{name}: buffer and output overlap; pass arrays of their own")
        if request.flows is not None:
            return FlowsOperation(communicator, request, data, result, register)
    algorithm = algorithm_of(request.collective, request.algorithm)
    algorithm.check(request)
    return algorithm.operation(communicator, request, data, result, register)
