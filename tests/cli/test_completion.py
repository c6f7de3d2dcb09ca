"""What the prompt of ``weft up`` offers and shows are names of the network that is up."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from weft.base.cache import CHECKOUT
from weft.cli.completion import candidates, examples
from weft.topo.network import Topology


def lab() -> Topology:
    network = weft.Network("lab")
    for name in ("s1", "s-2"):
        network.switch(name)
    for name, switch in (("alice", "s1"), ("bob", "s-2"), ("carol", "s-2")):
        network.link(network.host(name), switch)
    network.link("s1", "s-2")
    return network.topology()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("link", ["alice", "bob", "carol", "s1", "s-2"]),
        ("link s1", ["alice", "s-2"]),
        ("link s1 s-2", ["up", "down", "delay=", "jitter=", "loss=", "rate="]),
        ("link s1 s-2 delay=1ms", ["jitter=", "loss=", "rate="]),
        ("link s1 s-2 up", []),
        ("link nobody", []),
        ("tables", ["s1", "s-2"]),
        ("counters s1", []),
        ("trace", ["alice", "bob", "carol", "s1", "s-2"]),
        ("trace s1 5", ["alice", "bob", "carol", "s1", "s-2"]),
        ("iperf", ["alice", "bob", "carol"]),
        ("iperf bob", ["alice", "carol"]),
        ("iperf bob alice", []),
        ("load a.p4 s1", ["s-2"]),
        ("cli", ["s1", "s-2"]),
        ("cli s1 table_add", []),
        ("pingall", []),
        ("alice ping", ["alice", "bob", "carol", "s1", "s-2"]),
    ],
)
def test_a_command_is_offered_what_it_takes(line: str, offered: list[str]) -> None:
    assert candidates(lab(), line.split()) == offered


def test_examples_are_of_the_nodes_that_there_are() -> None:
    text = examples(lab())
    for words in ("alice ping -c 3 carol", "iperf alice carol", "link s1 s-2 down", "tables s1"):
        assert words in text
    assert "link h0 leaf0 down" in examples(weft.single(2))


def test_examples_call_weft_as_it_can_be_called_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CHECKOUT)
    assert "sudo ./weft shell alice" in examples(lab())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert f"sudo {CHECKOUT / 'weft'} shell alice" in examples(lab())
    (tmp_path / "weft").touch(0o755)
    assert "sudo weft shell alice" in examples(lab())
