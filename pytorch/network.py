"""The network of one process, which its groups of ranks share."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict
from typing import TypeVar

from weft.agents.collectives.fixed_point import SATURATED, FixedPoint
from weft.agents.collectives.operation import OperationReport
from weft.agents.datagrams import ipv4
from weft.agents.drivers.background import Background
from weft.agents.transport.endpoint import Endpoint
from weft.base.errors import RunError
from weft.pytorch.group_agents import GroupAgents
from weft.pytorch.groups import CallPlace, Group
from weft.pytorch.liveness import Liveness
from weft.pytorch.messages import (
    AskBegun,
    Begun,
    DropGroup,
    GroupLost,
    GroupMade,
    Late,
    RankEnded,
    RankFinished,
    RunnerLink,
    Settings,
    Silent,
    TreeMoved,
    WhoIsLate,
)
from weft.pytorch.switch_watch import SwitchWatch

SENT_S = 5.0
"""How long a rank that has come to its end waits until what it has sent has come."""
LOOK_S = 0.01

Found = TypeVar("Found")


class ProcessNetwork:
    """The network of one process: an endpoint in the fabric and the groups that share it.

    Args:
        settings: of this process.

    Raises:
        MachineError: the sockets cannot be made, or the runner does not listen.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.endpoint = Endpoint(
            ipv4(settings.addresses[settings.rank]),
            settings.path_mtu,
            settings.rate_bps,
            seed=settings.seed * len(settings.addresses) + settings.rank,
            options=settings.transport,
            epoch=settings.epoch,
        )
        self._groups: list[Group] = []
        self.failure = ""
        """Why nothing works any more, or empty."""
        self._left: dict[str, int] = {}
        """How many collectives were begun in groups that this process has left."""
        self.ended = ""
        """Which rank of the run has ended before its time, if any, in words."""
        self.fixed_point = FixedPoint()
        """What blocks lost to the fixed point of switches, in all groups,"""
        self.blocks_saturated = 0
        """and in how many a sum did not fit into their 32 bits."""
        self._told_late: dict[int, Callable[[str], None]] = {}
        """Who waits to be told who is late, by the key of the question."""
        self._next_key = 0
        self.background = Background(
            self.endpoint, settings.interface, self._attend, self._fail_all
        )
        self.background.agents.add(
            SwitchWatch(
                self.endpoint, lambda: any(group.adds for group in self._groups), self._look
            )
        )
        self._liveness = Liveness(self.endpoint, settings.interface)
        self.background.agents.add(self._liveness)
        self.runner = RunnerLink(settings, self._heard)
        self.background.start()

    def call(self, work: Callable[[], Found]) -> Found:
        """Do something in the network's thread, and return what it returns, or raise what it
        raises."""
        found: Future[Found] = Future()

        def doing() -> None:
            try:
                found.set_result(work())
            except BaseException as error:
                found.set_exception(error)

        self.background.post(doing)
        return found.result()

    def make_group(
        self,
        name: str,
        rank: int,
        members: Sequence[int],
        made: GroupMade,
        *,
        serves: bool,
        subsets: Sequence[Sequence[int]] = (),
    ) -> Group:
        """Make a group of ranks of the run; it must be connected.

        Args:
            rank: this process's rank in the group.
            members: ranks of the run, in the order of the group's own.
            made: what the switches hold for it.
            serves: whether each rank's host is a reduction server for it, too.
            subsets: the group's ranks that are members of each multicast group; by default all.
        """
        addresses = [ipv4(self.settings.addresses[member]) for member in members]

        def make() -> Group:
            agents = GroupAgents(
                self.endpoint, self.background, rank, addresses, made, serves=serves,
                subsets=subsets,
            )  # fmt: skip
            group = Group(
                self.background, agents, name, made.name, members, self.ask_who_is_late, self.count
            )
            group.failure = self.failure
            self._groups.append(group)
            self.background.driver.join_groups()
            return group

        return self.call(make)

    def drop_group(self, group: Group) -> None:
        """Forget a group, once what is under way in it has ended. When all of its ranks have done
        so, the switches forget it, too."""

        def drop() -> None:
            group.leaving = True
            self._attend()

        with suppress(RunError):
            self.call(drop)

    def _let_go(self, group: Group) -> None:
        """Let a group go in which nothing is under way any more."""
        self._groups.remove(group)
        self._left[group.name_in_switches] = group.begun
        group.leave()
        self.background.driver.join_groups()
        self.runner.say(DropGroup(group.name_in_switches))

    def finish(self) -> dict[str, int]:
        """Wait until what was sent has come, for a while at most, and return how many collectives
        were begun in each group, by what the runner calls it."""
        end_s = time.monotonic() + SENT_S
        while self.call(lambda: any(group.sending for group in self._groups)):
            if time.monotonic() > end_s:
                break
            time.sleep(LOOK_S)
        return self.call(self._begun)

    def ask_who_is_late(self, group: Group, place: CallPlace, told: Callable[[str], None]) -> None:
        """Ask who has not begun a collective, in the network's thread; the answer, in words, comes
        there, too."""
        self._next_key += 1
        self._told_late[self._next_key] = told
        self.runner.say(
            WhoIsLate(group.name_in_switches, group.members, place.number, self._next_key)
        )

    def _look(self, now_ns: int) -> None:
        """Tell the runner of sums of switches that do not come."""
        for group in self._groups:
            waits = group.waits_for_switches(now_ns)
            if waits is not None:
                place, first = waits
                self.runner.say(Silent(group.name_in_switches, group.members, place.number, first))

    def count(self, report: OperationReport) -> None:
        """Count what a collective has lost in switches."""
        self.fixed_point += report.fixed_point
        self.blocks_saturated += report.blocks_saturated

    def statistics(self) -> dict[str, int]:
        """Return the counters of transport and driver; and those of fixed point, if something was
        lost to it, and of sums that did not fit."""
        return {
            **asdict(self.endpoint.statistics), **self.background.driver.counters(),
            **self.fixed_point.statistics(),
            **({SATURATED: self.blocks_saturated} if self.blocks_saturated else {}),
        }  # fmt: skip

    def close(self) -> None:
        """End the thread and close all sockets."""
        self.background.close()
        self._liveness.close()
        self.runner.close()

    def _attend(self) -> None:
        for group in list(self._groups):
            group.take_events()
            if group.leaving and not group.busy:
                self._let_go(group)

    def _fail_all(self, reason: str) -> None:
        self.failure = reason
        for group in list(self._groups):
            group.fail(reason)

    def _heard(self, message: object) -> None:
        """Take what the runner says, in the thread that reads it."""

        def take() -> None:
            match message:
                case None:
                    self._fail_all("the runner is gone")
                case RankFinished():
                    for group in self._groups_of(message.rank):
                        group.finished(message.rank, message.begun)
                case RankEnded():
                    lost = f"lost rank {message.rank} of the run: its process {message.how}"
                    self.ended = self.ended or lost
                    for group in self._groups_of(message.rank):
                        group.fail(lost)
                case Late() if told := self._told_late.pop(message.key, None):
                    told(message.text)
                case GroupLost():
                    for group in self._groups_named(message.name):
                        group.fail(message.reason)
                case TreeMoved():
                    for group in self._groups_named(message.name):
                        group.tree_moved(message.epoch)
                case AskBegun() if (begun := self._begun().get(message.name)) is not None:
                    self.runner.say(Begun(message.name, begun))

        with suppress(RunError):
            self.background.post(take)

    def _begun(self) -> dict[str, int]:
        """Return how many collectives were begun in each group, by what the runner calls it."""
        return {**self._left, **{group.name_in_switches: group.begun for group in self._groups}}

    def _groups_of(self, rank: int) -> list[Group]:
        """Return the groups that a rank of the run is in."""
        return [group for group in self._groups if rank in group.members]

    def _groups_named(self, name: str) -> list[Group]:
        """Return the groups that the runner calls so."""
        return [group for group in self._groups if group.name_in_switches == name]
