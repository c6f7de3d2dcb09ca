"""Simulated networks that tests run operations on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tests.support.fabric import fabric_plan
from tests.support.fault_lines import parse_faults
from tests.support.operations import gather

from weft.agents.datagrams import ipv4_text
from weft.agents.participant import Cast
from weft.agents.ranks import RankReport
from weft.agents.transport import TransportOptions
from weft.controller import Controller
from weft.controller.features.multicast import trees_of as multicast_trees
from weft.switch.compiler import compile_cached
from weft.topo.fabric_program import fabric_program
from weft.topo.network import Topology
from weft.topo.worlds.simulated.world import SimulatedWorld


class Network:
    """A simulated world with its controller, the multicast groups that it installed, and ranks
    whose source ports are drawn by the world's seed."""

    def __init__(self, world: SimulatedWorld, controller: Controller, groups: list[int]) -> None:
        self.world = world
        self.controller = controller
        self.groups = groups
        addresses = [host.ip for host in world.topology.hosts]
        team = Cast.of_one_team(addresses, [ipv4_text(group) for group in groups])
        self.cast = replace(team, transport=TransportOptions(port_seed=world.seed))

    def run(
        self, algorithm: str, shard_bytes: int, faults: Sequence[str] = (), **more: Any
    ) -> list[RankReport]:
        """Run one operation, with faults given as lines."""
        return self.world.run_operation(
            gather(algorithm, shard_bytes, **more),
            cast=self.cast,
            faults=parse_faults(faults, self.world.topology),
        )


@contextmanager
def network(
    topology: Topology, *, seed: int = 1, loss: float = 0.0, path_mtu: int = 4096
) -> Iterator[Network]:
    """Bring up a simulated network that runs fabric.p4."""
    world = SimulatedWorld(topology, seed=seed, path_mtu=path_mtu)
    program = compile_cached(fabric_program())
    with Controller(topology, world.switch_addresses, program) as controller:
        plan = fabric_plan(topology, seed=seed, loss=loss)
        controller.apply(plan)
        yield Network(world, controller, [group.address for group in multicast_trees(plan)])


def completion_ns(results: Sequence[RankReport]) -> int:
    """Of the slowest rank; all must have verified their data."""
    errors = [f"rank {result.rank}: {result.error}" for result in results if not result.verified]
    assert not errors, errors
    return max(result.completion_ns for result in results)
