"""What PSA's specification says of packets and programs, a packet or a program for each sentence,
and the page that lists them: ``.venv/bin/python -m tests.support.psa_sentences`` writes it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import msgspec
from tests.support import sentences
from tests.support.sentences import COMMANDS, FOLDER, IN_PORT, PORTS, ROOT, switch

__all__ = (
    "COMMANDS",
    "IN_PORT",
    "PORTS",
    "ROOT",
    "switch",
)  # the cases need what simple_switch's do

PROGRAM = FOLDER / "psa.p4"
EXTERNS = ROOT / "tests" / "stf" / "psa" / "externs.p4"
PAGE = ROOT / "docs" / "psa-sentences.md"
URL = "https://p4.org/p4-spec/docs/PSA-v1.2.html"


class Case(sentences.Case, frozen=True):
    """A sentence, its packet, and whether BMv2's psa_switch does what the specification says."""

    psa_switch: bool = True


@lru_cache(maxsize=1)
def cases() -> list[Case]:
    """The sentences of packets."""
    found = msgspec.toml.decode((FOLDER / "psa.toml").read_bytes(), type=dict[str, list[Case]])
    return found["case"]


class Refused(msgspec.Struct, frozen=True):
    """A sentence of what programs may not do, and a change to a program that does it."""

    section: str
    text: str
    source: Path
    change: tuple[str, str]
    message: str


_ENDS = "PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;"
_APPLY = "    apply {\n        send_to_port(ostd, (PortId_t) 1);"


def _another(keys: str, actions: str, profile: str) -> str:
    """Another table whose actions are in a profile, before what applies it."""
    return f"""    table another {{ key = {{ hdr.ethernet.{keys}; }} actions = {{ {actions}; }}
        psa_implementation = {profile}; }}
{_APPLY} another.apply();"""


REFUSED = (
    Refused("PSA type definitions", "A number is no port: it has to be cast.", PROGRAM,
            ("send_to_port(ostd, (PortId_t) 77)", "send_to_port(ostd, 32w77)"),
            "has type bit<32>, but PortId_t is expected"),
    Refused("PSA type definitions", "There is no arithmetic with ports.", PROGRAM,
            ("send_to_port(ostd, (PortId_t) 77)",
             "send_to_port(ostd, istd.ingress_port + (PortId_t) 1)"), "'\\+' is not defined"),
    Refused("Behavior of packets after egress processing is complete",
            "Egress cannot change the port.", PROGRAM,
            ("hdr.first.instance =", "istd.egress_port = (PortId_t) 1; hdr.first.instance ="),
            "'istd' is an 'in' parameter"),
    Refused("Packet Resubmission", "Egress cannot resubmit.", PROGRAM,
            ("hdr.first.instance =", "ostd.resubmit = true; hdr.first.instance ="),
            "has no field 'resubmit'"),
    Refused("Restrictions on where externs may be used", "emit() is called in deparsers.", PROGRAM,
            ("hdr.first.in_error = told;", "hdr.first.in_error = told; b.emit(hdr.first);"),
            "'b' is not declared"),
    Refused("Restrictions on where externs may be used", "verify() is called in parsers.", PROGRAM,
            ("hdr.first.in_error = told;", "verify(true, error.OwnError);"), "in a parser"),
    Refused("Table entry timeout notification", "`psa_idle_timeout` is a PSA_IdleTimeout_t.",
            EXTERNS, ("psa_direct_meter = rate;", "psa_direct_meter = rate; psa_idle_timeout = 5;"),
            "must be a member of PSA_IdleTimeout_t"),
    Refused("Packet Replication Engine", "There is one.", PROGRAM,
            (_ENDS, f"PacketReplicationEngine() own; {_ENDS}"), "one PacketReplicationEngine"),
    Refused("Buffering Queuing Engine", "There is one.", PROGRAM,
            (_ENDS, f"BufferingQueueingEngine() own; {_ENDS}"), "one BufferingQueueingEngine"),
    Refused("Direct Counter", "It belongs to at most one table.", EXTERNS,
            ("psa_direct_counter = seen;", "psa_direct_counter = hits;"),
            "belongs to table In.counted already"),
    Refused("Direct Counter", "count() is called in an action.", EXTERNS,
            ("m.learned = 0;", "m.learned = 0; hits.count();"), "in an action of its table"),
    Refused("Direct Counter", "It is an error to call count() of one that no table has.", EXTERNS,
            ("psa_direct_counter = hits;", ""), "'In.hits' belongs to no table"),
    Refused("Direct Counter", "It is an error to call count() in an action of another table.",
            EXTERNS, ("actions = { measure; NoAction; }",
                      "actions = { measure; forward; NoAction; }"),
            "uses 'In.hits', which belongs to another table"),
    Refused("Direct Meter", "execute() is called in an action of the meter's table.", EXTERNS,
            ("actions = { forward; pass;", "actions = { forward; measure;"),
            "uses 'In.rate', which belongs to another table"),
    Refused("Direct Meter", "execute() is called in an action.", EXTERNS,
            ("m.learned = 0;", "m.learned = 0; PSA_MeterColor_t colour = rate.execute();"),
            "in an action of its table"),
    Refused("Action Profile", "A table whose actions are in one has no default action of its own.",
            EXTERNS, ("psa_implementation = ways;",
                      "psa_implementation = ways; default_action = answer(1, (PortId_t) 2);"),
            "so its default action is NoAction"),
    Refused("Action Profile", "Tables that share one have the same actions.", EXTERNS,
            (_APPLY, _another("kind: exact", "NoAction", "ways")), "must have the same actions"),
    Refused("Action Selector", "A table whose actions are in one has no default action of its own.",
            EXTERNS, ("psa_implementation = spread;",
                      "psa_implementation = spread; default_action = answer(1, (PortId_t) 2);"),
            "so its default action is NoAction"),
    Refused("Action Selector", "Tables that share one have the same selector keys in one order.",
            EXTERNS,
            (_APPLY, _another("kind: exact; hdr.ethernet.dst: selector", "answer; NoAction",
                              "spread")),
            "must have the same selector keys"),
    Refused("Table entry timeout notification", "No table with an action profile has timeouts.",
            EXTERNS, ("psa_implementation = ways;",
                      "psa_implementation = ways; "
                      "psa_idle_timeout = PSA_IdleTimeout_t.NOTIFY_CONTROL;"),
            "psa_idle_timeout of table"),
    Refused("Action Selector", "Keys of kind `selector` are for an ActionSelector.",
            EXTERNS, ("psa_implementation = spread;", ""), "no ActionSelector"),
)  # fmt: skip

