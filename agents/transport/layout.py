"""Where things are in the int64 arrays that compiled transport code works on."""

from __future__ import annotations

# A chunk sink: these words, then per shard: missing[shards], offset[shards], size[shards], first
# chunk[shards + 1].
SINK_OPERATION = 0
SINK_CHUNK_BYTES = 1
SINK_SHARDS = 2
SINK_CHUNKS = 3
SINK_MISSING = 4
SINK_DUPLICATES = 5
SINK_OUT_OF_BOUNDS = 6
SINK_RECEIVED = 7
SINK_BUFFER = 8
SINK_PRESENT = 9
SINK_WORDS = 10
