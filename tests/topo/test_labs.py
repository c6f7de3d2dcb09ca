"""Network files of other tools: what they mean, and what is refused, with its line."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.base.errors import InputError
from weft.topo.addresses import format_mac
from weft.topo.interfaces import interface_name
from weft.topo.labs.lab_format import Programs
from weft.topo.labs.reading import read_lab
from weft.topo.network import Port, Switch
from weft.topo.network_text import network_text
from weft.topo.own import read_network

TESTS = Path(__file__).resolve().parents[1]
BRIDGE = TESTS / "labs" / "bridge"
APP = TESTS / "labs" / "app"
CLAB = TESTS / "labs" / "clab"
NETLAB = TESTS / "labs" / "netlab" / "topology.yml"
PROGRAM = str(TESTS / "stf" / "basic.p4")

Change = Callable[[Any], object]


def test_a_topology_of_the_tutorials_is_what_it_says() -> None:
    network = read_lab(BRIDGE / "topology.json", Programs(PROGRAM))
    assert [(each.name, each.ip, format_mac(each.mac)) for each in network.hosts] == [
        ("h1", "10.1.1.1", "08:00:00:00:01:01"),
        ("h2", "10.1.2.2", "08:00:00:00:02:02"),
    ]
    assert network.hosts[1].commands[0] == "ip route add default via 10.1.2.254 dev eth0"
    assert interface_name(Port("h2", 1), network) == "eth0"
    assert [(each.device_id, each.program) for each in network.switches] == [
        (0, PROGRAM),
        (1, PROGRAM),
    ]
    assert network.switch("s2").entries == (str(BRIDGE / "s2-runtime.json"),)
    assert network.cpu_port == 255
    between = network.direction("s1", "s2")
    assert (between.source.number, between.destination.number) == (1, 7)
    assert (between.link.rate_bps, between.link.delay_ns) == (5_000_000, 2_000_000)
    assert network.direction("h2", "s2").link.delay_ns == 1_000_000


@pytest.mark.parametrize(
    ("latency", "delay_ns"),
    [("0", 0), ("5", 5_000), ("0.5ms", 500_000), ("3msec", 3_000_000), (2.5, 2_500_000)],
)
def test_a_latency_is_read_as_mininet_reads_it(
    latency: object, delay_ns: int, tmp_path: Path
) -> None:
    path = changed(tmp_path, lambda topology: topology["links"][1].__setitem__(2, latency))
    network = read_lab(path, Programs(PROGRAM))
    assert network.direction("s1", "s2").link.delay_ns == delay_ns


def test_entries_and_programs_are_looked_for_in_the_folder_above_too(tmp_path: Path) -> None:
    inner = tmp_path / "pod-topo"
    inner.mkdir()
    path = changed(
        inner, lambda topology: topology["switches"]["s1"].update(program="build/basic.json")
    )
    (inner / "s1-runtime.json").rename(tmp_path / "s1-runtime.json")
    shutil.copy(PROGRAM, tmp_path)
    network = read_lab(path, Programs("mine.p4"))
    assert network.switch("s1").program == str(tmp_path / "basic.p4")
    assert network.switch("s2").program == str(Path("mine.p4").absolute())
    assert network.switch("s1").entries == (str(tmp_path / "s1-runtime.json"),)
    for switch, program in (("s1", "a.p4"), ("s2", "b.p4")):
        network = read_lab(path, Programs("mine.p4", {switch: program}))
        assert network.switch(switch).program == str(Path(program).absolute())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda topology: topology["hosts"]["h1"].update(ipv4="10.1.1.1"),
            ":10: hosts.h1: 'ipv4' means nothing here (did you mean ip?); there may be ip, mac, "
            "commands",
        ),
        (lambda topology: topology["hosts"]["h1"].pop("mac"), ":3: hosts.h1: mac is missing"),
        (
            lambda topology: topology["hosts"]["h2"].update(ip="10.1.1.1/24"),
            ":12: hosts.h2.ip: address 10.1.1.1 is that of hosts.h1.ip already (line 4)",
        ),
        (
            lambda topology: topology["hosts"]["h2"].update(mac="08:00:00:00:01:01"),
            ":13: hosts.h2.mac: MAC address 08:00:00:00:01:01 is that of hosts.h1.mac already",
        ),
        (
            lambda topology: topology["hosts"]["h2"].update(ip="10.1.2.2"),
            ":12: hosts.h2.ip: '10.1.2.2' is no address: '10.1.2.2' has no prefix length",
        ),
        (
            lambda topology: topology["hosts"]["h2"].update(ip="10.1.300.1/24"),
            ":12: hosts.h2.ip: '10.1.300.1/24' is no address: Octet 300 (> 255)",
        ),
        (
            lambda topology: topology["links"].append(["h1", "s1-p1000"]),
            "links[3]: 's1-p1000': a switch's port is 1 to 509",
        ),
        (
            lambda topology: topology.update(switches={}),
            "'s1-p2' is no end of a link: write a host (h1, h2), or a switch (of which the file "
            "has none) with its port",
        ),
        (
            lambda topology: topology["links"].append(["h1", "s3-p1"]),
            "links[3]: 's3-p1' is no end of a link (did you mean s2-p1?): write a host (h1, h2), "
            "or a switch (s1, s2) with its port, like s1-p1",
        ),
        (
            lambda topology: topology["links"].append(["h1", "s1"]),
            "links[3]: 's1' is a switch: name its port, like s1-p1",
        ),
        (
            lambda topology: topology["links"].append(["s1-p1", "s2-p3"]),
            "links[3] (s1-s2).ports.s1 1: links[1] (s1-s2) has that port already",
        ),
        (
            lambda topology: topology["links"][1].__setitem__(2, "soon"),
            "links[1][2]: 'soon' is no delay: write a number with a unit",
        ),
        (
            lambda topology: topology["links"][1].__setitem__(3, "fast"),
            "links[1][3]: 'fast' is no bandwidth in Mbit/s, like 0.5 or 10",
        ),
        (
            lambda topology: topology["links"].__setitem__(1, ["s1-p1"]),
            "links[1]: a link has 2 to 4 values",
        ),
        (
            lambda topology: topology["switches"]["s1"].update(cpu_port=3),
            "switches.s2.cpu_port: 255: another switch has 3, and Weft has one number for all",
        ),
        (
            lambda topology: topology["switches"]["s1"].update(runtime_json="s9-runtime.json"),
            "switches.s1.runtime_json: 's9-runtime.json': there is no such file in ",
        ),
        (
            lambda topology: topology["switches"]["s1"].update(program="build/mine.json"),
            "switches.s1: program 'build/mine.json': there is no mine.p4 in ",
        ),
        (lambda topology: topology.pop("links"), " is no network that Weft knows: it reads"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_its_line(
    change: Change, said: str, tmp_path: Path
) -> None:
    path = changed(tmp_path, change)
    with pytest.raises(InputError) as refused:
        read_lab(path, Programs(PROGRAM))
    message = str(refused.value)
    assert message.startswith(str(path)) and said in message
    if "no network that Weft knows" not in said:
        assert message.removeprefix(f"{path}:").split(":")[0].isdecimal()


def test_a_missing_program_is_said_with_those_that_lie_beside_the_file(tmp_path: Path) -> None:
    path = changed(tmp_path, lambda _: None)
    (tmp_path / "solution").mkdir()
    for name in ("basic.p4", "solution/basic.p4"):
        shutil.copy(PROGRAM, tmp_path / name)
    with pytest.raises(InputError) as refused:
        read_lab(path)
    said = str(refused.value)
    assert said.startswith(f"{path}:21: switches.s1: the file names no program for s1: name one")
    assert "--program s1=FILE.p4" in said
    assert f"{tmp_path / 'basic.p4'}, {tmp_path / 'solution' / 'basic.p4'}" in said
    with pytest.raises(InputError, match=r"has no switch s3; it has s1, s2"):
        read_lab(path, Programs(PROGRAM, {"s3": PROGRAM}))


def test_a_key_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "topology.json"
    path.write_text('{"hosts": {\n"h1": {"ip": "10.0.0.1/24"},\n"h1": {}}, "switches": {}}')
    with pytest.raises(InputError, match=r"topology\.json:3: hosts\.h1 is there twice: see line 2"):
        read_lab(path)


def changed(folder: Path, change: Change, lab: Path = BRIDGE) -> Path:
    """Copy a lab into a folder, and change its network."""
    (names := ["topology.json", "p4app.json"]).sort(key=lambda name: not (lab / name).exists())
    for file in lab.iterdir():
        shutil.copy(file, folder)
    if lab == APP:
        shutil.copy(PROGRAM, folder)
    path = folder / names[0]
    network = json.loads(path.read_text())
    if lab == APP:
        network["p4_src"] = "basic.p4"
    change(network)
    path.write_text(json.dumps(network, indent=4))
    return path


def test_a_network_of_p4_utils_is_what_it_says() -> None:
    network = read_lab(APP / "p4app.json")
    assert [host.name for host in network.hosts] == ["h1", "h2", "h10"]
    assert [(each.device_id, each.program) for each in network.switches] == [
        (1, str(APP / ".." / ".." / "stf" / "basic.p4")),
        (2, str(APP / ".." / ".." / "stf" / "basic.p4")),
    ]
    assert network.switch("s1").entries == (str(APP / "s1-commands.txt"),)
    assert network.priority_queues == 4
    link = network.direction("h1", "s1").link
    assert (link.rate_bps, link.delay_ns, link.loss) == (5_000_000, 2_000_000, 0.01)
    assert link.queue_bytes == 100 * 1514
    assert network.direction("h2", "s2").link.rate_bps == 20_000_000
    ports = {each.name: each.source.number for each in network.outward("s1")}
    assert ports == {"s1>h1": 1, "s1>h10": 2, "s1>s2": 9}
    assert interface_name(Port("h10", 1), network) == "up"
    (told,) = network.host("h1").commands
    assert told == "ip neighbour replace 10.1.1.1 lladdr 00:01:0a:01:01:02 dev h1-eth0"
    assert network.host("h2").commands[-1] == "ip route replace default via 10.2.2.1"


@pytest.mark.parametrize(
    ("strategy", "addresses", "gateways"),
    [
        ("l3", ["10.1.1.2", "10.2.2.2", "10.1.10.2"], ["10.1.1.1", "10.2.2.1", "10.1.10.1"]),
        ("mixed", ["10.0.1.1", "10.0.2.2", "10.0.1.10"], ["10.0.1.254"]),
        ("l2", ["10.0.0.1", "10.0.0.2", "10.0.0.10"], []),
        ("manual", ["10.0.0.2", "10.0.0.1", "10.0.0.3"], []),
    ],
)  # fmt: skip
def test_hosts_have_the_addresses_of_the_strategy(
    strategy: str, addresses: list[str], gateways: list[str], tmp_path: Path
) -> None:
    path = changed(tmp_path, lambda app: app["topology"].update(assignment_strategy=strategy), APP)
    network = read_lab(path)
    assert [host.ip for host in network.hosts] == addresses
    assert all(format_mac(host.mac)[6:] == mac_of(host.ip) for host in network.hosts[:2])
    told = " ".join(network.hosts[0].commands)
    for gateway in gateways[:1]:
        assert network.hosts[0].gateway == int(IPv4Address(gateway))
        assert f"{gateway} lladdr 00:01:{mac_of(network.hosts[0].ip)} dev h1-eth0" in told
    assert (addresses[1] in told) == (strategy in ("l2", "manual"))
    assert (addresses[2] in told) == (strategy != "l3")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda app: app["topology"].update(assignment_strategy="l4"),
            "topology.assignment_strategy: 'l4' is unknown: choose from l2, mixed, l3, manual",
        ),
        (
            lambda app: app["topology"].update(routers={"r1": {}}),
            "topology.routers: Weft has hosts and P4 switches, and no routers of FRR",
        ),
        (
            lambda app: app["topology"]["links"].append(["h1", "s3"]),
            "topology.links[4]: there is no node 's3'",
        ),
        (
            lambda app: app["topology"]["links"][1][2].update(bandwidth=3),
            "'bandwidth' means nothing here",
        ),
        (
            lambda app: app["topology"]["links"][1][2].update(loss=101),
            "topology.links[1][2].loss: 101 is no loss in percent",
        ),
        (
            lambda app: app.update(switch_node={"file_path": "mine.py", "module_name": "mine"}),
            "switch_node: 'mine' is Python code of its own, which Weft does not run",
        ),
        (lambda app: app["topology"]["hosts"]["h1"].update(ip="10.0.0.1"), "hosts.h1: 'ip' means"),
        (
            lambda app: app["topology"]["hosts"]["h2"].update(dhcp=True),
            "topology.hosts.h2.dhcp: Weft gives addresses by itself",
        ),
        (
            lambda app: app["topology"]["switches"]["s1"].update(p4_src="mine.p4"),
            "topology.switches.s1: program 'mine.p4': there is no mine.p4 in",
        ),
    ],
)
def test_what_weft_has_not_of_p4_utils_is_refused_with_its_line(
    change: Change, said: str, tmp_path: Path
) -> None:
    path = changed(tmp_path, change, APP)
    with pytest.raises(InputError) as refused:
        read_lab(path)
    message = str(refused.value)
    assert said in message
    assert message.removeprefix(f"{path}:").split(":")[0].isdecimal()


def test_what_is_left_out_of_a_network_is_said(tmp_path: Path) -> None:
    def ask_much(app: Any) -> None:
        app.update(tasks_file="tasks.txt", pcap_dump=True, enable_log=True, cli=False)
        topology = app["topology"]
        topology["auto_gw_arp"] = True
        topology["default"]["weight"] = 3
        topology["hosts"]["h1"]["scheduler"] = True
        topology["switches"]["s1"].update(sw_bin="simple_switch", pcap_dir="p")
        place = next(at for at, link in enumerate(topology["links"]) if "h1" in link)
        topology["links"][place] = ["h1", "s1", {"addr2": "00:00:00:00:00:02", "weight": 2}]

    said = read_lab(changed(tmp_path, ask_much, APP)).left_out
    assert [each.partition(":")[2].split(":")[1].split()[0] for each in said] == [
        "tasks_file", "pcap_dump", "enable_log", "cli", "topology.auto_gw_arp",
        "topology.default.weight", "topology.hosts.h1.scheduler", "topology.switches.s1.pcap_dir",
        "topology.switches.s1.sw_bin", "topology.switches.s2.thrift_port",
        "topology.links[1][2].weight", "topology.links[1][2].addr2",
    ]  # fmt: skip


def test_an_address_of_a_switch_is_the_gateway_of_the_host_at_it(tmp_path: Path) -> None:
    def with_address(app: Any) -> None:
        topology = app["topology"]
        topology["assignment_strategy"] = "manual"
        own = {"sw_ip2": "10.9.0.254/24", "params1": {"ip": "10.9.0.1/24"}}
        place = next(at for at, link in enumerate(topology["links"]) if "h1" in link)
        topology["links"][place] = ["h1", "s1", own]

    host = read_lab(changed(tmp_path, with_address, APP)).host("h1")
    assert host.gateway == int(IPv4Address("10.9.0.254"))
    assert "10.9.0.254 lladdr 00:01:0a:09:00:fe dev h1-eth0" in " ".join(host.commands)


def mac_of(ip: str) -> str:
    return ":".join(f"{int(part):02x}" for part in ip.split("."))


@pytest.mark.parametrize("lab", ["bridge/topology.json", "app/p4app.json"])
def test_a_network_file_of_wefts_own_says_the_same(lab: str, tmp_path: Path) -> None:
    network = read_lab(TESTS / "labs" / lab, Programs(PROGRAM))
    file = tmp_path / f"{network.name}.toml"
    file.write_text(network_text(network, tmp_path))
    again = read_network(file)
    assert [alike(each) for each in again.switches] == [alike(each) for each in network.switches]
    assert (again.hosts, again.links) == (network.hosts, network.links)
    assert (again.name, again.cpu_port, again.priority_queues, again.left_out) == (
        network.name, network.cpu_port, network.priority_queues, network.left_out,
    )  # fmt: skip


def alike(switch: Switch) -> Switch:
    """A switch, with the paths of its files as they are shortest."""
    entries = tuple(map(os.path.normpath, switch.entries))
    return replace(switch, program=os.path.normpath(switch.program), entries=entries)


def test_a_name_that_needs_quotes_has_them_in_a_file(tmp_path: Path) -> None:
    network = weft.Network('a "lab"')
    network.host("h.1", commands=["echo 'x' \"y\" \\ \t\x7f"])
    network.switch("s1")
    network.link("h.1", "s1", ip={"h.1": "10.0.0.1/24"})
    topology = network.topology()
    file = tmp_path / "lab.toml"
    file.write_text(network_text(topology, tmp_path))
    assert read_network(file) == replace(topology, document=read_network(file).document)
    with pytest.raises(InputError, match="is one of Weft's own shapes"):
        network_text(weft.single(2), tmp_path)


def test_a_lab_of_containerlab_is_what_it_says(tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="PyYAML is not installed: pip install 'weft[labs]'")
    network = read_lab(CLAB / "small.clab.yml")
    assert [host.name for host in network.hosts] == ["h1", "h2"]
    assert network.host("h1").commands[1] == "ip addr add 10.1.1.1/24 dev eth1"
    assert [interface_name(Port(each, 1), network) for each in ("h1", "h2")] == ["eth1", "eth1"]
    assert format_mac(network.host("h2").mac) == "08:00:00:00:02:02"
    assert not network.host("h1").ip
    s1 = network.switch("s1")
    assert (s1.program, s1.entries) == (
        str(CLAB / ".." / ".." / "stf" / "basic.p4"), (str(CLAB / "s1-commands.txt"),),
    )  # fmt: skip
    assert {each.name: each.source.number for each in network.outward("s1")} == {
        "s1>h1": 1, "s1>h2": 2,
    }  # fmt: skip
    (said,) = network.left_out
    assert said.startswith(f"{CLAB / 'small.clab.yml'}:14: topology.nodes.h2: binds is left out")
    path = tmp_path / "small.clab.yml"
    text = (CLAB / "small.clab.yml").read_text().replace("../../stf/", "")
    text = text.replace('"s1:eth1"]', '"s1:eth1"]\n      ipv4: [10.1.1.1/24]\n      mtu: 1500')
    path.write_text(text)
    for file in (CLAB / "s1-commands.txt", PROGRAM):
        shutil.copy(file, tmp_path)
    network = read_lab(path)
    assert (network.host("h1").ip, network.host("h2").ip) == ("10.1.1.1", "")
    _, of_link = network.left_out
    assert of_link.endswith("topology.links[0]: mtu is left out: it does nothing here")
    other = read_lab(CLAB / "small.clab.yml", Programs(by_switch={"h2": PROGRAM}))
    assert [each.name for each in other.switches] == ["h2", "s1"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("kind: linux\n      exec", "kind: nokia_srlinux\n      exec",
         ":7: topology.nodes.h1: kind 'nokia_srlinux': Weft has Linux hosts and P4 switches, of "
         "the kinds linux, bridge, ovs-bridge"),
        ("10.1.2.2/24", "10.1.1.1/24", ":16: topology.nodes.h2: exec 'ip addr add 10.1.1.1/24 dev "
         "eth1': h1 has the address 10.1.1.1 already"),
        ("binds:", "startup-config:", ":19: topology.nodes.h2.startup-config: 'startup-config'"),
        ('"s1:eth1"]', '"s2:eth1"]', "topology.links[0]: 's2:eth1': there is no node 's2'"),
        ('"s1:eth1"]', '"s1"]', "topology.links[0]: 's1' names no interface: write s1:eth1"),
        ('"s1:eth1"]', '"s1:eth2"]', "topology.links[1] (s1-h2).ports.s1 2: links[0] (h1-s1) has"),
        ('["h1:eth1", "s1:eth1"]', "h1", "topology.links[0]: a link is { endpoints:"),
        ("  nodes:", "  nodes: {}\n  nodes:", ":7: topology.nodes is there twice: see line 6"),
        ("name: small", "name: [small", "not valid YAML: while parsing a flow sequence at line 1,"),
        ("labels: {", "labels: {other: 1}\n      ports: {",
         "topology.nodes.s1: the file names no program for s1: name one for all such switches"),
        ("&gateway", "", ""),
        ('mac: "08:00:00:00:02:02"', "ipv4: 10.1.2.2",
         "topology.links[1].ipv4: '10.1.2.2' is no address of ipv4 with its prefix length"),
        ('mac: "08:00:00:00:02:02"', "ip: 10.1.2.2/24", "topology.links[1]: 'ip' of h2 means no"),
        ('"s1:eth1"]', '"s1:eth1"]\n      ipv6: 10.1.1.1/24', "topology.links[0].ipv6: '10.1.1.1"),
        ('"s1:eth1"]', '"s1:eth1"]\n      mtus: 9', "topology.links[0].mtus: 'mtus' means nothing"),
        ('"s1:eth1"]', '"s1:eth1"]\n    - endpoints: ["h1:eth1", "s1:eth3"]',
         "links[1] (h1-s1)"),
    ],
)  # fmt: skip
def test_what_weft_has_not_of_containerlab_is_refused_with_its_line(
    old: str, new: str, said: str, tmp_path: Path
) -> None:
    pytest.importorskip("yaml", reason="PyYAML is not installed: pip install 'weft[labs]'")
    text = (CLAB / "small.clab.yml").read_text()
    assert old in text
    path = tmp_path / "small.clab.yml"
    path.write_text(text.replace("../../stf/", "").replace(old, new))
    shutil.copy(CLAB / "s1-commands.txt", tmp_path)
    shutil.copy(PROGRAM, tmp_path)
    if not said:
        read_lab(path)
        return
    with pytest.raises(InputError) as refused:
        read_lab(path)
    assert said.replace("topology.links[1] (", "links[1] (") in str(refused.value)


def test_a_yaml_file_that_multiplies_itself_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="PyYAML is not installed: pip install 'weft[labs]'")
    path = tmp_path / "many.clab.yml"
    lines = ["a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    path.write_text("\n".join(lines))
    with pytest.raises(InputError, match="it has more than 100,000 values"):
        read_lab(path)
    path.write_text("a: &a [*a]")
    with pytest.raises(InputError, match=r"more than|nested too deeply|not valid YAML"):
        read_lab(path)


def test_a_lab_of_netlab_is_what_it_says() -> None:
    pytest.importorskip("yaml", reason="PyYAML is not installed: pip install 'weft[labs]'")
    network = read_lab(NETLAB, Programs(PROGRAM))
    assert [host.name for host in network.hosts] == ["h1", "h2", "h-3"]
    assert network.switch("s1").program == PROGRAM
    addresses = {
        host.name: [str(each) for each in host.interfaces[0].with_subnets] for host in network.hosts
    }
    assert addresses["h1"] == ["10.1.0.11/24"]
    assert addresses["h2"] == ["172.16.0.2/24"]  # of a pool, by its number among the nodes
    assert addresses["h-3"] == ["10.1.0.3/24", "2001:db8::3/64"]
    assert {each.name: each.source.number for each in network.outward("s1")}["s1>h1"] == 4
    near, far, _ = network.links
    assert near.rate_bps == 20_000_000
    assert (far.delay_ns, far.jitter_ns, far.loss) == (5_000_000, 1_000_000, 0.005)
    (said,) = network.left_out
    assert said.startswith(f"{NETLAB}:6: nodes.h2: memory is left out (of h2)")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("device: linux", "device: frr", ":5: nodes.h1: device 'frr': Weft has hosts, and P4"),
        ("memory", "memroy", ":8: nodes.h2.memroy: means nothing here (did you mean"),
        ("role: bridge", "role: router", ":11: nodes.s1.role: 'router': a node is a host, or"),
        ("s1-h2", "s1-h5", ":22: links[1].members[0]: there is no node 'h5'"),
        ("s1-h2", "{h1: , h2: , h-3: , bridge: h2}", "links[1].members[0].bridge: h2 is a host"),
        ("s1-h2", "{s1: , h2: , pool: wan}", "links[1].members[0].pool: there is no pool 'wan'"),
        ("provider: clab", "addressing.lan.ipv4: 10.0.0.0/33", ":2: addressing.lan.ipv4: '10.0.0"),
        ("provider: clab", "addressing.lan.size: 4", "addressing.lan.size: means nothing here"),
        ("provider: clab", "groups: {g: [h5]}", ":2: groups.g: there is no node 'h5'; there"),
        ("provider: clab", "groups: {g: {members: [h1], port: 1}}", "groups.g.port: means nothing"),
        ("provider: clab", "plugin: clone", ":2: plugin: 'clone' is no list of names"),
        ("memory: 512", "clone.count: 2", "nodes.h2.clone: write plugin: [ node.clone ]"),
        ("memory: 512", "id: 0", "nodes.h2.id: 0 is no number above 0"),
        ("tc.delay: 5ms\n  tc: {jitter: 1, loss: 0.5}", "tc: 5ms", ".tc: '5ms' is no object"),
        ("s1-h2", "s1", "links[1].members[0]: it has 1 nodes"),
        ("bandwidth: 20000", "bandwidth: fast", ":18: links[0].bandwidth: 'fast' is no rate"),
        ("tc.delay: 5ms", "tc.corrupt: 1", "links[1].members[0].tc.corrupt: Weft has no such"),
        ("10.1.0.0/24\n", "10.1.0.1/24\n", ":17: links[0].prefix: 10.1.0.1/24 has host bits set"),
        ("ipv4: 3", "ipv4: 300", "links[2].h-3.ipv4: there is no address 300"),
        ("ipv4: 3", "ipv7: 3", "links[2].h-3: 'ipv7' means nothing here"),
        ("bandwidth: 20000", "speed: 1", "links[0]: 'speed' is no node"),
        ("provider: clab", "module: [ospf]", "module: 'ospf': Weft configures no routing"),
        ("provider", "providr", ":2: providr: means nothing here (did you mean"),
        ("loss: 0.5", "loss: 101", "links[1].members[0].tc.loss: 101 is no percentage"),
        ("ifindex: 4", "ifindex: four", "links[0].s1.ifindex: 'four' is no number"),
    ],
)  # fmt: skip
def test_what_weft_has_not_of_netlab_is_refused_with_its_line(
    old: str, new: str, said: str, tmp_path: Path
) -> None:
    pytest.importorskip("yaml", reason="PyYAML is not installed: pip install 'weft[labs]'")
    text = NETLAB.read_text()
    assert old in text
    path = tmp_path / "topology.yml"
    path.write_text(text.replace(old, new))
    with pytest.raises(InputError) as refused:
        read_lab(path, Programs(PROGRAM))
    assert said in str(refused.value)


NETLAB_POOLS = """
name: pools
defaults.device: linux
plugin: [ node.clone ]
addressing:
  lan: { ipv4: 10.20.0.0/16, ipv6: "2001:db8:1::/48", prefix: 26 }
  core: { ipv4: 10.30.0.0/16, prefix: 28, allocation: sequential }