ELSEWHERE = (
    ("Packet Cloning", "A session may cut copies; its length is the packet's, not the metadata's.",
     "switch/engine/test_psa.py::test_copies_of_a_session_are_cut_before_egress_parses_them"),
    ("Packet Cloning", "PSA_CLONE_SESSION_TO_CPU leads to PSA_PORT_CPU from the start.",
     "switch/engine/test_psa.py::test_the_session_to_the_controller_is_there_from_the_start"),
    ("Multicast replication", "Groups may have PSA_PORT_CPU and PSA_PORT_RECIRCULATE.",
     "switch/engine/test_psa.py::"
     "test_ports_of_the_controller_and_for_recirculation_have_their_numbers"),
    ("Multicast replication", "A pair of port and instance is in a group once; none is group 0.",
     "switch/p4runtime/test_p4runtime_entities.py::test_a_wrong_multicast_group_is_refused"),
    ("Direct Counter", "It counts in the actions that call count(), and in no others.",
     "switch/engine/test_psa.py::test_packets_go_where_they_should"),
    ("PSA Table Properties", "A table may have a direct counter and a direct meter.",
     "switch/engine/test_psa.py::test_packets_go_where_they_should"),
    ("Table entry timeout notification", "The controller is told of an entry that is not hit for "
     "as long as its idle time, and of none that has no such time.",
     "switch/p4runtime/test_p4runtime_notices.py::"
     "test_idle_entries_are_reported_until_they_are_hit"),
    ("Action Profile", "It holds as many members as its size says.",
     "switch/p4runtime/test_p4runtime_entities.py::test_a_full_profile_says_so"),
    ("Action Profile", "A member has one of the table's actions, and a number that no other has; "
     "entries name members, and no actions.",
     "switch/p4runtime/test_p4runtime_entities.py::"
     "test_wrong_members_groups_and_targets_are_refused"),
    ("Action Selector", "Entries name members or groups of them.",
     "switch/p4runtime/test_p4runtime_entities.py::test_members_groups_and_entries_that_use_them"),
    ("Timestamps", "They grow with every microsecond, at a constant rate.",
     "switch/engine/test_psa.py::test_timestamps_differ_from_microsecond_to_microsecond"),
    ("Atomicity of control plane API operations", "Once a write has returned, packets see it; they "
     "see an entry as it was or as it is.",
     "switch/p4runtime/test_p4runtime_sessions.py::"
     "test_packets_see_a_batch_when_the_write_returns"),
    ("Packet ordering", "Packets from one port to one port keep their order.",
     "switch/engine/test_psa.py::test_packets_from_one_port_to_one_port_keep_their_order"),
    ("PSA Externs", "Counters, meters, registers, hashes, checksums, profiles and selectors.",
     "switch/engine/test_psa.py::test_packets_go_where_they_should"),
    ("Packet Digest", "pack() tells the controller.",
     "switch/engine/test_psa.py::test_a_digest_reaches_the_controller"),
)  # fmt: skip
"""Sentences that have a test elsewhere, by its file and name."""

_DIFFERENCES = (
    "Externs may be where the specification lets a switch reject them: only what packets count, "
    "measure and write is refused in parsers.",
    "A packet that is resubmitted or recirculated more than 256 times is dropped.",
)


def page() -> str:
    """The page of all sentences."""
    known = cases()
    lines = [
        "# What PSA's specification says, sentence by sentence",
        "",
        f"What [version 1.2]({URL}) says a switch must do, in other words, and that Weft does it. "
        f"Each of the first {len(known)} rows is a packet to the program "
        "`tests/switch/engine/sentences/psa.p4`, whose first byte is the number of the case: the "
        "switch's plain and compiled form and the interpreter must send the frames of `psa.toml` "
        "beside it, and so must BMv2's psa_switch where the last column does not say otherwise. "
        "The other rows are programs that are refused, with a message that says why. Sections are "
        "named by their titles.",
        "",
        "This page is made by `.venv/bin/python -m tests.support.psa_sentences`; every row is a "
        "test.",
        "",
        "| section | what | case, or test | psa_switch |",
        "|---|---|---|---|",
    ]
    for case in known:
        same = "" if case.psa_switch else "differs"
        lines.append(f"| {case.section} | {case.text} | {int(case.packet[:2], 16)} | {same} |")
    for one in REFUSED:
        lines.append(f"| {one.section} | {one.text} | refused | |")
    for section, text, test in ELSEWHERE:
        file, name = test.split("::")
        lines.append(f"| {section} | {text} | `{name}` in `tests/{file}` | |")
    lines += ["", "## Where Weft goes another way", "", *(f"- {one}" for one in _DIFFERENCES), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
