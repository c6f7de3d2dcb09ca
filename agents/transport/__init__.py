"""Reliable unicast (RC) and multicast datagrams (UD) of RoCEv2, and sums by switches, without
sockets and without a clock."""

from weft.agents.transport.aggregation import (
    AggregationQueuePair,
    DataKind,
    Reduction,
)
from weft.agents.transport.endpoint import Endpoint
from weft.agents.transport.posting import Completion
from weft.agents.transport.queue_pairs import RcQueuePair, UdQueuePair
from weft.agents.transport.receive_worker import ReceiveWorker
from weft.agents.transport.sink import ChunkSink
from weft.agents.transport.types import (
    AggregationStatistics,
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
