"""The relays of an endpoint, which compiled code finds by their operations."""

import numpy as np

from weft.agents.transport import layout as at
from weft.agents.transport import relay_layout as at_relay
from weft.agents.transport.kernels.relay import OPERATIONS
from weft.base.jit import Words


class AttachedRelays:
    """The relays that have the blocks of their operations, which come by an endpoint's queue
    pairs."""

    def __init__(self, state: at.EndpointState) -> None:
        self._state = state
        self._relays: dict[int, list[at_relay.RelayState]] = {}
        """By their operations' numbers, which those of several communicators share."""
        self._table: Words | None = None

    def __len__(self) -> int:
        return sum(map(len, self._relays.values()))

    def attach(self, relay: at_relay.RelayState) -> None:
        """Let a relay have the blocks of its operation that come by its queue pairs."""
        if self._table is None:
            self._table = np.zeros(OPERATIONS, np.int64)
            self._state.relay_table = self._table.ctypes.data
        self._relays.setdefault(relay.operation, []).append(relay)
        self._link(self._table)

    def detach(self, relay: at_relay.RelayState) -> None:
        """Let a relay have no more blocks."""
        alike = self._relays.get(relay.operation, [])
        left = [each for each in alike if each is not relay]
        if self._table is not None and len(left) < len(alike):
            self._relays[relay.operation] = left
            self._link(self._table)
            if not left:
                del self._relays[relay.operation]

    def _link(self, table: Words) -> None:
        following = 0
        for operation, alike in reversed(self._relays.items()):
            like_it = 0
            for relay in reversed(alike):
                relay.next_relay, relay.next_alike = following, like_it
                following = like_it = relay.location
            table[operation] = like_it
        self._state.first_relay = following
