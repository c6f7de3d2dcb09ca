"""Network files of other tools: what they mean, and what is refused, with its line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft.base.errors import InputError
from weft.topo.addresses import format_mac
from weft.topo.interfaces import interface_name
from weft.topo.labs.lab_format import Programs
from weft.topo.labs.reading import read_lab
from weft.topo.network import Port

TESTS = Path(__file__).resolve().parents[1]
BRIDGE = TESTS / "labs" / "bridge"
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
            ":3: hosts.h1: 'ipv4' means nothing here (did you mean ip?); there may be ip, mac, "
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
            "links[2] (h2-s2).ip '10.1.2.2' has no prefix length",
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
            "links[1][2]: 'soon' is no latency: write milliseconds",
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


def changed(folder: Path, change: Change) -> Path:
    """Copy the lab into a folder, and change its topology."""
    for file in BRIDGE.iterdir():
        shutil.copy(file, folder)
    path = folder / "topology.json"
    topology = json.loads(path.read_text())
    change(topology)
    path.write_text(json.dumps(topology, indent=4))
    return path
