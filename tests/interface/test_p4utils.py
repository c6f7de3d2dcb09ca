"""p4-utils' Python API by its names: on a switch of this process, and the graph of a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.bmv2_cli_support import local_session
from tests.support.p4runtime_support import EVERY_ENTITY

import weft
from weft.base.cache import CHECKOUT
from weft.base.errors import InputError
from weft.compat.p4utils import (
    NetworkAPI,
    NetworkGraph,
    SimpleSwitchP4RuntimeAPI,
    SimpleSwitchThriftAPI,
    UIn_Error,
    load_topo,
)
from weft.controller.client import Session
from weft.interface.p4utils import switches
from weft.interface.p4utils.graph import graph_of
from weft.interface.p4utils.imports import run_script
from weft.topo.labs.reading import read_lab
from weft.topo.worlds.emulated.testbeds import RunningTestbed

Link = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]

OBJECTS = CHECKOUT / "tests" / "programs" / "objects.p4"


@pytest.fixture
def session() -> Session:
    return local_session(EVERY_ENTITY)


@pytest.fixture
def thrift(session: Session) -> SimpleSwitchThriftAPI:
    return SimpleSwitchThriftAPI(session)


@pytest.fixture
def p4runtime(session: Session) -> SimpleSwitchP4RuntimeAPI:
    return SimpleSwitchP4RuntimeAPI(1, session)


def test_tables(thrift: SimpleSwitchThriftAPI, capsys: pytest.CaptureFixture[str]) -> None:
    assert thrift.table_add("exact_table", "send", ["1", "0x2"], ["3"]) == 0
    assert "Entry has been added with handle 0\n" in capsys.readouterr().out
    assert thrift.table_add("exact_table", "send", [1, 2], [4]) is None
    assert "Invalid table operation (DUPLICATE_ENTRY)" in capsys.readouterr().out
    assert thrift.table_add("priority_table", "mark", ["1&&&1", "0->9", "0&&&0", 7], [1], 5) == 0
    assert thrift.get_handle_from_match("exact_table", [1, 2]) == 0
    assert thrift.get_handle_from_match("exact_table", [1, 3]) is None
    assert thrift.table_modify_match("exact_table", "drop", ["1", "2"]) == 0
    assert thrift.table_modify("exact_table", "send", 0, ["5"]) == 0
    thrift.table_dump("exact_table")
    assert "Action entry: TheIngress.send - 05" in capsys.readouterr().out
    assert thrift.table_num_entries("exact_table") == 1
    thrift.table_delete_match("exact_table", ["1", "2"])
    with pytest.raises(UIn_Error, match="Table exact_table has no match"):
        thrift.table_delete_match("exact_table", ["1", "2"])
    thrift.table_set_default("lpm_table", "send", ["9"])
    thrift.table_reset_default("lpm_table")
    thrift.table_clear("priority_table")
    assert thrift.table_num_entries("priority_table") == 0
    assert "TheIngress.exact_table" in thrift.get_tables()


def test_registers_counters_and_meters(session: Session) -> None:
    thrift = SimpleSwitchThriftAPI(session)
    thrift.register_write("cells", 2, 7)
    thrift.register_write("cells", [4, 6], 1)
    assert thrift.register_read("cells", 2) == 7
    assert thrift.register_read("cells") == [0, 0, 7, 0, 1, 1, 0, 0]
    thrift.register_reset("cells")
    assert thrift.register_read("cells", 0) == 0
    thrift.set_queue_rate(1000, 2)
    thrift.set_queue_depth(64)
    thrift.counter_write("seen", 3, pkts=10, byts=100)
    assert thrift.counter_read("seen", 3) == (100, 10)
    thrift.counter_reset("seen")
    assert thrift.counter_read("seen", 3) == (0, 0)
    assert thrift.counter_read("seen", 99) is None
    meters = SimpleSwitchThriftAPI(local_session(OBJECTS))
    meters.meter_array_set_rates("bytes_meter", [(0.5, 10), (1, 20)])
    assert meters.meter_get_rates("bytes_meter", 7) == [(0.5, 10), (1.0, 20)]
    meters.pvs_add("special", 5)
    assert meters.pvs_get("special") == ["0005"]


def test_multicast_mirroring_and_profiles(
    thrift: SimpleSwitchThriftAPI, capsys: pytest.CaptureFixture[str]
) -> None:
    assert thrift.mc_mgrp_create(1) == 1
    assert thrift.mc_node_create(0, [1, 2]) == 0
    thrift.mc_node_associate(1, 0)
    thrift.mirroring_add(100, 7)
    thrift.mirroring_add_port_and_mgrp(101, 8, 1)
    capsys.readouterr()
    thrift.mirroring_get(101)
    assert capsys.readouterr().out == "MirroringSessionConfig(port=8, mgid=1)\n"
    thrift.mc_node_update(0, [3])
    thrift.mc_dump()
    assert "(L1h=0, rid=0) -> (ports=[3], lags=[])" in capsys.readouterr().out
    assert thrift.act_prof_create_member("selector_profile", "send", ["1"]) == 0
    assert thrift.act_prof_create_group("selector_profile") == 0
    thrift.act_prof_add_member_to_group("selector_profile", 0, 0)
    thrift.act_prof_dump("selector_profile")
    assert capsys.readouterr().out.endswith("Members: [0]\n")
    thrift.reset_state()
    thrift.mc_dump()
    assert "mgrp" not in capsys.readouterr().out


def test_what_p4_utils_has_of_a_switch_is_there_or_refused_by_name(
    thrift: SimpleSwitchThriftAPI, capsys: pytest.CaptureFixture[str]
) -> None:
    thrift.mc_node_create(1, [2], lags=[3])
    thrift.mc_set_lag_membership(3, [4, 5])
    assert "Setting lag membership: 3 <- 110000" in capsys.readouterr().out
    assert "TheIngress.selector_profile" in thrift.get_action_profs()
    assert thrift.get_custom_crc_calcs() == {}
    thrift.set_crc32_parameters("calc", 0x04C11DB7, 0xFFFFFFFF, 0xFFFFFFFF, True, True)
    thrift.port_add("veth0", 3)
    thrift.serialize_state("state")
    said = capsys.readouterr().out
    for why in ("Invalid crc32_custom name (calc)", "those that it was started with", "its state"):
        assert why in said
    with pytest.raises(AttributeError, match=r"has no 'table_ad' \(did you mean table_add\?\)"):
        thrift.table_ad  # noqa: B018
    with pytest.raises(AttributeError, match="has no 'get_res'"):
        thrift.get_res  # noqa: B018


def test_p4runtime_api(session: Session, p4runtime: SimpleSwitchP4RuntimeAPI) -> None:
    assert p4runtime.table_add("exact_table", "send", ["1", "2"], ["3"], pkts=4, byts=50)
    assert p4runtime.direct_counter_read("hits", ["1", "2"]) == (50, 4)
    assert p4runtime.table_modify_match("exact_table", "drop", ["1", "2"])
    key = ["1&&&1", "0..9", "0&&&0", "7"]
    assert p4runtime.table_add("priority_table", "mark", key, ["1"], prio=3)
    assert p4runtime.table_add("priority_table", "mark", key, ["1"], prio=3) is None
    assert p4runtime.table_delete_match("priority_table", key, prio=3)
    assert p4runtime.table_delete_match("exact_table", ["1", "2"])
    assert p4runtime.counter_write("seen", 1, 2, 3)
    assert p4runtime.counter_read("seen", 1) == (3, 2)
    assert p4runtime.counter_reset("seen")
    assert p4runtime.mc_mgrp_create(5, [1, 2], [7, 8])
    assert p4runtime.mc_set_replicas(5, [3])
    assert p4runtime.mc_get_replicas(5) == ([3], [0])
    assert p4runtime.mc_mgrp_destroy(5)
    assert p4runtime.mc_get_replicas(5) is None
    assert p4runtime.cs_create(6, [1])
    assert p4runtime.cs_get_replicas(6) == ([1], [0])
    assert p4runtime.cs_destroy(6)
    assert p4runtime.table_set_default("lpm_table", "send", ["9"])
    assert p4runtime.table_reset_default("lpm_table")
    assert p4runtime.table_clear("lpm_table")


def test_p4runtime_api_of_meters_and_digests() -> None:
    api = SimpleSwitchP4RuntimeAPI(1, local_session(OBJECTS))
    rates = [(1000, 10), (2000, 20)]
    assert api.meter_set_rates("packets_meter", 1, rates)
    assert api.meter_get_rates("packets_meter", 1) == rates
    assert api.table_add("forward", "to", ["1"], ["2"], rates=rates)
    assert api.direct_meter_get_rates("direct", ["1"]) == rates
    assert api.digest_enable("learn_t", max_list_size=3)
    assert api.digest_get_conf("learn_t") == {
        "max_timeout_ns": 0, "max_list_size": 3, "ack_timeout_ns": 0
    }  # fmt: skip
    assert api.get_digest_list(timeout=0) is None


def lab() -> weft.Topology:
    network = weft.Network("lab", rate="20Mbit", delay="2ms")
    for name in ("s1", "s2", "s3"):
        network.switch(name)
    for host, switch in (("h1", "s1"), ("h2", "s2")):
        network.host(host)
        network.link(host, switch)
    for one, other in (("s1", "s2"), ("s1", "s3"), ("s3", "s2")):
        network.link(one, other)
    return network.topology()


@pytest.fixture
def testbed() -> RunningTestbed:
    topology = lab()
    addresses = {switch.name: f"unix:/run/{switch.name}" for switch in topology.switches}
    pids = dict.fromkeys(topology.nodes, os.getpid())
    return RunningTestbed.of("0a1b2c", topology, addresses, False, None, pids)


@pytest.fixture
def graph(testbed: RunningTestbed) -> NetworkGraph:
    return graph_of(testbed)


def test_a_network_that_is_up_is_a_graph(graph: NetworkGraph) -> None:
    assert list(graph.get_p4switches()) == ["s1", "s2", "s3"]
    assert list(graph.get_hosts()) == ["h1", "h2"]
    assert graph.get_hosts_connected_to("s1") == ["h1"]
    assert graph.get_p4switches_connected_to("s1") == ["s2", "s3"]
    assert graph.get_host_gateway_name("h1") == "s1"
    ip = graph.get_host_ip("h1")
    assert ip is not None
    assert graph.get_host_name(ip) == "h1"
    assert graph.get_host_mac("h1") == graph.node_to_node_mac("h1", "s1")
    assert graph.node_to_node_port_num("s1", "s2") == 2
    assert graph.port_to_node("s1", 2) == graph.interface_to_node("s1", "s1-eth2") == "s2"
    assert graph.interface_to_port("s1", "s1-eth2") == 2
    assert graph.node_to_node_interface_bw("s1", "s2") == 20
    assert graph.subnet("h1", "s1") in graph.get_direct_host_networks_from_switch("s1")
    assert [graph.get_thrift_port(name) for name in ("s1", "s3")] == [9090, 9092]
    assert [graph.get_grpc_port(name) for name in ("s1", "s3")] == [9559, 9561]
    assert graph.get_p4switch_id("s2") == 2
    assert graph.get_node_intfs(fields=["port"])["s1"] == {
        "s1-eth1": 1, "s1-eth2": 2, "s1-eth3": 3
    }  # fmt: skip
    assert (graph.isHost("h1"), graph.isSwitch("h1"), graph.isNode("x")) == (True, False, False)


def test_shortest_paths(graph: NetworkGraph) -> None:
    assert graph.get_shortest_paths_between_nodes("h1", "h2") == [("h1", "s1", "s2", "h2")]
    assert graph.get_shortest_paths_between_nodes("s1", "s1") == [("s1",)]
    square: list[Link] = [({"node": a}, {"node": b}, {}) for a, b in ("ab", "bd", "ac", "cd")]
    paths = NetworkGraph({name: {} for name in "abcd"}, square).get_shortest_paths_between_nodes(
        "a", "d"
    )
    assert paths == [("a", "b", "d"), ("a", "c", "d")]


def test_a_file_of_p4_utils_is_a_graph(tmp_path: Path) -> None:
    file = tmp_path / "topology.json"
    nodes = [
        {"id": "h1", "isHost": True, "ip": "10.0.0.1/24"},
        {"id": "s1", "isSwitch": True, "isP4Switch": True, "thrift_port": 9090, "device_id": 1},
    ]
    link = {
        "node1": "h1", "node2": "s1", "port1": 0, "port2": 1, "intfName1": "h1-eth0",
        "intfName2": "s1-eth1", "addr1": "00:00:0a:00:00:01", "addr2": "00:01:0a:00:00:01",
        "ip1": "10.0.0.1/24", "bw": None, "source": "h1", "target": "s1",
    }  # fmt: skip
    file.write_text(json.dumps({"directed": False, "nodes": nodes, "links": [link]}))
    graph = load_topo(file)
    assert graph.node_to_node_port_num("s1", "h1") == 1
    assert graph.get_host_mac("h1") == "00:00:0a:00:00:01"
    assert graph.node_to_node_interface_bw("h1", "s1") == -1
    assert graph.get_thrift_port("s1") == 9090
    wrongs: list[Any] = [
        {"nodes": []}, {"nodes": [1], "links": []}, {"nodes": nodes, "links": [{}]}
    ]  # fmt: skip
    for wrong in wrongs:
        file.write_text(json.dumps(wrong))
        with pytest.raises(InputError, match=r"^topology '.*topology\.json': "):
            load_topo(file)


def test_what_is_not_there_is_named(graph: NetworkGraph) -> None:
    for ask, why in (
        (lambda: graph.get_host_ip("s1"), "s1 is not a host; such are h1, h2"),
        (lambda: graph.get_neighbors("h9"), "there is no node 'h9'"),
        (lambda: graph.node_to_node_port_num("h1", "s2"), "h1 has no link to s2; it has links to"),
        (lambda: graph.port_to_node("s1", 9), "node s1 has no port 9; it has 1, 2, 3"),
        (lambda: graph.get_host_name("10.9.9.9"), "no host has the address 10.9.9.9"),
    ):
        with pytest.raises(InputError, match=why):
            ask()


@pytest.fixture
def up(testbed: RunningTestbed, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(switches, "find_testbed", lambda run: testbed)
    yield


@pytest.mark.usefixtures("up")
def test_a_port_finds_a_switch_of_the_network_that_is_up() -> None:
    for port in (9091, "9091", "s2"):
        found = SimpleSwitchThriftAPI(port)
        assert found.switch.access.session.where == "s2 (device 2, unix:/run/s2)"
        found.close()
    with pytest.raises(InputError, match=r"thrift_port 9093: .* 9090 \(s1\) to 9092 \(s3\)"):
        SimpleSwitchThriftAPI(9093)
    with pytest.raises(InputError, match="switch 's9'"):
        SimpleSwitchThriftAPI("s9")


SCRIPT = """
from p4utils.mininetlib.network_API import NetworkAPI
from p4utils.utils.helper import load_topo
from p4utils.utils.sswitch_thrift_API import SimpleSwitchThriftAPI

