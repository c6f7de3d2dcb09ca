"""Flows that others give: ``weft.simulate``, and the same as lines of JSON."""

from __future__ import annotations

import io
import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.base.cache import CHECKOUT
from weft.base.errors import InputError
from weft.interface.flows.lines import LINE_BYTES, converse

NETWORK = weft.leaf_spine(leaves=2, spines=2, hosts_per_leaf=2, rate_bps=10**10, delay_ns=1000)
HEADERS = 14 + 20 + 8 + 12 + 16 + 4 + 4
"""Of a frame of RDMA WRITE: Ethernet, IP, UDP, BTH, RETH, immediate, ICRC."""


def test_a_flow_of_one_packet_takes_what_its_links_take() -> None:
    """It is on four links, one after the other."""
    found = weft.simulate(NETWORK, [weft.Flow("a", "h0", "h2", 1000)])["a"]
    bits = 8 * (1000 + HEADERS)
    assert found.start_ns == found.retransmitted_packets == 0
    assert found.end_ns == pytest.approx(4 * (bits / 10 + 1000), abs=8)


@pytest.mark.parametrize(
    "paths", ["ecmp", "ecmp-4", "destination", "spray", "reps", "plb", "ethereal", "ethereal-ports"]
)
def test_a_flow_begins_when_those_before_it_have_ended_and_its_time_has_come(paths: str) -> None:
    flows = [
        weft.Flow("third", "h3", "h0", 5000, ["first", "second"]),
        weft.Flow("first", "h0", "h2", 200_000),
        weft.Flow("second", "h1", "h2", 100_000, start_ns=1_000_000),
        weft.Flow("late", "h2", "h1", 1, ["first"], start_ns=9_000_000),
    ]
    found = weft.simulate(NETWORK, flows, paths=paths)
    assert found["first"].start_ns == 0
    assert found["second"].start_ns == 1_000_000
    assert found["third"].start_ns == found["second"].end_ns > found["first"].end_ns
    assert found["late"].start_ns == 9_000_000
    least_ns = 200_000 * 8 / 10
    assert least_ns < found["first"].end_ns < 1.3 * least_ns
    assert found == weft.simulate(NETWORK, flows, paths=paths)


def test_flows_that_meet_share_their_link() -> None:
    flows = [weft.Flow(number, f"h{number}", "h3", 1_000_000) for number in range(3)]
    found = weft.simulate(NETWORK, flows, paths="spray")
    last_ns = max(each.end_ns for each in found.values())
    assert 2_400_000 < last_ns < 2_700_000


def test_ethereal_keeps_flows_apart_that_hashes_may_put_on_one_path() -> None:
    flows = [weft.Flow(number, f"h{number}", f"h{number + 2}", 1_000_000) for number in range(2)]
    found = weft.simulate(NETWORK, flows, paths="ethereal")
    assert max(each.end_ns for each in found.values()) < 860_000


def test_packets_that_are_sent_again_are_counted_for_their_own_flow() -> None:
    flows = [weft.Flow("there", "h0", "h2", 1_000_000), weft.Flow("one", "h1", "h3", 1)]
    found = weft.simulate(NETWORK, flows, loss="2%")
    assert found["there"].retransmitted_packets > 0
    assert found["one"].retransmitted_packets == 0


def test_a_flow_longer_than_a_message_ends_with_its_last_byte() -> None:
    size = (9 << 20) + 17
    found = weft.simulate(NETWORK, [weft.Flow("long", "h0", "h1", size)])
    assert size * 8 / 10 < found["long"].end_ns < 1.05 * size * 8 / 10


