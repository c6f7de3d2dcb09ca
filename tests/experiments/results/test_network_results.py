"""What a network with programs of one's own leaves behind, and the page of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.wire import WIRE
from typer.testing import CliRunner

import weft
from weft.base.errors import InputError, WeftError
from weft.cli.command_line import app
from weft.experiments.report.kinds import opened
from weft.experiments.report.network import render
from weft.experiments.results.document import schema_of
from weft.experiments.results.network import (
    FABRIC,
    PORTS,
    NetworkResults,
)
from weft.experiments.runs.folder import REPORT

FRAME = bytes.fromhex("020000000001 020000000002 88b5") + bytes(46)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wire") / "wire.p4"
    path.write_text(WIRE)
    return path


@pytest.fixture(scope="module")
def folder(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab") / "results"
    with weft.up(weft.single(2), world="simulated", program=program) as net:
        net.host("h0").send(FRAME, count=3)
        net.advance(0.25)
        net.report(folder)
    return folder


def test_a_program_of_ones_own_leaves_loads_tables_and_a_page(folder: Path, program: Path) -> None:
    results = NetworkResults.read(folder)
    carried = {
        (each.from_node, each.to_node): (each.tx_packets, each.tx_bytes) for each in results.links
    }
    assert carried == {
        ("h0", "leaf0"): (3, 180), ("leaf0", "h0"): (0, 0),
        ("h1", "leaf0"): (0, 0), ("leaf0", "h1"): (3, 180),
    }  # fmt: skip
    assert {each.counted_by for each in results.links} == {PORTS}
    assert {each.dropped for each in results.links} == {0}
    assert results.seconds == 0.25
    (leaf,) = results.switches
    assert (leaf.name, leaf.device_id, leaf.program) == ("leaf0", 1, str(program))
    assert leaf.unread == ""
    page = (folder / REPORT).read_text()
    assert page == render(results)
    assert "h0&gt;leaf0: 180 B" in page  # the picture says so to whoever points at it
    assert str(program) in page
    assert "no packet known to be dropped on links" in page
    assert "http" not in page.replace("http://www.w3.org/", "")


def test_tables_have_their_sizes_and_links_their_losses(tmp_path: Path) -> None:
    source = tmp_path / "drop.p4"
    source.write_text(
        WIRE.replace(
            "apply { if (s.ingress",
            "action send(bit<9> port) { s.egress_spec = port; }\n"
            "    table ways { key = { s.ingress_port : exact; } actions = { send; NoAction; } "
            "size = 77; }\n"
            "    apply { ways.apply(); if (s.ingress",
        )
    )
    slow = weft.single(3, 1_000_000, queue_bytes=18432)
    with weft.up(slow, world="simulated", program=source) as net:
        net.switch("leaf0").table("ways").insert({"ingress_port": 1}, "send", port=2)
        for host in net.hosts[1:]:  # both lead to the first
            host.send(FRAME + bytes(1000), count=60)
        net.advance(1)
        results = net.report()
    (leaf,) = results.switches
    assert [(table.name, table.size, table.entries) for table in leaf.tables] == [("I.ways", 77, 1)]
    lost = {(each.from_node, each.to_node): each.queue_dropped for each in results.links}
    assert lost["leaf0", "h0"] and not lost["leaf0", "h1"]
    assert "packets dropped on links" in render(results)


def test_switches_with_the_fabrics_program_count_by_it(program: Path) -> None:
    shape = weft.leaf_spine(2, 1, 1)
    with weft.up(shape, world="simulated", program={"leaf1": program}) as net:
        results = net.report()
    by = {(each.from_node, each.to_node): each.counted_by for each in results.links}
    assert by["h0", "leaf0"] == FABRIC
    assert by["h1", "leaf1"] == PORTS
    page = render(results)
    assert "the fabric's program counts since it was loaded" in page
    programs = {each.name: each.program for each in results.switches}
    assert programs == {"leaf0": "", "leaf1": str(program), "spine0": ""}


def test_the_command_makes_the_same_page_anew(folder: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    out = tmp_path / "anew.html"
    told = runner.invoke(app, ["report", str(folder), "--out", str(out)])
    assert told.exit_code == 0, told.output
    assert out.read_text() == (folder / REPORT).read_text()
    assert schema_of(folder) == "weft.network"
    refused = runner.invoke(app, ["plot", str(folder)])
    assert isinstance(refused.exception, InputError)
    assert "'weft.network'" in str(refused.exception)


def test_commands_for_results_take_it_as_far_as_it_goes(folder: Path) -> None:
    kind, results = opened(folder)
    document = json.loads((folder / "results.json").read_text())
    for table, count in ("links", len(document["links"])), ("switches", len(document["switches"])):
        rows, _ = kind.table(results, table)
        assert len(rows) == count and len({tuple(row) for row in rows}) == 1
    rows, columns = kind.table(results, "tables")
    assert not rows or tuple(rows[0]) == tuple(columns)
    runner = CliRunner()
    told = runner.invoke(app, ["export", str(folder), "--table", "links"])
    assert told.output.startswith("from,to,port,counted_by,tx_packets,tx_bytes")
    for command in (["export", str(folder)], ["compare", str(folder), str(folder)]):
        refused = runner.invoke(app, command)
        assert isinstance(refused.exception, InputError), command


def test_what_cannot_be_written_or_is_down_is_refused(program: Path, tmp_path: Path) -> None:
    net = weft.up(weft.single(2), world="simulated", program=program)
    with pytest.raises(InputError, match="is not up"):
        net.report()
    (tmp_path / "file").write_text("")
    with net:
        with pytest.raises(InputError, match=r"file' cannot be written.*name another folder"):
            net.report(tmp_path / "file")
        with pytest.raises(InputError, match="is no path"):
            net.report(3)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="no name"):
            net.report("")
    assert (tmp_path / "file").read_text() == ""


def test_a_link_that_is_down_is_said(program: Path) -> None:
    with weft.up(weft.single(2), world="simulated", program=program) as net:
        net.link("h0", "leaf0").fail()
        results = net.report()
    assert results.down == ["h0-leaf0"]
    assert "down: h0-leaf0" in render(results)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All places in a document."""
    found = [at] if at else []
    inner: Any = ()
    if isinstance(value, (dict, list)):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
    return found + [place for key, each in inner for place in places(each, (*at, key))]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_document_is_an_error_or_has_a_page(
    folder: Path, tmp_path: Path, data: st.DataObject
) -> None:
    document = json.loads((folder / "results.json").read_text())
    values = st.one_of(
        st.none(), st.booleans(), st.integers(-3, 1 << 70), st.text(max_size=5), st.just([]),
        st.just({}), st.floats(),
    )  # fmt: skip
    for _ in range(data.draw(st.integers(1, 3))):
        *before, last = data.draw(st.sampled_from(places(document)))
        part = document
        for step in before:
            part = part[step]
        if data.draw(st.booleans()):
            part[last] = data.draw(values)
        else:
            del part[last]
    file = tmp_path / "results.json"
    file.write_text(json.dumps(document))
    try:
        page = render(NetworkResults.read(file))
    except WeftError as error:
        assert str(error)
    else:
        assert page.strip().startswith("<!DOCTYPE html>")
