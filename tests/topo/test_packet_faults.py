"""Fault lines: what they say, and what is said of those that make no sense."""

from __future__ import annotations

import pytest
from tests.support.fault_lines import parse_faults

from weft.base.errors import InputError
from weft.topo.clos import leaf_spine
from weft.topo.faults import (
    FAULTS,
    OPCODE_KINDS,
    Fault,
    Line,
    LinkLoss,
    Outage,
    PacketFault,
    PacketMatch,
    slow_rates_bps,
)
from weft.topo.faults.packets import EVERY, PacketKind


def test_a_packet_fault_names_a_packet_of_a_direction() -> None:
    assert Fault.parse("h0>leaf0:lose=3") == PacketFault("lose", PacketMatch("h0>leaf0"), 3, 3)


def test_without_a_number_it_is_the_first() -> None:
    fault = Fault.parse("*:corrupt,opcode=chunk")
    assert fault == PacketFault("corrupt", PacketMatch("*", "chunk"))


def test_packets_are_chosen_by_what_they_are() -> None:
    match = PacketMatch("host_down", "ack", rank=2, to=3, chunk=17)
    fault = Fault.parse("host_down:duplicate=2-5,opcode=ack,rank=2,to=3,chunk=17")
    assert fault == PacketFault("duplicate", match, 2, 5)
    assert Fault.parse("*:lose=all") == PacketFault("lose", PacketMatch(), *EVERY)


def test_times_have_units() -> None:
    for text, delay_ns in (("2ms", 2_000_000), ("1.5us", 1500), ("7ns", 7), ("0.25s", 250_000_000)):
        fault = Fault.parse(f"h0-leaf0:delay=1,by={text}")
        assert isinstance(fault, PacketFault) and fault.by_ns == delay_ns


def test_outages_have_a_time_or_an_event() -> None:
    assert Fault.parse("leaf0-spine1:fail,at=2ms,for=1ms") == Outage(
        "fail", "leaf0-spine1", at_ns=2_000_000, for_ns=1_000_000
    )
    assert Fault.parse("h3:kill,after=5,opcode=chunk,on=h3>leaf1") == Outage(
        "kill", "h3", after=5, match=PacketMatch("h3>leaf1", "chunk")
    )


def test_a_slow_link_has_a_part_of_its_rate() -> None:
    assert Fault.parse("leaf0-spine1:slow,rate=0.25") == Outage(
        "slow", "leaf0-spine1", at_ns=0, rate=0.25
    )
    assert Fault.parse("spine0:slow,rate=10%,at=5ms,for=1ms") == Outage(
        "slow", "spine0", at_ns=5_000_000, for_ns=1_000_000, rate=0.1
    )


def test_of_several_slow_rates_the_least_holds() -> None:
    faults = parse_faults(
        ["leaf0-spine1:slow,rate=0.25", "spine1:slow,rate=0.5", "spine0:fail,at=0ms"], leaf_spine()
    )
    rates = slow_rates_bps([each for each in faults if isinstance(each, Outage)], leaf_spine())
    assert len(rates) == 8
    assert rates["leaf0", "spine1"] == rates["spine1", "leaf0"] == 25_000_000
    assert rates["leaf1", "spine1"] == 50_000_000


def test_a_fault_is_written_as_it_was_read() -> None:
    for line in ("h0>leaf0:lose=3", "spine0:fail,at=2ms"):
        assert str(Fault.parse(line)) == line


def test_opcodes_have_names_of_their_own_too() -> None:
    fault = Fault.parse("*:lose,opcode=RC_WRITE_LAST_WITH_IMMEDIATE")
    assert isinstance(fault, PacketFault) and fault.match.opcodes == {0x09}
    assert OPCODE_KINDS["send"] == {0, 1, 2, 3, 4, 5}
    assert 0x11 in OPCODE_KINDS["control"] and 0x11 not in OPCODE_KINDS["data"]


