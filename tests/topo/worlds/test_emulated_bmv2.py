"""BMv2 behind the emulated world, where it is installed."""

from __future__ import annotations

import json
import re
import shutil
import socket
from pathlib import Path

import grpc
import pytest
from tests.support.emulated_support import (
    inside,
    is_alive,
    needs_machine,
    switch_counters,
    wait_until,
)

from weft.base.errors import InputError
from weft.switch.messages import p4runtime_pb2, stub_of
from weft.topo.clos import leaf_spine, single
from weft.topo.worlds.emulated.namespaces import in_namespace
from weft.topo.worlds.emulated.switch_processes import BMV2, find_bmv2, options_of_its_build
from weft.topo.worlds.emulated.world import EmulatedWorld

pytestmark = [
    needs_machine,
    pytest.mark.system,
    pytest.mark.skipif(shutil.which(BMV2) is None, reason=f"{BMV2} (BMv2) is not on PATH"),
]


def test_every_switch_answers_p4runtime_at_its_own_unix_socket() -> None:
    with EmulatedWorld(leaf_spine(2, 1, 1), "bmv2") as world:
        assert set(world.switch_addresses) == {"leaf0", "leaf1", "spine0"}
        for address in world.switch_addresses.values():
            with grpc.insecure_channel(address) as channel:
                stub = stub_of(channel)
                answer = stub.Capabilities(p4runtime_pb2.CapabilitiesRequest(), timeout=60)
                assert re.match(r"1\.", answer.p4runtime_api_version)
        pids = [process.pid for process in world.switch_processes]
        assert len(pids) == 3
        world.check_alive()
    assert not any(map(is_alive, pids))


def test_two_bmv2_worlds_stand_side_by_side() -> None:
    with EmulatedWorld(single(1), "bmv2") as one, EmulatedWorld(single(1), "bmv2") as other:
        one.check_alive()
        other.check_alive()
        if "--thrift-port" in options_of_its_build(find_bmv2()):
            for world in (one, other):
                assert "9091" in inside(world.namespace_pid, "ss", "-Hltn")


def test_links_behind_bmv2_are_shaped_by_tbf_and_their_counts_are_known() -> None:
    with EmulatedWorld(single(2, rate_bps=20_000_000), "bmv2") as world:
        queues = json.loads(inside(world.namespace_pid, "tc", "-json", "qdisc", "show"))
        rates = {queue["dev"]: queue["options"]["rate"] for queue in queues if "tbf" in str(queue)}
        assert rates == {"leaf0-eth1": 2_500_000, "leaf0-eth2": 2_500_000}
        assert world.switch_queue_drops() == {("leaf0", 1): 0, ("leaf0", 2): 0}

        def send() -> None:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
                udp.sendto(bytes(4096), ("10.0.0.2", 4791))

        in_namespace(world.host_pid(0), send)
        wait_until(lambda: switch_counters(world)["leaf0", 1]["rx_packets"] == 1, "it arrives")
        port = world.switch_statistics()["switches"][0]["ports"][0]
        assert (port["port"], port["rx_packets"], port["rx_bytes"]) == (1, 1, 4138)


def test_packet_logs_are_written_only_on_request(tmp_path: Path) -> None:
    for wanted in (False, True):
        with EmulatedWorld(single(1), "bmv2", bmv2_log=wanted) as world:
            asked = Path(f"/proc/{world.switch_processes[0].pid}/cmdline").read_bytes().split(b"\0")
            text = (world.record.folder / "leaf0.log").read_text()
            assert (b"--log-console" in asked) == wanted
            assert wanted or "[bmv2]" not in text  # a BMv2 may be built without logging


def test_a_delay_on_a_link_is_refused_before_anything_is_made() -> None:
    with pytest.raises(InputError, match="no propagation delay with --switch bmv2"):
        EmulatedWorld(single(2, delay_ns=1000), "bmv2")
