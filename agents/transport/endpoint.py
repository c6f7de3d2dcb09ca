"""A host's network endpoint: memory regions, queue pairs, completions; sans-I/O.

The four verbs of every active thing: `receive`, `transmit`, `deadline`, and `poll` for what
happened. Whoever drives it calls `transmit` after every `receive` and every post, again until it
returns nothing, and at `deadline()`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from agents.datagrams import Datagrams
from agents.transport.queue_pairs import RcQueuePair, UdQueuePair
from agents.transport.types import Completion, MemoryRegion, Statistics, TransportOptions


class Endpoint:
    """One host's transport: RC and UD queue pairs that share an address and a link.

    `address` is the host's IPv4 address as an integer; `path_mtu` the RoCE payload of a packet
    (256, 512, 1024, 2048 or 4096 bytes); `rate_bps` the host's link rate, which paces everything
    that it sends in frame bytes (0: unlimited); `seed` gives QP numbers, first PSNs and keys.
    Same calls at the same times, same packets.
    """

    def __init__(
        self,
        address: int,
        path_mtu: int = 4096,
        rate_bps: int = 0,
        seed: int = 0,
        options: TransportOptions | None = None,
    ) -> None:
        self.address = address
        self.path_mtu = path_mtu
        self.rate_bps = rate_bps
        self.options = options or TransportOptions()

    def register(self, buffer: npt.NDArray[np.uint8]) -> MemoryRegion:
        """Let peers that show the key read and write a C-contiguous uint8 buffer (of any size,
        also 0)."""
        raise NotImplementedError

    def deregister(self, region: MemoryRegion) -> None:
        """Take it back: later requests for it are refused. Posted operations on it must have
        completed."""
        raise NotImplementedError

    def create_rc(self, source_port: int | None = None, tos: int = 0) -> RcQueuePair:
        """A new RC queue pair; `source_port` is the UDP source port of its packets (path entropy;
        by default from its number)."""
        raise NotImplementedError

    def create_ud(
        self, group_address: int, qkey: int, source_port: int | None = None, tos: int = 0
    ) -> UdQueuePair:
        """A new UD queue pair on a multicast group. The driver joins `groups`."""
        raise NotImplementedError

    @property
    def groups(self) -> list[int]:
        """The multicast groups of the UD queue pairs, which the host must be a member of."""
        raise NotImplementedError

    def receive(self, batch: Datagrams, now_ns: int) -> None:
        """Take in datagrams that arrived; the batch is not kept."""
        raise NotImplementedError

    def transmit(self, now_ns: int, budget_bytes: int = 1 << 62) -> Datagrams:
        """What to send now: at most `budget_bytes` of frames, at most one batch.

        Control (ACK, NAK, READ requests) goes first, then data, round robin over queue pairs. The
        batch belongs to the endpoint and is valid until the next `transmit`.
        """
        raise NotImplementedError

    def deadline(self) -> int | None:
        """When to call `transmit` if nothing arrives (ns; a time in the past means now), or
        None."""
        raise NotImplementedError

    def poll(self) -> list[Completion]:
        """What completed, failed or arrived since the last poll, in order."""
        raise NotImplementedError

    @property
    def statistics(self) -> Statistics:
        """A copy of the counters."""
        raise NotImplementedError
