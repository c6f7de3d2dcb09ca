"""Networks with programs of one's own, as a lab has them: what they leave behind, and who owns
their switches."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.system_support import left_as_it_was, weft
from tests.support.wire import WIRE

from weft import leaf_spine, single, up
from weft.base.errors import InputError
from weft.controller.client import LoadableProgram, Session
from weft.experiments.results.network import NetworkResults
from weft.switch.compiler import compile_cached

pytestmark = [
    pytest.mark.system(alone=False),
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]


@pytest.fixture
def wire(tmp_path: Path) -> Path:
    path = tmp_path / "wire.p4"
    path.write_text(WIRE)
    return path


def test_what_was_done_at_the_prompt_is_in_a_report(wire: Path, tmp_path: Path) -> None:
    (tmp_path / "other.p4").write_text(WIRE.replace("struct M", "struct Other { } struct M"))
    (tmp_path / "commands.txt").write_text(
        "".join(  # so that no kernel asks for an address between the report and the loads
            f"h{one} ip neighbour replace 10.0.0.{other + 1} lladdr 02:00:0a:00:00:0{other + 1} "
            f"dev h{one}-eth0 nud permanent\n"
            for one, other in ((0, 1), (1, 0))
        )
        + "h0 ping -c 3 -i 0.2 h1\nreport so-far\nloads\nload other.p4\nh0 ping -c 1 h1\n"
    )
    options = ("--topology", "single", "--hosts-per-leaf", "2", "--program", wire.name)
    with left_as_it_was():
        done = weft(
            "up", *options, "--out", "lab", "--script", "commands.txt", cwd=tmp_path
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"Report:  {tmp_path / 'lab' / 'report.html'}" in done.stdout
    early, late = (NetworkResults.read(tmp_path / each) for each in ("so-far", "lab"))
    for way in (("h0", "leaf0"), ("leaf0", "h1"), ("h1", "leaf0"), ("leaf0", "h0")):
        first, last = (
            next(each for each in results.links if (each.from_node, each.to_node) == way)
            for results in (early, late)
        )
        assert 3 <= first.tx_packets < last.tx_packets
        assert f"{way[0]}>{way[1]}: {first.tx_packets:,} packets" in done.stdout
    assert [early.switches[0].program, late.switches[0].program] == ["wire.p4", "other.p4"]
    page = tmp_path / "lab" / "report.html"
    before = page.read_text()
    page.unlink()
    assert weft("report", "lab", cwd=tmp_path).returncode == 0
    assert page.read_text() == before


def test_a_place_that_cannot_be_written_is_said_before_anything_comes_up(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with left_as_it_was():
        for place, why in (("file", "is a file"), ("file/inner", "cannot be written")):
            done = weft("up", "--topology", "single", "--out", place, cwd=tmp_path)
            assert done.returncode == 2 and why in done.stderr and "Bring up" not in done.stderr
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.system  # its port is to be free still when the switch takes it
def test_python_leaves_switches_to_a_controller_of_ones_own(wire: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        left_as_it_was(),
        up(single(2), program=wire, controller=False, grpc_port=port) as net,
    ):
        assert net.addresses == {"leaf0": f"127.0.0.1:{port}"}
        h0, h1 = net.hosts
        h0.run("ping -c 1", h1.ip, check=True)
        with pytest.raises(InputError, match=r"controller=False.*at net\.addresses"):
            net.switch("leaf0")
        with closing(Session("leaf0", 1, net.addresses["leaf0"], election_id=(0, 1))) as mine:
            mine.connect()
            mine.push_program(LoadableProgram.read(compile_cached(wire)))
        run = net.backend.running.run_id
        loaded = weft("load", wire.name, "--run", run, cwd=tmp_path)
        assert "leaf0: the program runs" in loaded.stdout
        net.link("h0", "leaf0").fail()
        net.link("h0", "leaf0").restore()
        results = net.report(tmp_path / "lab")
    assert not results.controlled
    assert min(each.tx_packets for each in results.links) > 0


def test_a_program_that_is_loaded_elsewhere_is_counted_by_ports(wire: Path, tmp_path: Path) -> None:
    with left_as_it_was(), up(leaf_spine(2, 1, 1)) as net:
        assert set(net.link("leaf0", "spine0").counted_by.values()) == {"the fabric's program"}
        run = net.backend.running.run_id
        weft("load", wire.name, "--switch", "spine0", "--run", run, cwd=tmp_path)
        assert net.link("leaf0", "spine0").counted_by == {
            "leaf0>spine0": "the fabric's program", "spine0>leaf0": "the switch's port",
        }  # fmt: skip
        net.host("h0").run("ping -c 2 -W 5", net.host("h1").ip, check=True)
        results = net.report()
    assert [each.program for each in results.switches] == ["", "", "wire.p4"]
    by = {(each.from_node, each.to_node): each for each in results.links}
    assert by["spine0", "leaf1"].tx_packets >= 2