@pytest.mark.parametrize(
    ("flows", "told"),
    [
        ([weft.Flow("a", "h9", "h1", 1)], "flow 'a': source 'h9' is no host"),
        ([weft.Flow("a", "h0", "spine0", 1)], "flow 'a': destination 'spine0' is no host"),
        ([weft.Flow("a", "h0", "h0", 1)], "from h0 to itself"),
        ([weft.Flow("a", "h0", "h1", 0)], "size_bytes 0: it is 1 to"),
        ([weft.Flow("a", "h0", "h1", 1.5)], "size_bytes 1.5 is no whole number"),  # type: ignore[arg-type]
        ([weft.Flow("a", "h0", "h1", 1, start_ns=-1)], "start_ns -1: it is 0 to"),
        ([weft.Flow("a", "h0", "h1", 1)] * 2, "flow 'a' is there already"),
        ([weft.Flow("a", "h0", "h1", 1, ["b"])], "flow 'a': after 'b': there is no such flow"),
        ([weft.Flow("a", "h0", "h1", 1, "b")], r"give a list of ids, \['b'\]"),
        ([weft.Flow("a", "h0", "h1", 1, ["a"])], "none can begin: 'a' before 'a'"),
        (
            [weft.Flow("ab"[n], "h0", "h1", 1, ["ba"[n]]) for n in range(2)],
            "none can begin: 'a' before 'b' before 'a'",
        ),
    ],
)
def test_flows_that_make_no_sense_are_refused_by_name(flows: list[weft.Flow], told: str) -> None:
    with pytest.raises(InputError, match=told):
        weft.simulate(NETWORK, flows)


def test_options_that_say_nothing_of_flows_are_refused() -> None:
    with pytest.raises(InputError, match="size 65536: a simulation of flows has options of"):
        weft.simulate(NETWORK, [], size="64KiB")
    with pytest.raises(InputError, match="paths 'repps' is unknown"):
        weft.simulate(NETWORK, [], paths="repps")


def test_flows_are_added_as_others_end() -> None:
    simulation = weft.Simulation(NETWORK)
    simulation.add([weft.Flow("request", "h0", "h3", 64)])
    assert simulation.advance(500) == {}
    assert simulation.now_ns == 500
    ended = simulation.advance()
    assert [*ended] == ["request"]
    simulation.add([weft.Flow("reply", "h3", "h0", 9000, ["request"])])
    assert simulation.unfinished == 1
    reply = simulation.run()["reply"]
    assert reply.start_ns == ended["request"].end_ns
    assert simulation.advance() == {}
    assert simulation.advance(10**9) == {}
    assert simulation.now_ns == 10**9
    with pytest.raises(InputError, match="until_ns 5: it is 1000000000"):
        simulation.advance(5)


def test_assigned_paths_are_for_flows_that_are_known_before_time_goes_on() -> None:
    simulation = weft.Simulation(NETWORK, paths="ethereal")
    simulation.add([weft.Flow("a", "h0", "h3", 64)])
    simulation.run()
    with pytest.raises(InputError, match="'ethereal' are assigned to flows that are known from"):
        simulation.add([weft.Flow("b", "h0", "h3", 64)])


def test_flows_that_are_added_one_by_one_take_as_long_as_all_at_once() -> None:
    flows = [weft.Flow(number, "h0", f"h{1 + number % 3}", 30_000) for number in range(6)]
    simulation = weft.Simulation(NETWORK, flows[:2])
    for flow in flows[2:]:
        simulation.add([flow])
    simulation.run()
    assert simulation.results == weft.simulate(NETWORK, flows)


PAGE = (CHECKOUT / "docs" / "simulate.md").read_text()


def test_the_examples_of_the_page_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, "simulate.md", "exec"), {})


def test_the_conversation_on_the_page_is_what_is_said() -> None:
    lines = [each.strip() for each in PAGE.splitlines() if each.startswith("    {")]
    told: list[bytes] = []
    asked = "\n".join(lines[::2]).encode()
    converse(weft.Simulation(weft.leaf_spine(4, 2, 2)), io.BytesIO(asked), told.append)
    assert [each.decode().strip() for each in told] == lines[1::2]


