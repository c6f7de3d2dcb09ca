"""The multicast groups of an endpoint, which compiled code looks for packets' addresses in."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from weft.agents.datagrams import ipv4_text
from weft.agents.transport import layout as at
from weft.agents.transport.types import TransportMisuse
from weft.base.jit import Words


def check_group(address: int) -> None:
    """Raise TransportMisuse if an IPv4 address is not that of a multicast group."""
    if address >> 28 != 14:
        raise TransportMisuse(
            f"{ipv4_text(address)} is no multicast group: 224.0.0.0 to 239.255.255.255"
        )


class MulticastGroups:
    """The multicast groups of an endpoint's UD queue pairs, in a table with a row for each."""

    def __init__(self, state: at.EndpointState) -> None:
        self._state = state
        self._table: npt.NDArray[np.void] = np.zeros(1, at.GroupRow.dtype)
        state.group_table = self._table.ctypes.data

    def add(self, addresses: Sequence[int], qkey: int, queue_pairs: Sequence[int]) -> range:
        """Let each of some queue pairs have a group's packets, and return the groups' rows."""
        used = self._state.groups
        end = used + len(addresses)
        if end > len(self._table):
            table = np.zeros(max(end, 2 * used), at.GroupRow.dtype)
            table[:used] = self._table[:used]
            self._table = table
            self._state.group_table = table.ctypes.data
        rows = self._table[used:end]
        rows["address"], rows["qkey"], rows["queue_pair"] = addresses, qkey, queue_pairs
        self._state.groups = end
        return range(used, end)

    def leave(self, row: int) -> None:
        """Let a queue pair have no more packets of its group."""
        self._table["address"][row] = 0

    def sinks_of(self, row: int) -> Words:
        """Return the addresses of a group's sinks, by operation. They are valid until the next
        group is added."""
        return at.GroupRow.at(self._state.group_table, row).sinks

    @property
    def addresses(self) -> list[int]:
        """The groups' addresses; 0 for one that was left."""
        addresses: list[int] = self._table["address"][: self._state.groups].tolist()
        return addresses
