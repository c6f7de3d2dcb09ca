"""The controller over a network of real packets: namespaces, veth pairs, either kind of switch."""

from __future__ import annotations

import contextlib
import shutil
import socket
from collections.abc import Iterator
from typing import Literal, cast

import pytest
from tests.support.emulated_support import needs_machine, wait_until
from tests.support.fabric import fabric_plan
from tests.support.p4runtime_support import FABRIC

from weft.controller import Controller
from weft.controller.features.multicast import trees_of as multicast_trees
from weft.switch.compiler import compile_cached
from weft.topo.clos import format_ipv4, leaf_spine
from weft.topo.worlds.emulated.namespaces import in_namespace
from weft.topo.worlds.emulated.switch_processes import BMV2
from weft.topo.worlds.emulated.world import EmulatedWorld

pytestmark = [needs_machine, pytest.mark.system]

NETWORK = leaf_spine(2, 2, 1)
PORT = 4791


@pytest.fixture(params=["weft", "bmv2"])
def network(request: pytest.FixtureRequest) -> Iterator[tuple[EmulatedWorld, Controller]]:
    if request.param == "bmv2" and shutil.which(BMV2) is None:
        pytest.skip(f"{BMV2} (BMv2) is not on PATH")
    kind = cast(Literal["weft", "bmv2"], request.param)
    program = compile_cached(FABRIC)
    with (
        EmulatedWorld(NETWORK, kind) as world,
        Controller(NETWORK, world.switch_addresses, program) as controller,
    ):
        yield world, controller


def open_socket(world: EmulatedWorld, rank: int, group: str | None = None) -> socket.socket:
    """A UDP socket in a host's namespace, a member of a group if one is given."""

    def make() -> socket.socket:
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("", PORT))
        udp.settimeout(120)
        if group is not None:
            address = socket.inet_aton(NETWORK.hosts[rank].ip)
            membership = socket.inet_aton(group) + address
            udp.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
            udp.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, address)
            udp.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 64)
            udp.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
        return udp

    return in_namespace(world.host_pid(rank), make)


def payload(number: int) -> bytes:
    """As long as a RoCEv2 transport header at least: the switches parse one on this port."""
    return b"number %d" % number + bytes(16)


def test_routes_groups_loss_and_counters_hold_for_real_packets(
    network: tuple[EmulatedWorld, Controller],
) -> None:
    world, controller = network
    plan = fabric_plan(NETWORK)
    controller.apply(plan)
    group = format_ipv4(multicast_trees(plan)[0].address)
    with contextlib.ExitStack() as stack:
        one, other = (stack.enter_context(open_socket(world, rank, group)) for rank in (0, 1))
        for number in range(20):
            one.sendto(payload(number), (NETWORK.hosts[1].ip, PORT))
            assert other.recv(100) == payload(number)
        before = controller.read_counters()
        for number in range(20):
            one.sendto(payload(number), (group, PORT))
            assert other.recv(100) == payload(number)
        moved = {ends: link - before[ends] for ends, link in controller.read_counters().items()}
        root = multicast_trees(plan)[0].root
        # Beside that, hosts announce their groups (IGMP) to their leaf, which drops it.
        assert moved.pop(("h0", "leaf0")).tx_packets in range(20, 24)
        assert moved.pop(("h1", "leaf1")).tx_packets in range(4)
        path = {("leaf0", root), (root, "leaf1"), ("leaf1", "h1")}
        assert {ends: link.tx_packets for ends, link in moved.items()} == {
            ends: 20 if ends in path else 0 for ends in moved
        }
        controller.apply(fabric_plan(NETWORK, loss=1.0))
        before = controller.read_counters()
        for _ in range(5):
            one.sendto(payload(1), (group, PORT))

        def lost() -> int:
            counted = controller.read_counters()["h0", "leaf0"]
            return (counted - before["h0", "leaf0"]).lost_packets

        wait_until(lambda: lost() >= 5, "the loss is counted")
        controller.apply(plan)
        one.sendto(payload(2), (group, PORT))
        assert other.recv(100) == payload(2)