net = NetworkAPI()
net.setLogLevel("info")
net.enableCli()
net.addP4Switch("s1")
net.setP4SourceAll("forwarding.p4")
net.setP4CliInput("s1", "s1-commands.txt")
net.addHost("h1")
net.addHost("h2")
net.addLink("h1", "s1", weight=5)
net.addLink("s1", "h2")
net.setBw("s1", "h1", 20)
net.setDelay("h1", "s1", 20)
net.setIntfPort("s1", "h2", 7)
net.setIntfIp("h2", "s1", "10.9.0.2/24")
net.enablePcapDumpAll()
net.startNetwork()
"""


def test_a_script_of_p4_utils_runs_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "network.py").write_text(SCRIPT)
    (tmp_path / "forwarding.p4").write_text(EVERY_ENTITY.read_text())
    (tmp_path / "s1-commands.txt").write_text("table_set_default lpm_table drop\n")
    found = []

    def up(command: list[str], **options: Any) -> Any:
        assert command[1:4] == ["-m", "weft", "up"]
        found.append(read_lab(Path(command[4])))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", up)
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(sys, "path", [*sys.path])
    run_script(["network.py"])
    (topology,) = found
    links = {link.name: link for link in topology.links}
    assert set(links) == {"h1-s1", "h2-s1"}
    assert (links["h1-s1"].rate_bps, links["h1-s1"].delay_ns) == (20_000_000, 20_000_000)
    assert links["h2-s1"].b.number == 7
    assert topology.host("h2").ip == "10.9.0.2"
    assert topology.switch("s1").program.endswith("forwarding.p4")
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("network-")] == []


def test_a_network_that_is_put_together_wrongly_is_refused() -> None:
    net = NetworkAPI()
    net.addHost("h1")
    net.addP4Switch("s1")
    with pytest.raises(InputError, match="addLink: there is no node 's2'"):
        net.addLink("h1", "s2")
    with pytest.raises(InputError, match="h1 and s1 have no link; links are none"):
        net.setBw("h1", "s1", 5)
    with pytest.raises(InputError, match="there is no switch 'h1'; there are s1"):
        net.setP4Source("h1", "a.p4")
    with pytest.raises(AttributeError, match=r"no 'addHots' \(did you mean addHost\?\)"):
        net.addHots("h2")
