"""All that runs on one host, on one endpoint: a rank's agent, a reduction server, or both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from weft.agents.agent_group import AgentGroup
from weft.agents.collectives.agent import HostAgent
from weft.agents.collectives.aggregation import SwitchJob
from weft.agents.collectives.communicator import Communicator, Lane
from weft.agents.collectives.registry import partners
from weft.agents.collectives.requests import Request
from weft.agents.datagrams import ipv4
from weft.agents.servers.server import ReductionServer
from weft.agents.transport.endpoint import Endpoint
from weft.agents.transport.types import TransportOptions

TeamMember = tuple[int, int]
"""(team, member of it): ranks are members 0 to P - 1, servers P to P + S - 1."""
Introductions = dict[str, list[int]]
"""[queue pair number, initial PSN], of each lane, by ``team:member:peer``."""


@dataclass(frozen=True)
class Team:
    """One communicator: who belongs to it, and what the network holds for it."""

    addresses: tuple[str, ...]
    """IPv4 address of every rank, in order of ranks."""
    servers: tuple[str, ...] = ()
    """Of every reduction server."""
    groups: tuple[str, ...] = ()
    """Multicast groups, spread over roots and workers. Empty: no multicast."""
    aggregation: SwitchJob | None = None
    """What the switches know it as, if they add for it."""

    @property
    def switch_values(self) -> int:
        """Values of an aggregation packet, 0 if switches add nothing for it."""
        return self.aggregation.values if self.aggregation else 0


@dataclass(frozen=True)
class Cast:
    """The teams of a run, and who plays what: the processes of the emulated world."""

    teams: tuple[Team, ...]
    roles: tuple[tuple[int, tuple[TeamMember, ...]], ...]
    """By process, (number of the host in the topology, what runs there): the ranks first, team by
    team, then hosts of servers alone."""
    lanes: Mapping[int, Mapping[int, tuple[Lane, ...]]] = field(default_factory=dict)
    """By process, the lanes of its rank by peer, where data takes paths chosen for it."""
    transport: TransportOptions = field(default_factory=TransportOptions)
    """Of all endpoints."""

    def rank_of(self, process: int) -> TeamMember | None:
        """Which rank of which team a process is, if any."""
        for team, member in self.roles[process][1]:
            if member < len(self.teams[team].addresses):
                return team, member
        return None

    def partners(self, process: int, requests: Iterable[Request]) -> set[int]:
        """Ranks that a process needs queue pairs with for these requests, beside those that every
        rank has; none for what is no rank."""
        found: set[int] = set()
        rank = self.rank_of(process)
        if rank is not None:
            size = len(self.teams[rank[0]].addresses)
            found.update(*(partners(request, rank[1], size) for request in requests))
        return found

    @staticmethod
    def of_one_team(addresses: Sequence[str], groups: Sequence[str] = ()) -> Cast:
        """Every host is a rank."""
        team = Team(tuple(addresses), groups=tuple(groups))
        return Cast((team,), tuple((rank, ((0, rank),)) for rank in range(len(addresses))))


class Participant:
    """One host's part in its teams.

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
            addresses = [ipv4(address) for address in team.addresses]
            servers = [ipv4(address) for address in team.servers]
            if member < len(addresses):
                groups = [ipv4(group) for group in team.groups]
                communicator = Communicator(
                    endpoint,
                    member,
                    addresses,
                    groups,
                    partners,
                    servers,
                    team.aggregation,
                    lanes,
                )
                self.agent = HostAgent(endpoint, communicator)
            else:
                self.server = self.server or ReductionServer(endpoint)
                self.server.add_job(number, member - len(addresses), addresses, servers)
        parts = [part for part in (self.agent, self.server) if part is not None]
        self.machine: HostAgent | ReductionServer | AgentGroup = parts[0]
        """What a driver serves."""
        if len(parts) > 1:
            self.machine = AgentGroup(endpoint, parts)

    @property
    def rank_agent(self) -> HostAgent:
        """The agent of a host that is a rank."""
        assert self.agent is not None
        return self.agent

    def introductions(self) -> Introductions:
        """What the others must be told of this host's queue pairs."""
        return {
            f"{team}:{member}:{peer}": [*entry]
            for team, member in self._members
            for peer, entry in self._introduction(team, member).items()
        }

    def connect(self, introductions: Mapping[str, Sequence[int]]) -> None:
        """Connect all queue pairs, given what all others say in their introductions, or those of
        them that concern this host.

        Raises:
            InputError: a peer's is lacking.
        """
        for team, member in self._members:
            found: dict[int, tuple[int, ...]] = {}
            for peer in self._introduction(team, member):
                entry = introductions.get(f"{team}:{peer}:{member}")
                if entry is not None:
                    found[peer] = tuple(entry)
            if self._is_rank(member):
                self.rank_agent.communicator.connect(found)
            else:
                assert self.server is not None
                self.server.connect(team, found)

    def _introduction(self, team: int, member: int) -> Mapping[int, tuple[int, ...]]:
        if self._is_rank(member):
            return self.rank_agent.communicator.introduction()
        assert self.server is not None
        return self.server.introduction(team)

    def _is_rank(self, member: int) -> bool:
        return self.agent is not None and member == self.agent.communicator.rank