prefix:
  one: { ipv4: 192.168.7.0/24 }
  two: { pool: core }
groups:
  named: { members: [ "h*" ], role: host }
  bridges: { members: [ br ], role: bridge, _auto_create: true }
nodes:
  h1:
  h2: { id: 7 }
  h3: { loopback: true }
  x: { clone.count: 3 }
  h4: { loopback: { ipv4: 10.99.0.1/32, ipv6: false } }
links:
- h1-h2
- [ h1, h2, h3 ]
- { h1: , h3: , prefix: one, mtu: 1400 }
- { h2: , h3: , prefix: two }
- { h2: , h4: , pool: core }
- { h1: , x: }
- { h3: { ipv4: 5 }, h4: , prefix: 10.7.0.0/29 }
- { h3: , h4: , prefix: false }
- { interfaces: [h1, h2], prefix: 10.8.0.0/30 }
- { interfaces: [h3, h4], bridge: br }
"""


def test_nodes_of_netlab_have_the_addresses_that_netlab_gives_them(tmp_path: Path) -> None:
    """They are those of ``netlab create`` (netlab 26.10), but for what follows of the bridge, which
    its Linux devices cannot be."""
    pytest.importorskip("yaml", reason="PyYAML is not installed: pip install 'weft[labs]'")
    path = tmp_path / "topology.yml"
    path.write_text(NETLAB_POOLS)
    network = read_lab(path, Programs(PROGRAM))
    found = {
        host.name: [str(one) for each in host.interfaces for one in each.with_subnets]
        for host in network.hosts
    }
    lan = "2001:db8:1"
    assert found["h1"] == [
        "10.20.0.1/26", f"{lan}::1/64", "10.20.0.65/26", f"{lan}:1::1/64", "192.168.7.1/24",
        "10.8.0.1/30", "10.20.0.193/26", f"{lan}:3::1/64", "10.20.1.1/26", f"{lan}:4::1/64",
        "10.20.1.65/26", f"{lan}:5::1/64",
    ]  # fmt: skip
    assert found["h2"][4:] == ["10.30.0.1/28", "10.30.0.17/28", "10.8.0.2/30"]
    assert found["h3"] == [
        "10.20.0.66/26", f"{lan}:1::2/64", "192.168.7.2/24", "10.30.0.2/28", "10.7.0.5/29",
        "10.20.0.130/26", f"{lan}:2::2/64",
    ]  # fmt: skip
    assert found["h4"][:2] == ["10.30.0.18/28", "10.7.0.3/29"]
    assert [found[f"x-0{each}"][0] for each in (1, 2, 3)] == [
        "10.20.0.197/26", "10.20.1.6/26", "10.20.1.72/26",
    ]  # fmt: skip
    assert network.host("h3").commands == ("ip address add 10.0.0.2/32 dev lo",)
    assert network.host("h4").commands == ("ip address add 10.99.0.1/32 dev lo",)
    assert [each.name for each in network.switches] == ["br", "lan1"]
    assert [each.name for each in network.links][1:4] == ["h1-lan1", "h2-lan1", "h3-lan1"]
    (said,) = network.left_out
    assert said.endswith("mtu is left out: it does nothing here")
    with pytest.raises(InputError, match=r"links\[1\]: the file names no program for lan1: name"):
        read_lab(path, Programs(by_switch={"br": PROGRAM}))
