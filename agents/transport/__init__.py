"""Reliable unicast (RC) and multicast datagrams (UD) of RoCEv2, and sums by switches, without
sockets and without a clock."""

from agents.transport.aggregation import (
    AggregationQueuePair,
    AggregationStatistics,
    DataKind,
    Reduction,
)
from agents.transport.endpoint import Endpoint
from agents.transport.queue_pairs import RcQueuePair, UdQueuePair
from agents.transport.receive_worker import ReceiveWorker
from agents.transport.sink import ChunkSink
from agents.transport.types import (
    Completion,
    CompletionKind,
    Gap,
    MemoryRegion,
    RemoteQueuePair,
    Statistics,
    TransportMisuse,
    TransportOptions,
)

__all__ = [
    "AggregationQueuePair",
    "AggregationStatistics",
    "ChunkSink",
    "Completion",
    "CompletionKind",
    "DataKind",
    "Endpoint",
    "Gap",
    "MemoryRegion",
    "RcQueuePair",
    "ReceiveWorker",
    "Reduction",
    "RemoteQueuePair",
    "Statistics",
    "TransportMisuse",
    "TransportOptions",
    "UdQueuePair",
]
