"""The language of BMv2's command line on a switch of this process: what commands do, and the words
of their answers, as BMv2's documentation and its command line have them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.bmv2_cli_support import answers, local_session, outcome, refusals, session_with
from tests.support.p4runtime_support import EVERY_ENTITY, compiled, make_dataplane

from weft.base.cache import CHECKOUT
from weft.base.errors import WeftError
from weft.controller.bmv2_cli.run import COMMANDS, commands_of
from weft.controller.bmv2_cli.switch import CommandSwitch
from weft.controller.client import Session
from weft.switch.messages import p4runtime_pb2

OBJECTS = CHECKOUT / "tests" / "programs" / "objects.p4"


@pytest.fixture
def session() -> Session:
    return local_session(EVERY_ENTITY)


@pytest.fixture
def objects() -> Session:
    return local_session(OBJECTS)


def test_an_entry_is_added_with_the_words_of_bmv2(session: Session) -> None:
    assert answers(session, "table_add exact_table rewrite 5 0x10 => 00:00:00:00:00:07 1") == [
        "Adding entry to exact match table exact_table",
        "match key:           EXACT-05\tEXACT-00:10",
        "action:              rewrite",
        "runtime data:        00:00:00:00:00:07\t00:01",
        "Entry has been added with handle 0",
    ]
    added = answers(session, "table_add priority_table mark 1&&&0xf 1->9 0&&&0 10.0.0.1 => 9 10")
    assert added[1:] == [
        "match key:           TERNARY-01 &&& 0f\tRANGE-00:01 -> 00:09\tTERNARY-00 &&& 00\t"
        "EXACT-0a:00:00:01",
        "action:              mark",
        "runtime data:        00:09",
        "Entry has been added with handle 0",
    ]


def test_entries_are_shown_as_bmv2_shows_them(session: Session) -> None:
    answers(session, "table_add lpm_table send 10.0.1.7/24 => 3\ntable_set_default lpm_table drop")
    assert answers(session, "table_dump TheIngress.lpm_table") == [
        "==========",
        "TABLE ENTRIES",
        "**********",
        "Dumping entry 0x0",
        "Match key:",
        "* data.d              : LPM       0a000100/24",
        "Action entry: TheIngress.send - 03",
        "==========",
        "Dumping default entry",
        "Action entry: TheIngress.drop - ",
        "==========",
    ]
    answers(session, "table_reset_default lpm_table")
    assert answers(session, "table_dump lpm_table")[-2] == "Action entry: NoAction - "
    answers(session, "table_add priority_table mark 1&&&1 0->0xfff 3&&&0xf 7 => 9 4")
    assert answers(session, "table_dump_entry_from_key priority_table 1&&&1 0->4095 3&&&15 7 4")[
        -2:
    ] == ["Priority: 4", "Action entry: TheIngress.mark - 09"]


def test_the_least_priority_wins(session: Session) -> None:
    answers(session, "table_add priority_table mark 0&&&0 0->9 0&&&0 7 => 1 0")
    (entry,) = session.read([p4runtime_pb2.Entity(table_entry={"table_id": _id(session)})])
    assert entry.table_entry.priority == 2**31 - 1


def _id(session: Session) -> int:
    tables = session.program.config.p4info.tables
    (found,) = [one for one in tables if one.preamble.name == "TheIngress.priority_table"]
    return int(found.preamble.id)


def test_handles_count_from_0_and_are_kept_over_sessions(session: Session) -> None:
    for value in range(3):
        answers(session, f"table_add exact_table send {value} 0 => 1")
    answers(session, "table_delete exact_table 1")
    assert answers(session, "table_add exact_table send 9 0 => 1")[-1].endswith("handle 1")
    answers(session, "table_modify exact_table rewrite 2 => 7 8")
    assert answers(session, "table_dump_entry exact_table 2")[2:] == [
        "* data.a              : EXACT     02",
        "* data.b              : EXACT     0000",
        "Action entry: TheIngress.rewrite - 07, 08",
    ]
    assert answers(session, "table_num_entries exact_table") == ["3"]
    assert refusals(session, "table_delete exact_table 5") == [
        "commands.txt:1: table_delete: Invalid table operation (INVALID_HANDLE): table "
        "TheIngress.exact_table has no entry with handle 5; handles are 0, 1, 2"
    ]
    answers(session, "table_clear exact_table")
    assert answers(session, "table_num_entries exact_table") == ["0"]


def test_entries_that_others_have_made_have_handles_too(session: Session) -> None:
    assert answers(session, "table_dump_entry const_table 1")[-1].endswith("mark - 14")
    answers(session, "table_add exact_table send 1 0 => 1\ntable_add exact_table send 2 0 => 1")
    found = session.read([p4runtime_pb2.Entity(table_entry={"table_id": 0})])
    one = next(entry for entry in found if entry.table_entry.metadata == b"handle 0")
    one.table_entry.metadata = b""
    session.send("modify", [one], "modify an entry")
    assert answers(session, "table_dump_entry exact_table 0")[2].endswith("EXACT     01")
    assert answers(session, "table_dump_entry exact_table 1")[2].endswith("EXACT     02")


def test_members_and_groups(session: Session) -> None:
    said = answers(
        session,
        """
        act_prof_create_member selector_profile send 3
        table_indirect_create_member selector_table send 4
        act_prof_create_group selector_profile
        act_prof_add_member_to_group selector_profile 0 0
        act_prof_add_member_to_group selector_profile 1 0
        table_indirect_add_with_group selector_table 1 => 0
        table_indirect_add selector_table 2 => 1
        act_prof_remove_member_from_group selector_profile 0 0
        act_prof_modify_member selector_profile drop 1
        """,
    )
    assert [line for line in said if "handle" in line] == [
        "Member has been created with handle 0",
        "Member has been created with handle 1",
        "Group has been created with handle 0",
        "Entry has been added with handle 0",
        "Entry has been added with handle 1",
    ]
    dump = answers(session, "table_dump selector_table")
    assert [line for line in dump if line.startswith("Index")] == [
        "Index: group(0)", "Index: member(1)",
    ]  # fmt: skip
    assert answers(session, "act_prof_dump selector_profile") == [
        "==========", "MEMBERS",
        "**********", "Dumping member 0", "Action entry: TheIngress.send - 03",
        "**********", "Dumping member 1", "Action entry: TheIngress.drop - ",
        "==========", "GROUPS",
        "**********", "Dumping group 0", "Members: [1]",
    ]  # fmt: skip
    words = [
        "act_prof_delete_member selector_profile 1", "act_prof_delete_group selector_profile 0",
        "act_prof_delete_member selector_profile 7", "act_prof_delete_group selector_profile 7",
        "act_prof_add_member_to_group selector_profile 1 0",
        "act_prof_remove_member_from_group selector_profile 0 0",
        "table_add selector_table send 3 => 1",
    ]  # fmt: skip
    codes = [
        "MBR_STILL_USED", "GRP_STILL_USED", "INVALID_MBR_HANDLE", "INVALID_GRP_HANDLE",
        "MBR_ALREADY_IN_GRP", "MBR_NOT_IN_GRP", "WRONG_TABLE_TYPE",
    ]  # fmt: skip
    for one, code in zip(words, codes, strict=True):
        assert f"Invalid table operation ({code})" in refusals(session, one)[0]


def test_groups_of_nodes_and_mirroring_are_kept_over_sessions(session: Session) -> None:
    said = answers(session, "mc_mgrp_create 1113\nmc_node_create 5 0 3\nmc_node_create 10 7")
    assert said == [
        "Creating multicast group 1113",
        "Creating node with rid 5 , port map 1001 and lag map ",
        "node was created with handle 0",
        "Creating node with rid 10 , port map 10000000 and lag map ",
        "node was created with handle 1",
    ]
    assert answers(session, "mc_node_associate 1113 0\nmc_node_associate 1113 1\nmc_dump")[2:] == [
        "==========",
        "MC ENTRIES",
        "**********",
        "mgrp(1113)",
        "  -> (L1h=0, rid=5) -> (ports=[0, 3], lags=[])",
        "  -> (L1h=1, rid=10) -> (ports=[7], lags=[])",
        "==========",
        "LAGS",
        "==========",
    ]
    answers(session, "mirroring_add 5 7\nmirroring_add_mc 6 1113")
    answers(session, "mc_node_dissociate 1113 0\nmc_node_update 1 2")
    assert answers(session, "mirroring_get 5\nmirroring_get 6") == [
        "MirroringSessionConfig(port=7, mgid=None)",
        "MirroringSessionConfig(port=None, mgid=1113)",
    ]
    query = {"clone_session_entry": {"session_id": 6}}
    (found,) = session.read([p4runtime_pb2.Entity(packet_replication_engine_entry=query)])
    copies = found.packet_replication_engine_entry.clone_session_entry.replicas
    assert [(one.egress_port, one.instance) for one in copies] == [(2, 10)]
    answers(session, "mirroring_delete 5\nmc_node_destroy 1\nmc_mgrp_destroy 1113")
    assert (
        "Invalid mirroring operation (SESSION_NOT_FOUND)" in refusals(session, "mirroring_get 5")[0]
    )
    assert (
        "Invalid PRE operation (INVALID_MGRP_HANDLE)"
        in refusals(session, "mc_node_associate 7 0")[0]
    )
    assert answers(session, "mc_node_create 1 2")[-1] == "node was created with handle 1"


def test_a_group_of_another_client_has_nodes(session: Session) -> None:
    entry = {"multicast_group_id": 9, "replicas": [{"egress_port": 2, "instance": 4}]}
    group = {"multicast_group_entry": entry}
    session.send(
        "insert", [p4runtime_pb2.Entity(packet_replication_engine_entry=group)], "make a group"
    )
    assert "  -> (L1h=0, rid=4) -> (ports=[2], lags=[])" in answers(session, "mc_dump")
    answers(session, "mc_node_dissociate 9 0\nmc_node_create 1 3\nmc_node_associate 9 1")
    assert "  -> (L1h=1, rid=1) -> (ports=[3], lags=[])" in answers(session, "mc_dump")


def test_counters_and_registers(session: Session) -> None:
    answers(session, "counter_write seen 3 10 100\ntable_add exact_table send 1 1 => 2")
    assert answers(session, "counter_read TheIngress.seen 3\ncounter_write hits 0 5 6") == [
        "TheIngress.seen[3]= (100 bytes, 10 packets)",
        "writing to direct counter for table TheIngress.exact_table",
        "hits[0] has been updated",
    ]
    assert answers(session, "counter_read hits 0")[-1] == "hits[0]= (6 bytes, 5 packets)"
    answers(session, "counter_reset hits\ncounter_reset seen\nregister_write cells 2 0xff")
    said = answers(session, "counter_read seen 3\nregister_read cells 2\nregister_read cells")
    assert said == ["seen[3]= (0 bytes, 0 packets)", "cells[2]= 255",
                    "cells= 0, 0, 255, 0, 0, 0, 0, 0"]  # fmt: skip
    answers(session, "register_reset cells")
    assert answers(session, "register_read cells 2") == ["cells[2]= 0"]


def test_meters_timeouts_and_value_sets(objects: Session) -> None:
    answers(objects, "table_add forward to 1 => 2\nmeter_set_rates packets_meter 3 0.001:10 0.5:20")
    assert answers(objects, "meter_get_rates packets_meter 3\nmeter_get_rates bytes_meter 0") == [
        "0: info rate = 0.001, burst size = 10",
        "1: info rate = 0.5, burst size = 20",
        "WARNING: expected 2 rates but only received 0",
    ]
    answers(objects, "meter_array_set_rates bytes_meter 1:5 2:6\nmeter_set_rates direct 0 1:5 2:6")
    for meter, index in (("bytes_meter", 7), ("direct", 0)):
        said = answers(objects, f"meter_get_rates {meter} {index}")
        assert said == ["0: info rate = 1.0, burst size = 5", "1: info rate = 2.0, burst size = 6"]
    assert answers(objects, "table_set_timeout forward 0 1500\ntable_dump_entry forward 0")[-1] == (
        "Life: 0ms since hit, timeout is 1500ms"
    )
    assert answers(objects, "pvs_add special 0x88b5\npvs_add special 1\npvs_get special") == [
        "88b5", "0001",
    ]  # fmt: skip
    assert answers(objects, "pvs_remove special 1\npvs_get special\nshow_pvs") == [
        "88b5",
        f"{'P.special':30} [compressed bitwidth:16]",
    ]
    assert answers(objects, "pvs_clear special\npvs_get special") == []


def test_what_the_program_has_is_shown(session: Session) -> None:
    assert answers(session, "table_info selector_table") == [
        f"{'TheIngress.selector_table':30} [implementation=TheIngress.selector_profile, "
        "mk=data.a(exact, 8)]",
        "*" * 80,
        f"{'NoAction':30} []",
        f"{'TheIngress.drop':30} []",
        f"{'TheIngress.send':30} [port(9)]",
    ]
    assert len(answers(session, "show_tables")) == 7
    assert f"{'TheIngress.rewrite':30} [e(48),\tb(12)]" in answers(session, "show_actions")


def test_the_switch_is_reset(session: Session) -> None:
    answers(
        session, "table_add exact_table send 1 1 => 2\nmc_mgrp_create 3\nregister_write cells 1 1"
    )
    answers(session, "reset_state")
    said = answers(session, "table_num_entries exact_table\nregister_read cells 1\nmc_dump")
    assert said[:2] == ["0", "cells[1]= 0"]
    assert "mgrp(3)" not in said


REFUSED = {
    "table_ad exact_table": "*** Unknown syntax: table_ad (did you mean table_add?); see help",
    "table_add exact": "Error: Insufficient number of args: write table_add <table>",
    "table_add exact_tabel send 1 1 => 1": "Error: Invalid table name (exact_tabel) (did you mean "
    "exact_table?): the program has",
    "table_add exact_table mark 1 1 => 1": "Error: Table TheIngress.exact_table "
    "has no action mark: it has NoAction, TheIngress.drop, TheIngress.rewrite, TheIngress.send",
    "table_add exact_table send 1 => 1": "Error: Table TheIngress.exact_table needs 2 key fields, "
    "not 1: data.a (exact), data.b (exact)",
    "table_add exact_table send 1 1 => 1 2": "Error: Action TheIngress.send needs 1 parameters, "
    "not 2: port (9 bits)",
    "table_add exact_table send 256 1 => 1": "Invalid match key: Error while parsing 256 - data.a: "
    "'256' does not fit 8 bits: 0 to 0xff do",
    "table_add exact_table send 1 1 => 512": "Invalid runtime data: Error while parsing port: "
    "'512' does not fit 9 bits",
    "table_add lpm_table send 10.0.0.1 => 1": "Invalid match key: Invalid LPM value 10.0.0.1, use "
    "'/': data.d takes a value and the length of its prefix",
    "table_add lpm_table send 10.0.0.1/33 => 1": "'33' is no length of a prefix of 32 bits",
    "table_add lpm_table send 10.0.0.256/8 => 1": "'10.0.0.256' is no value",
    "table_add priority_table mark 1&&&1 9->1 0&&&0 7 => 9 4": "its ends are the wrong way round",
    "table_add priority_table mark 1&&&1 1->9 1&&&3 7 => 9 4": "data.c is optional: its mask is 0",
    "table_add priority_table mark 1&&&1 1->9 0&&&0 7 => x": "could not extract a valid priority",
    "table_set_default priority_table mark 1": "Invalid table operation (DEFAULT_ENTRY_IS_CONST)",
    "table_set_timeout exact_table 0 5": "does not support entry timeouts",
    "counter_read seen 16": "Invalid counter operation (INVALID_INDEX): TheIngress.seen has the "
    "indices 0 to 15, not 16",
    "counter_read hits x": "Error: Bad format for index, expected integer: 'x'",
    "register_write cells 0 0x100000": "does not fit 20 bits of TheIngress.cells",
    "mc_node_create 1 2 2": "Error: Found duplicate port number '2'",
    "mc_node_create 1 2 | 1 1": "Found duplicate lag number '1'",
    "mc_node_associate 1 0": "Invalid PRE operation (INVALID_L1_HANDLE)",
    "mc_mgrp_create 4294967296": "Bad format for multicast group id",
    "port_add veth0 1": "the ports of a switch are those that it was started with",
}  # fmt: skip


def test_every_refusal_says_what_is_valid(session: Session) -> None:
    for command, why in REFUSED.items():
        (said,) = refusals(session, f"# a comment\n\n{command}")
        assert said.startswith(f"commands.txt:3: {command.split()[0]}: ")
        assert why in said, said


def test_what_follows_a_failure_is_carried_out(session: Session) -> None:
    said, failures = outcome(
        session, "table_add exact_table send 1 1 => 1\ntable_add exact_table drop 1 1 =>\nmc_dump"
    )
    assert said[-1] == "=========="
    assert [(one.line, one.error.exit_status) for one in failures] == [(2, 1)]
    assert "Invalid table operation (DUPLICATE_ENTRY)" in str(failures[0])


def test_comments_and_empty_lines_are_no_commands() -> None:
    assert list(commands_of("# one\n//x\n  mc_dump # two\nmirroring_get  3\n")) == [
        (3, "mc_dump"), (4, "mirroring_get 3"),
    ]  # fmt: skip


_NAMES = st.sampled_from(
    ["exact_table", "priority_table", "selector_table", "plain_profile", "selector_profile",
     "send", "rewrite", "mark", "seen", "hits", "cells", "table"]
)  # fmt: skip
_VALUES = st.sampled_from(
    ["0", "1", "-1", "0x1ff", "1e9", "nan:1", "1:1", "0.5:10", "=>", "|", "1/2", "1&&&3", "1->5",
     "10.0.0.1", "::1", "0" * 5000, "9" * 5000, "99999999999999999999", "²", "\x00", "'"]
)  # fmt: skip
_WORDS = st.one_of(_NAMES, _VALUES, st.text(max_size=6))
_FILES = {"write_config_to_file", "serialize_state"}
_LINES = st.builds(
    lambda command, words: " ".join([command, *words]),
    st.sampled_from(sorted(COMMANDS.keys() - _FILES)),
    st.lists(_WORDS, max_size=6),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(_LINES, st.text(max_size=20)), max_size=8))
def test_no_text_of_commands_ends_in_a_traceback(lines: list[str]) -> None:
    for failure in outcome(_shared(), "\n".join(lines))[1]:
        assert isinstance(failure.error, WeftError)


_SESSIONS: list[Session] = []


def _shared() -> Session:
    if not _SESSIONS:
        _SESSIONS.append(local_session(EVERY_ENTITY))
    return _SESSIONS[0]


def test_a_queue_lets_so_many_packets_a_second_leave_and_so_many_wait() -> None:
    dataplane = make_dataplane()
    session = session_with(dataplane, CHECKOUT / "tests" / "programs" / "crossbar.p4")
    answers(session, "table_add way send 1 => 2\nset_queue_rate 1000 2\nset_queue_depth 3 2")
    dataplane.receive(0, 1, [bytes(60)] * 6, 1_000_000_000)
    left = dataplane.transmit(1_010_000_000)
    assert [one.departure_ns - 1_000_000_000 for one in left] == [
        0,
        1_000_000,
        2_000_000,
        3_000_000,
    ]
    answers(session, "set_queue_rate 0")
    dataplane.receive(0, 1, [bytes(60)] * 2, 2_000_000_000)
    assert {one.departure_ns for one in dataplane.transmit(2_010_000_000)} == {2_000_000_000}
    assert (
        "there is no queue: priority 3: a port has one queue, of priority 0 (--priority-queues 4)"
        in refusals(session, "set_queue_depth 5 2 3")[0]
    )
    assert "there is no port 77; ports are 1, 2" in refusals(session, "set_queue_rate 5 77")[0]


def test_each_queue_of_a_port_has_a_rate_and_a_depth_of_its_own() -> None:
    dataplane = make_dataplane(priority_queues=3)
    session = session_with(dataplane, CHECKOUT / "tests" / "programs" / "crossbar.p4")
    answers(session, "set_queue_rate 500 2 1\nset_queue_depth 7\nset_queue_depth 3 2 1")
    figures = dataplane.queues_of(0, 2)
    assert [int(queue.packet_ns) for queue in figures] == [0, 2_000_000, 0]
    assert [int(queue.limit_packets) for queue in figures] == [7, 3, 7]
    answers(session, "set_queue_rate 1000 2")
    assert {int(queue.packet_ns) for queue in dataplane.queues_of(0, 2)} == {1_000_000}


def test_another_program_is_saved_and_then_runs(session: Session, tmp_path: Path) -> None:
    files = compiled(OBJECTS)
    (tmp_path / "next.json").write_bytes(files.json.read_bytes())
    load = f"load_new_config_file {tmp_path}/next.json"
    assert "next.p4info.txtpb, is not beside it" in refusals(session, load)[0]
    (tmp_path / "next.p4info.txtpb").write_bytes(files.p4info.read_bytes())
    assert "Invalid swap operation (NO_ONGOING_SWAP)" in refusals(session, "swap_configs")[0]
    said = answers(session, f"{load}\ntable_add forward to 1 => 2\nswap_configs\nshow_tables")
    assert said[0] == "Loading new Json config"
    assert said[-1].startswith("I.forward ")
    assert answers(session, "table_num_entries forward") == ["1"]
    assert "the program has none" in refusals(session, "set_crc16_parameters c 1 2 3 true false")[0]


HASHES = """
#include <core.p4>
#include <v1model.p4>
header digits_t { bit<72> digits; bit<32> long; bit<16> short; }
struct headers { digits_t d; }
struct metadata { }
parser P(packet_in p, out headers hdr, inout metadata m, inout standard_metadata_t s) {
    state start { p.extract(hdr.d); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
    apply {
        hash(hdr.d.long, HashAlgorithm.crc32_custom, 32w0, { hdr.d.digits }, 64w0x100000000);
        hash(hdr.d.short, HashAlgorithm.crc16_custom, 16w0, { hdr.d.digits }, 32w0x10000);
        s.egress_spec = 2;
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t s) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.d); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def test_custom_crcs_are_those_of_their_parameters(tmp_path: Path) -> None:
    dataplane = make_dataplane()
    (tmp_path / "hashes.p4").write_text(HASHES)
    session = session_with(dataplane, tmp_path / "hashes.p4")
    view = CommandSwitch(session).program
    (long,), (short,) = view.custom_crcs(32), view.custom_crcs(16)
    frame = b"123456789" + bytes(60)

    def hashed() -> str:
        dataplane.receive(0, 1, [frame], 0)
        (left,) = dataplane.transmit(0)
        return left.frame[9:15].hex()

    assert hashed() == "cbf43926bb3d"  # those of zlib and ARC
    castagnoli = f"set_crc32_parameters {long} 0x1EDC6F41 0xFFFFFFFF 0xFFFFFFFF true 1"
    assert answers(session, f"{castagnoli}\nset_crc16_parameters {short} 0x1021 0 0 false 0") == []
    assert hashed() == "e306928331c3"  # the catalogue's CRC-32/ISCSI and CRC-16/XMODEM
    for wrong, why in (
        (castagnoli.replace("true", "maybe"), "Invalid bool parameter: 'maybe'"),
        (castagnoli.replace("0x1EDC6F41", "0x11EDC6F41"), "Bad format for polynomial"),
        (castagnoli.replace(long, short), f"Invalid crc32_custom name ({short})"),
    ):
        assert why in refusals(session, wrong)[0]
    answers(session, "reset_state")
    assert hashed() == "cbf43926bb3d"


def test_of_a_lag_one_port_gets_a_copy(session: Session) -> None:
    said = answers(
        session,
        "mc_mgrp_create 5\nmc_node_create 1 2 | 3\nmc_node_associate 5 0\n"
        "mc_set_lag_membership 3 4 6 7\nmc_dump",
    )
    assert said[1] == "Creating node with rid 1 , port map 100 and lag map 1000"
    assert said[4] == "Setting lag membership: 3 <- 11010000"
    assert "  -> (L1h=0, rid=1) -> (ports=[2], lags=[3])" in said
    assert said[-2] == "lag(3) -> ports=[4, 6, 7]"
    layout = CommandSwitch(session).replication.layout()
    assert layout.copies(5) == [(2, 1), (4, 1)]  # BMv2 takes the member 255 % 3
