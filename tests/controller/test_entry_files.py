"""Files of entries: what goes into a switch, and what does not fit its program, with its line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

import weft
from weft.base.errors import InputError
from weft.controller.client import LoadableProgram
from weft.controller.entry_files.reading import checked_files
from weft.switch.compiler import compile_cached

TESTS = Path(__file__).resolve().parents[1]
BRIDGE = TESTS / "labs" / "bridge"
APP = TESTS / "labs" / "app"
PROGRAM = TESTS / "stf" / "basic.p4"

Change = Callable[[Any], object]


@pytest.fixture(scope="module")
def program() -> LoadableProgram:
    return LoadableProgram.read(compile_cached(PROGRAM))


def entry(runtime: Any, number: int = 1) -> Any:
    return runtime["table_entries"][number]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda runtime: entry(runtime).update(table="MyIngress.ipv4_lpm"),
            ":12: table_entries[1]: s1: the program has no table 'MyIngress.ipv4_lpm' (did you "
            "mean TheIngress.ipv4_lpm?)",
        ),
        (
            lambda runtime: entry(runtime).update(action_name="TheIngress.forward"),
            ":12: table_entries[1]: s1: the program has no action 'TheIngress.forward'",
        ),
        (
            lambda runtime: entry(runtime)["action_params"].pop("port"),
            "action TheIngress.ipv4_forward needs port, too",
        ),
        (
            lambda runtime: entry(runtime)["action_params"].update(port=512),
            ":12: table_entries[1]: TheIngress.ipv4_forward, port: 512 does not fit 9 bits",
        ),
        (
            lambda runtime: entry(runtime)["match"].update({"hdr.ipv4.dstAddr": ["10.0.0.1", 32]}),
            "has no key field 'hdr.ipv4.dstAddr' (did you mean hdr.ipv4.dst_addr?)",
        ),
        (
            lambda runtime: entry(runtime)["match"].update({"hdr.ipv4.dst_addr": ["10.0.0.1", 33]}),
            "has no prefix length from 0 to 32",
        ),
        (
            lambda runtime: entry(runtime).update(priority=3),
            "priority 3: no two entries of this table can match a packet alike",
        ),
        (
            lambda runtime: entry(runtime, 2).update(match=entry(runtime)["match"]),
            "s1: there is already entry of TheIngress.ipv4_lpm",
        ),
        (
            lambda runtime: entry(runtime, 0).update(match=entry(runtime)["match"]),
            "a default action is for what no entry matches: leave match out",
        ),
        (
            lambda runtime: entry(runtime).update(params={}),
            ":25: table_entries[1]: 'params' means nothing here (did you mean action_params?)",
        ),
        (lambda runtime: runtime.update(target="tofino"), ":2: target: 'tofino' is unknown"),
        (
            lambda runtime: runtime["multicast_group_entries"][0]["replicas"].append(
                {"egress_port": 600, "instance": 1}
            ),
            "multicast_group_entries[0]: s1: group 7: port 600 is not in 0 to 511",
        ),
        (
            lambda runtime: runtime["clone_session_entries"][0].update(clone_session_id="x"),
            "clone_session_entries[0].clone_session_id is 'x', not a whole number",
        ),
    ],
)
def test_what_does_not_fit_the_program_is_refused_with_its_line(
    change: Change, said: str, program: LoadableProgram, tmp_path: Path
) -> None:
    runtime = json.loads((BRIDGE / "s1-runtime.json").read_text())
    change(runtime)
    path = tmp_path / "s1-runtime.json"
    path.write_text(json.dumps(runtime, indent=2))
    with pytest.raises(InputError) as refused:
        checked_files({"s1": [str(path)]}, {"s1": program}, "weft")
    message = str(refused.value)
    assert message.startswith(f"{path}:") and said in message


def test_what_a_network_file_names_is_in_its_switches() -> None:
    with weft.up(BRIDGE / "topology.json", program=PROGRAM, world="simulated") as net:
        s1 = net.switch("s1")
        assert {each.target.partition("(")[0] for each in s1.table("ipv4_lpm")} == {
            "TheIngress.ipv4_forward"
        }
        assert s1.table("ipv4_lpm").default == "TheIngress.drop()"
        assert s1.groups.replicas() == {7: ((1, 1), (2, 5))}
        assert s1.clones.read()[9].packet_length == 64
        h1, h2 = net.host("h1"), net.host("h2")
        frame = Ether(dst="08:00:00:00:01:fe", src=h1.mac) / IP(src=h1.ip, dst=h2.ip, ttl=9) / UDP()
        h1.send(frame)
        (heard,) = h2.sniff(timeout=1.0)
        assert (heard[Ether].dst, heard[IP].ttl) == (h2.mac, 7)


def test_commands_of_bmv2_are_carried_out_on_the_switches() -> None:
    with weft.up(APP / "p4app.json", world="simulated") as net:
        s1 = net.switch("s1")
        assert len(s1.table("ipv4_lpm")) == 3
        assert s1.table("ipv4_lpm").default == "TheIngress.drop()"
        assert s1.groups.read() == {3: (1, 2)}
        h1, h2 = net.host("h1"), net.host("h2")
        h2.send(Ether(dst="00:01:0a:02:02:02", src=h2.mac) / IP(src=h2.ip, dst=h1.ip) / UDP())
        (heard,) = h1.sniff(timeout=1.0)
        assert heard[Ether].dst == h1.mac


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("table_ad ipv4_lpm drop", "table_ad (did you mean table_add?)"),
        ("mc_mgrp_create", ""),
    ],
)
def test_a_command_that_there_is_not_is_refused_before_anything_comes_up(
    command: str, said: str, program: LoadableProgram, tmp_path: Path
) -> None:
    path = tmp_path / "s1-commands.txt"
    path.write_text(f"# entries\n\n{command}\n")
    with pytest.raises(InputError) as refused:
        checked_files({"s1": [str(path)]}, {"s1": program}, "weft")
    message = str(refused.value)
    assert message.startswith(f"{path}:3: s1: ") and said in message


def test_a_command_that_a_switch_refuses_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "s1-commands.txt"
    path.write_text("table_set_default ipv4_lpm drop\ntable_add nowhere drop 1 =>\n")
    network = weft.Network("small")
    network.host("h1")
    network.switch("s1", PROGRAM, entries=[path])
    network.link("h1", "s1")
    with pytest.raises(InputError) as refused, weft.up(network, world="simulated"):
        pass
    assert str(refused.value).startswith(f"{path}:2: table_add: ")
