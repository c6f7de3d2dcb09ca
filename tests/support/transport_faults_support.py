"""What tests of transport faults share with others."""

from __future__ import annotations

import numpy as np
from tests.support.memory_network import Faults
from tests.support.transport_pair import Pair, pattern

from weft.agents.transport import CompletionKind, TransportOptions

PATIENT = TransportOptions(retries=100)


SIZE = 256 * 9 + 7
"""Ten packets."""


def transfer(
    faults: Faults,
    *,
    batched: bool = True,
    rate_bps: int = 10**9,
    options: TransportOptions = PATIENT,
) -> tuple[Pair, int]:
    """Every kind of operation: each must complete once, in order, with the right bytes."""
    pair = Pair(rate_bps=rate_bps, faults=faults, batched=batched, options=options)
    written, read, data = np.zeros(SIZE, np.uint8), np.zeros(SIZE, np.uint8), pattern(SIZE)
    at_b = pair.b.register(written)
    at_a = pair.a.register(read)
    from_a = pair.a.register(data)
    pair.left.post_send(data.tobytes(), "send")
    pair.left.post_write(from_a, 0, SIZE, at_b.address, at_b.rkey, 5, "write")
    pair.left.post_read(at_a, 0, SIZE, at_b.address, at_b.rkey, "read")
    pair.left.post_send(b"end", "end", immediate=6)
    pair.right.post_send(b"", "back")
    end_ns = pair.settle()
    sent = [done for done in pair.at_a if done.kind is not CompletionKind.RECEIVED]
    assert [done.context for done in sent] == ["send", "write", "read", "end"]
    assert sent[2].kind is CompletionKind.READ_DONE
    arrived = [done for done in pair.at_b if done.context is None]
    assert [(done.kind, done.data, done.immediate, done.length) for done in arrived] == [
        (CompletionKind.RECEIVED, data.tobytes(), None, SIZE),
        (CompletionKind.WRITE_WITH_IMMEDIATE, b"", 5, SIZE),
        (CompletionKind.RECEIVED, b"end", 6, 3),
    ]
    assert [done.context for done in pair.at_b if done.kind is CompletionKind.SENT] == ["back"]
    assert (written == data).all() and (read == data).all()
    return pair, end_ns
