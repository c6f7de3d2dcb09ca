"""All that runs on one host, on one endpoint: a rank's agent, a reduction server, or both;
sans-I/O.

What a rank and a server on the same host say to each other is no packet
(`weft.agents.transport.local`).
"""

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Protocol

from weft.agents.collectives.agent import HostAgent
from weft.agents.collectives.communicator import Communicator, Lane, Members, SwitchJob
from weft.agents.collectives.registry import partners
from weft.agents.collectives.requests import Request
from weft.agents.datagrams import ipv4
from weft.agents.servers.server import ReductionServer
from weft.agents.transport.endpoint import Endpoint
from weft.agents.transport.endpoint_agent import EndpointAgent
from weft.agents.transport.posting import Completion
from weft.agents.transport.types import TransportOptions
from weft.base.errors import refuse

TeamMember = tuple[int, int]
"""(team, member of it): ranks are members 0 to P - 1, servers P to P + S - 1."""
Introductions = dict[str, list[int]]
"""[queue pair number, initial PSN], of each lane, by ``team:member:peer``."""


@dataclass(frozen=True)
class Team:
    """A team is one communicator: who belongs to it, and what the network holds for it."""

    addresses: tuple[str, ...]
    """IPv4 address of every rank, in order of ranks."""
    servers: tuple[str, ...] = ()
    """The IPv4 address of every reduction server."""
    groups: tuple[str, ...] = ()
    """The multicast groups, spread over roots and workers. If there are none, nothing is
    multicast."""
    group_members: tuple[tuple[int, ...], ...] = ()
    """For each group, the ranks that are its members. Empty: all ranks are members of all."""
    aggregation: SwitchJob | None = None
    """What the switches know it as, if they add for it."""

    turns_from_next: bool = False
    """As `Communicator` has it."""
    epoch: int = 1
    """A number of the run that no run before it on this network had."""

    @cached_property
    def _numbers(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(map(ipv4, each)) for each in (self.addresses, self.servers, self.groups))

    def numbers(self) -> tuple[tuple[int, ...], ...]:
        """Return the addresses of ranks, servers and groups as integers: all ranks of a process ask
        for the same ones."""
        return self._numbers

    def is_member(self, rank: int, group: int) -> bool:
        """Return whether a rank is a member of the group of a number."""
        return not self.group_members or rank in self.group_members[group]

    @property
    def switch_values(self) -> int:
        """Return how many values an aggregation packet has, 0 if switches add nothing for the
        team."""
        return self.aggregation.values if self.aggregation else 0


@dataclass(frozen=True)
class Cast:
    """The teams of a run, and who plays what: the processes of the emulated world."""

    teams: tuple[Team, ...]
    roles: tuple[tuple[int, tuple[TeamMember, ...]], ...]
    """For each process, (number of the host in the topology, what runs there). Ranks come first,
    team by team, then hosts of servers alone."""
    lanes: Mapping[int, Mapping[int, tuple[Lane, ...]]] = field(default_factory=dict)
    """For each process, the lanes of its rank to each peer to which data takes paths that were
    chosen for it."""
    transport: TransportOptions = field(default_factory=TransportOptions)
    """The options of all endpoints."""

    def rank_of(self, process: int) -> TeamMember | None:
        """Return which rank of which team a process is, if any."""
        parts = self.roles[process][1]
        ranks = (part for part in parts if part[1] < len(self.teams[part[0]].addresses))
        return next(ranks, None)

    def partners(self, process: int, requests: Iterable[Request]) -> set[int]:
        """Return ranks that a process needs queue pairs with for these requests, beside those that
        every rank has; none for what is no rank."""
        rank = self.rank_of(process)
        if rank is None:
            return set()
        size = len(self.teams[rank[0]].addresses)
        return set().union(*(partners(request, rank[1], size) for request in requests))

    @staticmethod
    def of_one_team(addresses: Sequence[str], groups: Sequence[str] = ()) -> "Cast":
        """Return a cast in which every host is a rank."""
        team = Team(tuple(addresses), groups=tuple(groups))
        return Cast((team,), tuple((rank, ((0, rank),)) for rank in range(len(addresses))))


class Part(Protocol):
    """An agent that shares an endpoint with others: a rank of one communicator, a reduction server,
    a mailbox."""

    endpoint: Endpoint
    poll: Callable[[], list[Completion]]

    @property
    def attentive(self) -> bool: ...
    @property
    def waits_for_sent(self) -> bool: ...
    @property
    def due_ns(self) -> int | None: ...
    def has_event(self) -> bool: ...
    def look_after(self, now_ns: int, completions: Sequence[Completion] = ()) -> None: ...
    def serves(self, completion: Completion) -> bool: ...


