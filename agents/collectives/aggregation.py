"""A communicator's aggregation job: what a rank must know of the switches that add for it.

The job is the controller's: it installs its entries in a tree of switches and gives it an address
and an epoch. `aggregation_operation` has the collectives.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass

from weft.agents.datagrams import ipv4
from weft.agents.transport.aggregation import AggregationQueuePair
from weft.agents.transport.endpoint import Endpoint
from weft.agents.transport.types import TransportMisuse
from weft.base.errors import InputError

SLOTS = 128
"""N: rounds of a job under way at a time. With 256 values a packet, 11.5 ms at 100 Mbit/s."""


@dataclass(frozen=True)
class SwitchJob:
    """One communicator on one tree of switches.

    Raises:
        InputError: a value makes no sense.
    """

    address: str
    """The IPv4 multicast address of its packets, like ``239.255.0.1``."""
    epoch: int
    """A number that no job before it had, so that nothing is taken for its own that another left
    (32 bits, from 1 on)."""
    slots: int = SLOTS
    """N of the pool: a power of 2."""
    values: int = 256
    """V: 32-bit values of a packet, as the switches' program has it."""

    def __post_init__(self) -> None:
        for name in ("epoch", "slots", "values"):
            value = getattr(self, name)
            try:
                object.__setattr__(self, name, operator.index(value))
            except TypeError as error:
                raise InputError(f"aggregation job: {name} {value!r} is no whole number") from error
        try:
            ipv4(self.address)
        except ValueError as error:
            raise InputError(
                f"aggregation job: address {self.address!r} is no IPv4 address"
            ) from error


def join(
    endpoint: Endpoint, job: SwitchJob, rank: int, ranks: int, source_port: int
) -> AggregationQueuePair:
    """Make an endpoint a job's worker.

    Raises:
        InputError: the job makes no sense, or its packets do not fit the path MTU.
    """
    try:
        return endpoint.create_aggregation(
            ipv4(job.address), job.epoch, slots=job.slots, values=job.values, ranks=ranks,
            rank=rank, source_port=source_port,
        )  # fmt: skip
    except TransportMisuse as error:
        raise InputError(f"aggregation job: {error}") from error
