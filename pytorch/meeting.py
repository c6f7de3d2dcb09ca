"""How the ranks of a group find each other, and become a communicator: by torch's store."""

import time
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import msgspec

from weft.base.errors import RunError, refuse
from weft.pytorch.group_agents import Introduction
from weft.pytorch.groups import Group
from weft.pytorch.messages import GroupMade, MakeGroup
from weft.pytorch.network import ProcessNetwork

LOOK_S = 0.01
"""Between two looks for what other ranks have said in the store."""


class Meeting:
    """A meeting of the ranks of a group.

    Args:
        store: of the group alone.
        rank, size: of this process in the group.
        name: what messages call the group.
        timeout_s: how long others are waited for.
    """

    def __init__(
        self, store: Any, rank: int, size: int, name: str, timeout_s: float, network: ProcessNetwork
    ) -> None:
        self._store = store
        self._rank = rank
        self._size = size
        self._name = name
        self._timeout_s = timeout_s
        self._network = network

    def group(
        self,
        key: str,
        *,
        multicast: bool = False,
        aggregation: bool = False,
        serves: bool = False,
        subsets: Sequence[Sequence[int]] = (),
    ) -> tuple[Group, GroupMade]:
        """Make a communicator, and return it when the queue pairs of all ranks are connected; also
        what the switches hold for it. All ranks ask for the same.

        Args:
            key: tells the communicator from others of the same group.
            multicast, aggregation: what switches are to hold for it.
            serves: whether each rank's host is a reduction server for it.
            subsets: ranks that have a multicast group each, in place of groups of all.

        Raises:
            RunError: a rank has ended, or did not come in time.
        """
        network, store = self._network, self._store
        # A group that is made anew may have the name, and the store, of one that is gone.
        arrived = f"{key}/of {self._size}/{self._rank}"
        key = f"{key}/of {self._size}/number {store.add(arrived, 1)}"
        store.set(f"{key}/member/{self._rank}", str(network.settings.rank))
        members, made = self._asked(key, multicast, aggregation, subsets)
        group = network.make_group(
            self._name, self._rank, members, made, serves=serves, subsets=subsets
        )
        store.set(
            f"{key}/queue pairs/{self._rank}", msgspec.json.encode(group.agents.introduction())
        )
        texts = [self._told(f"{key}/queue pairs/{other}") for other in range(self._size)]
        introductions = [msgspec.json.decode(text, type=Introduction) for text in texts]
        network.call(lambda: group.agents.connect(self._name, introductions))
        # Before all are connected, nobody sends: it would not be understood.
        store.set(f"{key}/connected/{self._rank}", "")
        for other in range(self._size):
            self._told(f"{key}/connected/{other}")
        return group, made

    def _asked(
        self, key: str, multicast: bool, aggregation: bool, subsets: Sequence[Sequence[int]]
    ) -> tuple[list[int], GroupMade]:
        """Return which ranks of the run the group has, and what the switches hold for it: its rank
        0 asks, and tells the others."""
        if self._rank:
            texts = self._told(f"{key}/members"), self._told(f"{key}/made")
            members = msgspec.json.decode(texts[0], type=list[int])
            return members, msgspec.json.decode(texts[1], type=GroupMade)
        members = [int(self._told(f"{key}/member/{other}")) for other in range(self._size)]
        # A group that is made anew may have the name of one that is not quite gone.
        name = f"{self._name}-{uuid4().hex[:8]}"
        made = GroupMade(name, [])
        if self._size > 1 and (multicast or aggregation):
            of_run = [[members[rank] for rank in subset] for subset in subsets]
            made = self._network.runner.make_group(
                MakeGroup(name, members, multicast, aggregation, of_run)
            )
        self._store.set(f"{key}/members", msgspec.json.encode(members))
        self._store.set(f"{key}/made", msgspec.json.encode(made))
        return members, made

    def _told(self, key: str) -> bytes:
        """Return what another rank says in the store, once it is there."""
        end_s = time.monotonic() + self._timeout_s
        while not self._store.check([key]):
            lost = self._network.failure or self._network.ended
            refuse(lost, f"group {self._name}: {lost}", RunError)
            if time.monotonic() > end_s:
                raise RunError(
                    f"group {self._name}: timeout: not all ranks came within {self._timeout_s:g} "
                    f"s; {key!r} of rank {self._rank_of(key)} of the group is missing"
                )
            time.sleep(LOOK_S)
        found: bytes = self._store.get(key)
        return found

    @staticmethod
    def _rank_of(key: str) -> str:
        """Return which rank of the group says what has a key; rank 0 says what has no number."""
        last = key.rpartition("/")[2]
        return last if last.isdecimal() else "0"