class AgentGroup(EndpointAgent):
    """A group runs several agents on one endpoint; they may come and go.

    It has a `HostAgent`'s verbs for whoever drives it, and gives each agent the completions of its
    own queue pairs. A completion of an agent that has gone is nobody's.

    Args:
        parts: agents of this endpoint; they have no driver of their own.

    Raises:
        InputError: an agent of another endpoint.
    """

    def __init__(self, endpoint: Endpoint, parts: Sequence[Part] = ()) -> None:
        super().__init__(endpoint)
        self.parts: list[Part] = []
        self._completed: dict[int, list[Completion]] = {}
        """What each agent has not been told yet, by its `id`."""
        for part in parts:
            self.add(part)

    def add(self, part: Part) -> None:
        """Let one more agent share the endpoint. Raises InputError for one of another endpoint."""
        refuse(
            part.endpoint is not self.endpoint,
            "a host's agents share its endpoint; one of them has another",
        )
        self.parts.append(part)
        self._completed[id(part)] = []
        # It holds its agents, and they not it, or none would go by reference counting alone.
        part.poll = partial(_poll, weakref.ref(self), id(part))

    def remove(self, part: Part) -> None:
        """Let an agent go; nobody looks after it any more."""
        self.parts = [each for each in self.parts if each is not part]
        del self._completed[id(part)]
        part.poll = list

    def _sort(self) -> None:
        """Give each agent its completions."""
        for completion in self.endpoint.poll():
            for part in self.parts:
                if part.serves(completion):
                    self._completed[id(part)].append(completion)
                    break

    def completions_of(self, number: int) -> list[Completion]:
        """Return what an agent, known by its `id`, has not been told yet."""
        self._sort()
        completions, self._completed[number] = self._completed[number], []
        return completions

    @property
    def _pending(self) -> bool:
        return self.endpoint.has_completions or any(self._completed.values())

    @property
    def attentive(self) -> bool:
        """Return whether the group must be looked after whenever something arrives."""
        return any(part.attentive for part in self.parts)

    @property
    def waits_for_sent(self) -> bool:
        return any(part.waits_for_sent for part in self.parts)

    @property
    def due_ns(self) -> int | None:
        """Return when the group, apart from its endpoint, must be looked after; 0 means now."""
        if self._pending:
            return 0
        times = [part.due_ns for part in self.parts]
        return min((each for each in times if each is not None), default=None)

    def has_event(self) -> bool:
        """Return whether the rank's agent has an event."""
        return any(part.has_event() for part in self.parts)

    def _take_news(self, now_ns: int) -> None:
        if self._pending:
            self.look_after(now_ns)

    def look_after(self, now_ns: int, completions: Sequence[Completion] = ()) -> None:
        """Look after all agents, until no completions are left for any of them."""
        while True:
            for part in self.parts:
                part.look_after(now_ns)
            if not self._pending:
                return
            self._sort()  # if nobody asks for it, it is nobody's, and lets nobody wait


def _poll(home: weakref.ref[AgentGroup], number: int) -> list[Completion]:
    """Return an agent's completions; none once its host is gone."""
    host = home()
    return [] if host is None else host.completions_of(number)


class Participant:
    """A participant is one host's part in its teams.

    Args:
        members: what the host is: a rank, or a server of any number of teams, or both.
        partners: ranks that its rank needs a queue pair with beside those that every rank has.
        lanes: of its rank, by peer, as `Communicator` has them.

    Raises:
        InputError: a team's values make no sense.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        teams: Sequence[Team],
        members: Sequence[TeamMember],
        partners: Iterable[int] = (),
        lanes: Mapping[int, Sequence[Lane]] | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.agent: HostAgent | None = None
        self.server: ReductionServer | None = None
        self._members = tuple(members)
        for number, member in members:
            team = teams[number]
            addresses, servers, group_addresses = team.numbers()
            if member < len(addresses):
                groups = [
                    group if team.is_member(member, number) else None
                    for number, group in enumerate(group_addresses)
                ]
                communicator = Communicator(
                    endpoint,
                    member,
                    addresses,
                    groups,
                    partners,
                    servers,
                    team.aggregation,
                    lanes,
                    team.turns_from_next,
                    team.epoch,
                )
                self.agent = HostAgent(endpoint, communicator)
            else:
                self.server = self.server or ReductionServer(endpoint)
                self.server.add_job(number, member - len(addresses), addresses, servers)
        parts = [part for part in (self.agent, self.server) if part is not None]
        self.machine: EndpointAgent = parts[0] if len(parts) == 1 else AgentGroup(endpoint, parts)
        """What a driver serves."""

    @property
    def rank_agent(self) -> HostAgent:
        """Return the agent of a host that is a rank."""
        assert self.agent is not None
        return self.agent

    def introductions(self) -> Introductions:
        """Return what the others must be told of this host's queue pairs."""
        return {
            f"{team}:{member}:{peer}": [*entry]
            for team, member in self._members
            for peer, entry in self._known(team, member).introduction().items()
        }

    def connect(self, introductions: Mapping[str, Sequence[int]]) -> None:
        """Connect all queue pairs, given what all others say in their introductions, or those of
        them that concern this host.

        Raises:
            InputError: a peer's is lacking.
        """
        for team, member in self._members:
            known = self._known(team, member)
            names = {peer: f"{team}:{peer}:{member}" for peer in known.queue_pairs}
            found = {
                peer: tuple(introductions[name])
                for peer, name in names.items()
                if name in introductions
            }
            known.connect(found)

    def _known(self, team: int, member: int) -> Members:
        """Return the members of a team as this host knows them that is one of them."""
        if self.agent is not None and member == self.agent.communicator.rank:
            return self.agent.communicator
        assert self.server is not None
        return self.server.jobs[team].members
