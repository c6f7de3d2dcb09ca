"""Names of a program, by their ends."""

from __future__ import annotations

import pytest
from google.protobuf import text_format

from weft.base.errors import InputError
from weft.controller.program_names import ProgramNames
from weft.switch.messages import p4info_pb2

P4INFO = """
tables {
  preamble { id: 1 name: "In.routing.route" }
  match_fields { id: 1 name: "hdr.ipv4.dst_addr" match_type: LPM }
  size: 512
}
tables {
  preamble { id: 2 name: "In.guest.route" }
  match_fields { id: 1 name: "hdr.inner.dst_addr" match_type: EXACT }
  size: 3
}
actions { preamble { id: 3 name: "In.routing.drop" } }
actions { preamble { id: 4 name: "Out.fault.drop" } }
action_profiles { preamble { id: 5 name: "In.routing.ecmp" } }
counters { preamble { id: 6 name: "In.arrived" } size: 7 }
registers { preamble { id: 8 name: "In.guest.inner.turn" } size: 9 }
"""


def names(*apart: str) -> ProgramNames:
    return ProgramNames(text_format.Parse(P4INFO, p4info_pb2.P4Info()), apart)


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("In.routing.route", "In.routing.route"),
        ("routing.route", "In.routing.route"),
        ("routing.drop", "In.routing.drop"),
        ("fault.drop", "Out.fault.drop"),
        ("ecmp", "In.routing.ecmp"),
        ("arrived", "In.arrived"),
        ("turn", "In.guest.inner.turn"),
        ("inner.dst_addr", "hdr.inner.dst_addr"),
    ],
)
def test_a_name_is_found_by_its_end(short: str, full: str) -> None:
    assert names().name(short) == full
    assert short in names()


@pytest.mark.parametrize(
    ("short", "message"),
    [
        ("drop", "'drop': the fabric's program has 2 of that name: In.routing.drop, Out.fault.dr"),
        ("route", "'route': the fabric's program has 2 of that name"),
        ("dst_addr", "'dst_addr': the fabric's program has 2 of that name: hdr.inner.dst_addr, "),
        ("rop", "'rop': the fabric's program has no such name"),
        ("", "'': the fabric's program has no such name"),
    ],
)
def test_what_is_the_end_of_no_name_or_of_several_is_refused(short: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        names().name(short)
    assert short not in names()


def test_sizes_are_those_of_tables_counters_and_registers() -> None:
    assert [names().size(each) for each in ("routing.route", "arrived", "turn")] == [512, 7, 9]


def test_what_a_control_apart_has_makes_no_other_name_mean_several() -> None:
    apart = names("guest")
    assert apart.name("route") == "In.routing.route"
    assert apart.name("dst_addr") == "hdr.ipv4.dst_addr"
    assert apart.name("guest.route") == "In.guest.route"
    assert apart.name("guest.inner.turn") == "In.guest.inner.turn"
    assert apart.name("hdr.inner.dst_addr") == "hdr.inner.dst_addr"
    for short in ("turn", "inner.turn", "inner.dst_addr"):
        assert short not in apart