def answers(*lines: Any) -> list[dict[str, Any]]:
    """Return the answers to lines of a new simulation."""
    given = b"\n".join(
        each if isinstance(each, bytes) else json.dumps(each).encode() for each in lines
    )
    told: list[bytes] = []
    converse(weft.Simulation(NETWORK), io.BytesIO(given), told.append)
    return [json.loads(each) for each in told]


def line_of(name: Any, source: str = "h0", destination: str = "h3", **more: Any) -> dict[str, Any]:
    """Return a flow as a line has it."""
    ends = {"source": source, "destination": destination, "size_bytes": 3000}
    return {"id": name, **ends, **more}


def test_lines_add_flows_and_let_time_go_on() -> None:
    added, ended, rest = answers(
        {"flows": [line_of("b", after=["a"]), line_of("a")]},
        {"advance": 10**9},
        {"flow": line_of(7, "h3", "h0"), "run": True},
    )
    assert added == {"ended": [], "now_ns": 0, "unfinished": 2}
    same = weft.simulate(NETWORK, [weft.Flow("a", "h0", "h3", 3000)])["a"]
    assert ended == {
        "ended": [
            {"id": "a", "start_ns": 0, "end_ns": same.end_ns, "retransmitted_packets": 0}
        ],
        "now_ns": same.end_ns,
        "unfinished": 1,
    }  # fmt: skip
    assert {each["id"] for each in rest["ended"]} == {"b", 7}
    assert rest["unfinished"] == 0


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"{", "line '{': "),
        (b"\xff\xfe", "line "),
        (b"[" * 100_000, "line "),
        (b"{}", "asks for nothing"),
        ({"flow": {"id": 1}}, "missing required field"),
        ({"flow": line_of("a", size_bytes="9")}, "Expected `int`, got `str`"),
        ({"advances": 5}, "unknown field"),
        ({"flow": line_of("a", "h9")}, "source 'h9' is no host"),
        (
            {"flows": [line_of("a", after=["b"]), line_of("b", after=["a"])]},
            "flows wait for each other",
        ),
        ({"advance": -1}, "until_ns -1"),
    ],
)
def test_a_bad_line_gets_an_error_line_and_the_next_is_read(line: Any, told: str) -> None:
    wrong, right = answers(line, {"flow": line_of("a"), "run": True})
    assert told in wrong["error"]
    assert [each["id"] for each in right["ended"]] == ["a"]


@settings(max_examples=50)
@given(st.lists(st.binary(max_size=60), max_size=4))
def test_whatever_comes_is_answered_line_by_line(lines: list[bytes]) -> None:
    whole = [each for each in b"\n".join(lines).split(b"\n") if each.strip()]
    found = answers(*whole)
    assert len(found) == len(whole)
    assert all("error" in each or "ended" in each for each in found)


def test_a_line_without_end_is_the_last() -> None:
    assert "a line of more than" in answers(b"x" * (LINE_BYTES + 1))[-1]["error"]


@pytest.mark.system
def test_programs_connect_to_a_socket_one_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "weft.sock"
    path_of_a_killed_one = socket.socket(socket.AF_UNIX)
    path_of_a_killed_one.bind(str(path))
    path_of_a_killed_one.close()
    command = [sys.executable, "-m", "weft", "simulate", "--leaves", "2", "--listen", str(path)]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    try:
        assert server.stderr.readline() == f"listening at {path}\n"
        assert path.stat().st_mode & 0o777 == 0o600
        for _ in range(2):
            with socket.socket(socket.AF_UNIX) as client, client.makefile("rwb") as file:
                client.connect(str(path))
                file.write(json.dumps({"flow": line_of("a"), "run": True}).encode() + b"\n")
                file.flush()
                assert json.loads(file.readline())["unfinished"] == 0
        again = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
        assert again.returncode == 2
        assert "Address already in use" in again.stderr
        server.send_signal(signal.SIGINT)
        assert server.wait(20) == 130
        assert not path.exists()
    finally:
        server.kill()
        server.wait()
        server.stderr.close()
