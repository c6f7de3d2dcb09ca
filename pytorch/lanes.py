"""The communicators of a process group: each has an order of collectives of its own."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from weft.agents.collectives.names import ALGORITHMS
from weft.base.errors import RunError
from weft.pytorch.callbacks import in_callback
from weft.pytorch.choices import Choices
from weft.pytorch.errors import refuse
from weft.pytorch.groups import Group
from weft.pytorch.meeting import Meeting
from weft.pytorch.session import Session


@dataclass
class Lane:
    """A communicator of a group's ranks, with its own order of collectives."""

    network: Group
    choices: Choices
    messages: int = 0
    """How many collectives have been done by messages."""

    def next_tag(self, call: str) -> int:
        """Return the tag of the messages of the next collective that consists of some: those of
        programs are not negative. What is called is in it, so that nobody takes the messages of
        another collective for its own."""
        self.messages += 1
        return -1 - ((self.messages & 0x3FFF) << 16 | crc32(call.encode()) & 0xFFFF)


class Lanes:
    """The communicators of a process group."""

    def __init__(self, meeting: Meeting, shared: Session, size: int) -> None:
        self._meeting = meeting
        self._shared = shared
        self._size = size
        self._lock = threading.Lock()
        self.own = self._new("weft")
        """By which the program's own operations go."""
        self._of_callbacks: Lane | None = None
        """By which collectives go that callbacks begin; it is made for the first of them."""
        self._of_flows: dict[tuple[tuple[int, ...], ...], Group] = {}
        """Communicators that carry flows, by the ranks of their multicast groups."""

    def _new(self, key: str) -> Lane:
        """Make a communicator of the group's ranks, with what the switches hold for it."""
        shared = self._shared
        steps = (step for choice in shared.choices.values() for step in choice.steps)
        used = [ALGORITHMS[algorithm] for _, algorithm in steps]
        group, made = self._meeting.group(
            key,
            multicast=any(each.multicasts for each in used),
            aggregation=any(each.adds for each in used),
            serves=any(each.serves for each in used),
        )
        return Lane(
            group,
            Choices(shared.choices, bool(made.groups), made.job is not None, shared.notes),
        )

    @property
    def current(self) -> Lane:
        """By what a collective goes that this thread begins. Callbacks have a communicator of
        their own, since they run beside the program: the order of what they begin among its own
        collectives is not the same on all ranks."""
        if not in_callback() or self._size == 1:
            return self.own
        with self._lock:
            if self._of_callbacks is None:
                self._of_callbacks = self._new("weft callbacks")
            return self._of_callbacks

    def of_flows(self, what: str, subsets: tuple[tuple[int, ...], ...]) -> Group:
        """Return a communicator that carries flows.

        Args:
            what: what the operation is called.
            subsets: the ranks of each of its multicast groups.

        Raises:
            RunError: the switches cannot hold these groups.
        """
        if subsets not in self._of_flows:
            key = f"weft flows {len(self._of_flows)}"
            group, made = self._meeting.group(key, multicast=bool(subsets), subsets=subsets)
            self._of_flows[subsets] = group
            refuse(
                len(made.groups) < len(subsets),
                f"{what}: {made.note or 'the switches hold no multicast groups for it'}; choose a "
                "strategy of unicast, like broadcast",
                RunError,
            )
        return self._of_flows[subsets]

    def leave(self) -> None:
        """Leave all of them."""
        lanes: Sequence[Lane] = [lane for lane in (self.own, self._of_callbacks) if lane]
        for group in (*(lane.network for lane in lanes), *self._of_flows.values()):
            self._shared.network.drop_group(group)
