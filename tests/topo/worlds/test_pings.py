"""Pings of Mininet's tests go side by side, and answer in Mininet's order."""

from __future__ import annotations

import subprocess
from ipaddress import ip_interface
from typing import Any

import pytest

from weft.base.errors import InputError
from weft.topo.worlds.emulated import pings


class Node:
    """A node whose pings are processes that say who pings whom, or wait for ever."""

    def __init__(self, name: str, *addresses: str, answers: bool = True) -> None:
        self.name = name
        given = addresses or (f"10.0.0.{name[1:]}/24",)
        self.addresses = [ip_interface(each) for each in given if each]
        self.intfs = {0: name}
        self.answers = answers
        self.started: list[subprocess.Popen[str]] = []
        self.commands: list[list[str]] = []

    def intfList(self) -> list[Any]:
        return [self]

    def updateIP(self) -> None:
        pass

    def IP(self) -> str:
        return str(self.addresses[0].ip)

    def popen(self, command: list[str], **options: Any) -> subprocess.Popen[str]:
        self.commands.append(command)
        said = ["echo", self.name, command[-1]] if self.answers else ["sleep", "1000"]
        self.started.append(subprocess.Popen(said, **options))
        return self.started[-1]


def test_answers_come_in_the_order_of_the_loops() -> None:
    nodes = [Node(f"h{number}") for number in range(7)]  # more pairs than go at a time
    assert len(nodes) * (len(nodes) - 1) > pings.AT_ONCE
    with pings.side_by_side(nodes, "5") as standing:
        for one in standing:
            for other in standing:
                if one is not other:
                    said = one.cmd("ping -c1 -W 5 somewhere")
                    assert said == f"{one.name} {other.IP()}\n"
    assert {tuple(each[:4]) for node in nodes for each in node.commands} == {
        ("ping", "-c1", "-W", "5")
    }
    assert all(each.returncode == 0 for node in nodes for each in node.started)


def test_no_more_than_some_are_under_way_and_none_stays() -> None:
    nodes = [Node("h0"), *(Node(f"h{number}", answers=False) for number in range(1, 9))]
    with pings.side_by_side(nodes, None) as standing:
        assert standing[0].cmd("") == "h0 10.0.0.1\n"
        under_way = [each for node in nodes for each in node.started if each.poll() is None]
        assert 0 < len(under_way) <= pings.AT_ONCE
    assert all(each.returncode is not None for node in nodes for each in node.started)


def test_hosts_are_pinged_by_an_address_of_a_kind_that_both_have() -> None:
    both, six, none = Node("a", "10.0.0.1/24", "fd00::1/64"), Node("b", "fd00::2/64"), Node("c", "")
    four = Node("d", "10.0.0.4/24")
    nodes = [both, six, four, none]
    with pings.side_by_side(nodes, None) as standing:
        said = [one.cmd("") for one in standing for other in standing if one is not other]
    unsent = [pings.NOT_SENT] * 3
    assert said == [
        "a fd00::2\n", "a 10.0.0.4\n", pings.NOT_SENT, "b fd00::1\n", *unsent[1:],
        "d 10.0.0.1\n", *unsent[1:], *unsent,
    ]  # fmt: skip
    assert both.commands == [["ping", "-6", "-c1", "fd00::2"], ["ping", "-c1", "10.0.0.4"]]
    assert six.commands == [["ping", "-6", "-c1", "fd00::1"]]


def test_the_prompt_says_how_long_a_ping_waits() -> None:
    prompt = pytest.importorskip("weft.topo.worlds.emulated.mininet_prompt")
    assert prompt._patience("", "pingall") == "5"
    assert prompt._patience(" 0.5 ", "pingall") == "0.5"
    for wrong in ("x", "0", "-1", "nan", "inf", "1e9", "1 2"):
        with pytest.raises(InputError, match=r"it is pingall \[SECONDS\]"):
            prompt._patience(wrong, "pingall")
