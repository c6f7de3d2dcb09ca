"""Two connected endpoints for the tests of the transport."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from tests.support.memory_network import Faults, MemoryNetwork

from weft.agents.datagrams import ipv4
from weft.agents.transport import Completion, Endpoint, TransportOptions

A, B = ipv4("10.0.0.1"), ipv4("10.0.1.2")


def pattern(size: int, seed: int = 1) -> npt.NDArray[np.uint8]:
    """Bytes that repeat nowhere near."""
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


class Pair:
    """Endpoints `a` and `b` with the queue pairs `left` and `right`, joined by a network."""

    def __init__(
        self,
        *,
        path_mtu: int = 256,
        rate_bps: int = 0,
        faults: Faults | None = None,
        connected: bool = True,
        first_psn: int | None = None,
        batched: bool = True,
        keep_trace: bool = False,
        options: TransportOptions | None = None,
        queue_bytes: int | None = None,
    ) -> None:
        self.a = Endpoint(A, path_mtu, rate_bps, seed=1, options=options)
        self.b = Endpoint(B, path_mtu, rate_bps, seed=1, options=options)
        self.left = self.a.create_rc(initial_psn=first_psn)
        self.right = self.b.create_rc(initial_psn=first_psn)
        self.network = MemoryNetwork(
            [self.a, self.b],
            rate_bps=rate_bps,
            faults=faults,
            batched=batched,
            keep_trace=keep_trace,
            queue_bytes=queue_bytes,
        )
        self.at_a: list[Completion] = []
        self.at_b: list[Completion] = []
        if connected:
            self.connect()

    def connect(self) -> None:
        self.left.connect(self.right.local)
        self.right.connect(self.left.local)

    def settle(self, timeout_ns: int = 60_000_000_000) -> int:
        """Run until nothing is left to happen; returns the time."""
        end_ns = self.network.settle(timeout_ns)
        self.at_a.extend(self.a.poll())
        self.at_b.extend(self.b.poll())
        return end_ns