def test_they_are_told_from_probabilities_of_loss() -> None:
    assert isinstance(Fault.parse("h0-leaf0:lose=1"), PacketFault)
    assert isinstance(Fault.parse("h0:kill,at=1ms"), Outage)
    assert Fault.parse("h0-leaf0:loss=0.5") == LinkLoss("h0-leaf0", 0.5)
    with pytest.raises(InputError, match="'h0-leaf0' is not understood: write LINK:loss=P"):
        Fault.parse("h0-leaf0")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("lose=3", "or WHERE:ACTION"),
        (":lose=3", "or WHERE:ACTION"),
        ("h0>leaf0:loose=3", "did you mean lose?"),
        ("h0>leaf0:lose=0", "packets count from 1"),
        ("h0>leaf0:lose=x", "not a whole number"),
        ("h0>leaf0:lose=5-3", "packets 5-3 are none"),
        ("h0>leaf0:lose=3,opcode=akk", "did you mean ack?"),
        ("h0>leaf0:lose=3,by=1ms", "unknown key of lose 'by'"),
        ("h0>leaf0:lose=3,rank", "needs a value"),
        ("h0>leaf0:lose=3,rank=-1", "not a whole number"),
        ("h0>leaf0:delay=3,by=2", "is no time"),
        ("h0>leaf0:delay=3,by=0ms", "is no delay"),
        ("spine0:fail", "say when"),
        ("spine0:fail=2,at=1ms", "takes no number"),
        ("spine0:fail,at=1ms,after=2", "say when, either"),
        ("spine0:fail,at=1ms,opcode=ack", "for after=N only"),
        ("h0:kill,at=1ms,for=2ms", "does not come back"),
        ("spine0:slow", "say how slow"),
        ("spine0:slow=0.5", "say how slow"),
        ("spine0:slow,rate=1", "no part of a rate"),
        ("spine0:slow,rate=0%", "no part of a rate"),
        ("spine0:slow,rate=.", "no part of a rate"),
        ("spine0:slow,rate=0.5,after=3", "unknown key of slow 'after'"),
    ],
)
def test_a_line_that_makes_no_sense_is_refused(line: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        Fault.parse(line)
    assert repr(line) in str(error.value)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("h9>leaf0:lose=1", "h9>leaf0"),
        ("*:lose=1,rank=8", "no rank 8: the ranks are 0 to 7"),
        ("*:lose=1,to=8", "no rank 8"),
        ("spine7:fail,at=1ms", "spine7"),
        ("leaf0:kill,at=1ms", "kill is for the rank of a host, h0 to h7, not 'leaf0'"),
        ("h0:kill,after=1,on=h0>leaf9", "h0>leaf9"),
    ],
)
def test_a_line_must_fit_the_network(line: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_faults([line], leaf_spine())


def test_a_switch_that_fails_takes_its_links_along() -> None:
    network = leaf_spine()
    fault = Fault.parse("spine1:fail,at=1ms")
    assert isinstance(fault, Outage)
    found = {direction.name for direction in fault.directions(network)}
    assert found == {f"leaf{i}>spine1" for i in range(4)} | {f"spine1>leaf{i}" for i in range(4)}


def test_places_are_links_directions_tiers_or_everywhere() -> None:
    network = leaf_spine()
    assert len(PacketMatch("leaf0-spine1").directions(network)) == 2
    assert len(PacketMatch("h0>leaf0").directions(network)) == 1
    assert len(PacketMatch("host_up").directions(network)) == 8
    assert len(PacketMatch("*").directions(network)) == 32


class Scratch(Fault):
    """Of another package: nothing that a world knows."""


class ScratchKind:
    name = "scratch"

    def read(self, line: Line) -> Fault:
        return Scratch()


def test_a_fault_that_no_world_carries_out_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be a run without a fault, and nobody told."""
    monkeypatch.setitem(FAULTS.others, "scratch", ScratchKind())
    with pytest.raises(InputError, match=r"'h0:scratch': 'scratch' of another package makes a Scr"):
        Fault.parse("h0:scratch")


def test_a_kind_of_packet_fault_says_what_links_do() -> None:
    with pytest.raises(InputError, match="packet fault 'scramble': 'scramble' is nothing that"):
        PacketKind("scramble")
    read = PacketKind("scramble", action="corrupt").read(Line("h0>leaf0:scramble=2"))
    assert (read.action, read.first) == ("corrupt", 2)
