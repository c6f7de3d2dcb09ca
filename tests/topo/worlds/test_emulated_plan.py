"""What the emulated world tells ip, tc and the switches, and what it refuses: without root."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.support.changed_links import with_link

from weft.agents.datagrams import FRAME_OVERHEAD_BYTES
from weft.agents.transport import TransportOptions
from weft.base.errors import InputError, MachineError
from weft.experiments.scenario.longest_path import emulated_burst_ns
from weft.experiments.scenario.scenario import Scenario
from weft.switch.realtime.config import read_config
from weft.topo.clos import fat_tree, leaf_spine, single
from weft.topo.interfaces import (
    PATH_MTUS,
    burst_bytes,
    check_link_mtu,
    check_path_mtu,
    host_burst_bytes,
    host_shaper,
    host_side,
    interface_name,
    switch_interfaces,
    switch_shapers,
    switch_side_links,
)
from weft.topo.network import Port, Switch, Topology
from weft.topo.switch_kinds import CAPABILITIES, check_kind, check_topology, require
from weft.topo.worlds.emulated.machine import check_machine
from weft.topo.worlds.emulated.runs import RunRecord
from weft.topo.worlds.emulated.switch_processes import bmv2_command, builtin_config, find_bmv2
from weft.topo.worlds.emulated.world import EmulatedWorld


def test_interface_names_are_unique_and_fit_the_kernel() -> None:
    for network in (leaf_spine(100, 4, 20), fat_tree(16)):
        names = [name for _, name in switch_interfaces(network)]
        assert len(set(names)) == len(names)
        assert max(map(len, names)) <= 15


def test_interface_names_beyond_the_kernels_length_are_refused() -> None:
    network = Topology("wide", (), (Switch("spine1000", "spine", 1000, 1001, 2),), ())
    with pytest.raises(InputError, match=r"'spine1000-eth100' is 16 characters .*shorter names"):
        interface_name(Port("spine1000", 100), network)


def test_a_veth_is_made_with_each_end_where_it_belongs() -> None:
    lines = switch_side_links(leaf_spine(1, 1, 1), {"h0": 77}, 9000)
    assert lines == [
        "link set dev lo up",
        "link add name leaf0-eth1 mtu 9000 numtxqueues 1 numrxqueues 1 type veth peer "
        "name h0-eth0 address 02:00:0a:00:00:01 netns 77 mtu 9000 numtxqueues 1 numrxqueues 1",
        "link set dev leaf0-eth1 up",
        "link add name spine0-eth1 mtu 9000 numtxqueues 1 numrxqueues 1 type veth peer "
        "name leaf0-eth2 mtu 9000 numtxqueues 1 numrxqueues 1",
        "link set dev leaf0-eth2 up",
        "link set dev spine0-eth1 up",
    ]


def test_everything_a_host_sends_goes_to_its_leaf() -> None:
    network = leaf_spine(2, 1, 1)
    lines = host_side(network.host(1), network)
    assert "address add 10.0.1.1/24 dev h1-eth0 noprefixroute" in lines
    assert "neighbour add 10.0.1.254 lladdr 06:00:00:00:00:02 dev h1-eth0 nud permanent" in lines
    assert "route add default via 10.0.1.254 dev h1-eth0 src 10.0.1.1" in lines


def test_shapers_have_the_links_rate_and_bound() -> None:
    network = with_link(leaf_spine(1, 1, 1), "leaf0-spine0", rate_bps=5_000_000, queue_bytes=9999)
    (uplink,) = network.outward("h0")
    of_host = host_shaper(uplink, network, 9000)
    assert "dev h0-eth0 root handle 1: tbf rate 100000000bit" in of_host
    behind = switch_shapers(network, 9000)
    assert len(behind) == 3
    assert "dev leaf0-eth2 root handle 1: tbf rate 5000000bit" in behind[1]
    assert behind[1].endswith("limit 9999b")


def test_tbf_takes_the_largest_frame_and_makes_up_for_late_timers() -> None:
    assert burst_bytes(1, 9000) >= 9014
    assert burst_bytes(10_000_000_000, 9000) == 250_000


@pytest.mark.parametrize("rate_bps", [10**6, 10**7, 10**8, 10**9])
def test_a_host_may_send_at_once_what_its_transport_does(rate_bps: int) -> None:
    widest = Scenario(rate_bps=rate_bps)
    at_once_ns = emulated_burst_ns(widest.rate_bps) + TransportOptions().pacing_credit_ns
    frame_bytes = widest.mtu + FRAME_OVERHEAD_BYTES
    assert host_burst_bytes(rate_bps, 9000) >= rate_bps * at_once_ns // (8 * 10**9) + frame_bytes


@pytest.mark.parametrize("path_mtu", [0, 255, 1000, 1500, 8192, -1])
def test_only_infinibands_path_mtus_are_taken(path_mtu: int) -> None:
    with pytest.raises(InputError, match=f"MTU {path_mtu}: .*256, 512, 1024, 2048, 4096 bytes"):
        check_path_mtu(path_mtu)


def test_a_link_mtu_holds_roce_packets_and_fits_a_veth() -> None:
    for path_mtu in PATH_MTUS:
        check_link_mtu(path_mtu + 64, path_mtu)
    with pytest.raises(InputError, match="link MTU 4096: RoCE packets of 4096 bytes need at least"):
        check_link_mtu(4096, 4096)
    with pytest.raises(InputError, match="at most 65535"):
        check_link_mtu(65536, 4096)


def test_the_built_in_switch_is_told_of_every_port(tmp_path: Path) -> None:
    config = builtin_config(
        leaf_spine(2, 2, 1), RunRecord("abcdef", tmp_path), seed=3, link_mtu=9000
    )
    leaf = config["switches"][1]
    assert (leaf["name"], leaf["device_id"]) == ("leaf1", 2)
    assert leaf["address"] == f"unix:{tmp_path}/leaf1.sock"
    assert [(port["port"], port["interface"]) for port in leaf["ports"]] == [
        (1, "leaf1-eth1"),
        (2, "leaf1-eth2"),
        (3, "leaf1-eth3"),
    ]
    assert len({switch["seed"] for switch in config["switches"]}) == 4


def test_patched_switches_have_interfaces_towards_hosts_alone(tmp_path: Path) -> None:
    network = leaf_spine(2, 2, 1)
    lines = switch_side_links(network, {"h0": 1, "h1": 2}, 9000, "patch")
    assert len(lines) == 1 + 2 * 2 and not any("spine" in line for line in lines)
    run = RunRecord("abcdef", tmp_path)
    config = builtin_config(
        network, run, seed=3, link_mtu=9000, links="patch", patch_captures=tmp_path
    )
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    switches = {switch.name: switch for switch in read_config(path).switches}
    assert [port.patch for port in switches["leaf1"].ports] == [None, ("spine0", 2), ("spine1", 2)]
    assert [port.interface for port in switches["spine0"].ports] == ["", ""]
    assert switches["spine0"].ports[1].pcap_in == str(tmp_path / "spine0-leaf1.pcap")
    with pytest.raises(InputError, match=r"no patch links with --switch bmv2: .*a process of its"):
        EmulatedWorld(network, "bmv2", links="patch")


def test_an_unknown_kind_of_switch_is_refused() -> None:
    with pytest.raises(InputError, match="switch 'ovs': the kinds of switch are weft and bmv2"):
        check_kind("ovs")


def test_what_bmv2_cannot_do_is_refused_with_the_reason() -> None:
    with pytest.raises(InputError, match=r"propagation delay .*--switch bmv2: .*Use --switch weft"):
        check_topology("bmv2", single(2, delay_ns=1000))
    check_topology("weft", single(2, delay_ns=1000))
    for capability in CAPABILITIES:
        assert "weft" in capability.kinds and "bmv2" not in capability.kinds
        with pytest.raises(InputError, match=r"Use --switch weft\."):
            require("bmv2", [capability.name])


def test_a_machine_without_bmv2_is_told_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"simple_switch_grpc.*not on PATH.*p4lang-bmv2"):
        find_bmv2(str(tmp_path))


def test_without_root_the_world_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MachineError, match="takes root: run the same command with sudo"):
        EmulatedWorld(single(2))


def test_missing_tools_are_named_with_their_packages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match=r"ip, tc, mnexec.*tcpdump; install with `apt-get"):
        check_machine(captures=True)


def test_bad_input_is_told_before_a_missing_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(InputError, match="MTU 1500"):
        EmulatedWorld(single(2), path_mtu=1500)


@pytest.mark.parametrize("known", ["", "--thrift-port", "--thrift-port --notifications-addr"])
def test_bmv2_is_given_no_option_that_its_build_does_not_know(
    known: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "simple_switch_grpc"
    program.write_text(f"#!/bin/sh\necho {known}\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    command = bmv2_command(3, tmp_path / "leaf0.sock", {1: "leaf0-eth1"})
    built = [word for word in command if word in ("--thrift-port", "--notifications-addr")]
    assert built == known.split()
    assert command[-1] == "511" and "1@leaf0-eth1" in command
