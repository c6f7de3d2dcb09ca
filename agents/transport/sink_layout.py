"""The records of what receives multicast chunks: sinks, and receive workers."""

from weft.agents.transport.layout import EndpointState
from weft.base.jit import Record, record


@record
class WorkerState(Record):
    """A receive worker: an endpoint without queue pairs, and a staging ring."""

    endpoint: EndpointState
    staging: int
    """Address of the staging ring's slots; 0 where payloads go straight to their places."""
    slots: int
    slot_bytes: int
    completions: int
    """Address of a completion entry for each slot."""
    staged: int
    """How many payloads have gone into the ring, ever, and how many of them have been polled."""
    polled: int
    window: int
    """How many completions a poll takes at most."""
    round: int
    """Odd while a batch is being received."""


@record
class Staged(Record):
    """The completion entry of a slot of a staging ring."""

    source: int
    destination: int
    qkey: int
    immediate: int
    length: int


@record
class SinkState(Record):
    """A record holds the state of a chunk sink."""

    operation: int
    chunk_bytes: int
    shards: int
    chunks: int
    missing: int
    duplicates: int
    out_of_bounds: int
    received: int
    buffer: int
    present: int
    fetched: int
    """Address of a byte a chunk, written only by who marks chunks; everything else in these words
    is written only where packets arrive."""
    marked: int
    """Address of how many bytes of SINK_FETCHED are set."""
    whole_before: int
    """No chunk before this one is missing: where the search for a gap goes on."""
    tables: int
    """Address of int64[5 * shards + 1], per shard: missing[shards], offset[shards], size[shards],
    first chunk[shards + 1], and the address of the host that may send it[shards], or 0."""
