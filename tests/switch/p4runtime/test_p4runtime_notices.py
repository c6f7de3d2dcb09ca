"""What a switch tells its controller, meters, value sets and translated types, through P4Runtime.

In one process, with virtual time: packets, digests and idle entries come when they are asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from google.rpc import code_pb2
from google.rpc.status_pb2 import Status
from hypothesis import given
from hypothesis import strategies as st
from tests.support.p4runtime_support import (
    DELETE,
    EVERY_NOTICE,
    INSERT,
    MODIFY,
    PORTS,
    Files,
    compiled,
    config_request,
    ids_of,
    substituted,
    taken,
)

from weft.switch.engine.switches import Dataplane, Queue
from weft.switch.messages import p4data_pb2, p4info_pb2, p4runtime_pb2, p4types_pb2
from weft.switch.p4runtime import bytestrings
from weft.switch.p4runtime.data_values import decode_data, encode_data, widths, words_of
from weft.switch.p4runtime.digests import Digests, Limits
from weft.switch.p4runtime.local import LocalError, LocalSwitch
from weft.switch.p4runtime.notifications import pack, unpack
from weft.switch.p4runtime.p4info_objects import PacketHeader, Param, StringMap, ValueType
from weft.switch.p4runtime.refusals import Refusal

CPU_PORT = 8
S = 10**9


class Bench:
    """One switch with a CPU port and its controller, without gRPC between them."""

    def __init__(self, files: Files) -> None:
        self.dataplane = Dataplane(1, PORTS.stop, plain=True)
        for port in PORTS:
            self.dataplane.set_port(0, port, Queue())
        self.dataplane.set_cpu_port(0, CPU_PORT)
        self.control = self.dataplane.control(0, "leaf0")
        self.switch = LocalSwitch(self.control, 1)
        self.streams = self.switch.service.streams
        self.client, _ = self.switch.arbitrate((0, 1))
        self.files = files
        self.load("VERIFY_AND_COMMIT")
        self.info = text_format.Parse(files.p4info.read_text(), p4info_pb2.P4Info())
        self.ids = ids_of(self.info)

    def load(self, action: str, device_config: bytes | None = None) -> None:
        request = config_request(self.files, action)
        request.device_id, request.election_id.low = 1, 1
        if device_config is not None:
            request.config.p4_device_config = device_config
        self.switch.stub.SetForwardingPipelineConfig(request)

    def write(self, *updates: tuple[int, str], role: str = "") -> None:
        request = p4runtime_pb2.WriteRequest(device_id=1, role=role)
        request.election_id.low = 1
        for kind, text in updates:
            text_format.Parse(substituted(text, self.ids), request.updates.add(type=kind).entity)
        self.switch.stub.Write(request)

    def refused(self, kind: int, text: str, role: str = "") -> tuple[str, str]:
        """Code and message of an update that is refused."""
        with pytest.raises(LocalError) as caught:
            self.write((kind, text), role=role)
        ((_, packed),) = caught.value.trailing_metadata()
        error = p4runtime_pb2.Error()
        assert Status.FromString(packed).details[0].Unpack(error)
        return code_pb2.Code.Name(error.canonical_code), error.message

    def read(self, text: str, role: str = "") -> list[Any]:
        request = p4runtime_pb2.ReadRequest(device_id=1, role=role)
        text_format.Parse(substituted(text, self.ids), request.entities.add())
        return [entity for part in self.switch.stub.Read(request) for entity in part.entities]

    def entity(self, text: str) -> Any:
        return text_format.Parse(substituted(text, self.ids), p4runtime_pb2.Entity())

    def packet(self, key: int, port: int = 1, kind: int = 0, now_ns: int = S) -> list[Any]:
        """Send a packet in; what left where."""
        frame = bytes([kind]) + key.to_bytes(2, "big") + bytes(57)
        self.dataplane.receive(0, port, [frame], now_ns)
        return self.dataplane.transmit(now_ns + 1)

    def send(self, text: str) -> None:
        request = text_format.Parse(
            substituted(text, self.ids), p4runtime_pb2.StreamMessageRequest()
        )
        self.streams.take_one(self.client, self.streams._outboxes[self.client], request)

    def told(self, now_ns: int = S) -> list[Any]:
        """What the controller has been told since the last call."""
        self.streams.tell_due(now_ns, now_ns)
        return taken(self.streams._outboxes[self.client])


@pytest.fixture(scope="module")
def files() -> Files:
    return compiled(EVERY_NOTICE)


@pytest.fixture
def bench(files: Files) -> Iterator[Bench]:
    yield Bench(files)


AGEING = r"""table_entry {{ table_id: @ageing {more}
    match {{ field_id: 1 exact {{ value: "\x{key:02x}" }} }}
    action {{ action {{ action_id: @{action} }} }} }}"""


# -- packets -------------------------------------------------------------------------------------


def test_packets_to_the_controller_carry_their_header_as_metadata(bench: Bench) -> None:
    bench.packet(key=5, port=3)
    (message,) = bench.told()
    packet = message.packet
    values = [(one.metadata_id, one.value) for one in packet.metadata]
    assert values == [(1, b"\x03"), (2, b"\x01"), (3, b"\x00")]
    assert packet.payload == bytes([0, 0, 5]) + bytes(57)


def test_packets_from_the_controller_enter_at_the_cpu_port(bench: Bench) -> None:
    bench.send(
        r"""packet { payload: "abc" metadata { metadata_id: 3 value: "\x77" }
        metadata { metadata_id: 1 value: "\x00\x00\x06" } }"""
    )
    (departure,) = bench.dataplane.transmit(2 * S)
    assert (departure.port, departure.frame[:3]) == (6, b"abc")
    for wrong in (
        r'metadata { metadata_id: 1 value: "\x06" }',
        r'metadata { metadata_id: 1 value: "\x02\x00" } metadata { metadata_id: 3 value: "\x00" }',
        r'metadata { metadata_id: 9 value: "\x06" }',
        r'metadata { metadata_id: 3 value: "\x06" } metadata { metadata_id: 3 value: "\x06" }',
        r'metadata { metadata_id: 1 value: "" } metadata { metadata_id: 3 value: "\x00" }',
    ):
        bench.send(f"packet {{ payload: 'x' {wrong} }}")
        (told,) = bench.told()
        assert told.error.canonical_code == code_pb2.INVALID_ARGUMENT, told
        assert told.error.packet_out.packet_out.payload == b"x"
    assert bench.dataplane.transmit(3 * S) == []


@given(st.lists(st.integers(1, 70), min_size=1, max_size=6), st.data())
def test_headers_are_packed_bit_by_bit(widths: list[int], data: st.DataObject) -> None:
    fields = tuple(Param(i + 1, f"f{i}", ValueType(width)) for i, width in enumerate(widths))
    header = PacketHeader("packet_out", fields, tuple(widths))
    values = [data.draw(st.integers(0, (1 << width) - 1)) for width in widths]
    message = p4runtime_pb2.PacketOut(payload=b"rest")
    for i, value in enumerate(values):
        message.metadata.add(metadata_id=i + 1, value=bytestrings.encode(value))
    frame = pack(header, message)
    bits = "".join(f"{value:0{width}b}" for value, width in zip(values, widths, strict=True))
    padded = bits + "0" * (-len(bits) % 8)
    assert frame == int(padded, 2).to_bytes(len(padded) // 8, "big") + b"rest"
    back = unpack(header, frame)
    assert back is not None
    assert (back.payload, list(back.metadata)) == (b"rest", list(message.metadata))
    assert unpack(header, frame[: header.size_bytes - 1]) is None


# -- digests -------------------------------------------------------------------------------------

DIGEST = """digest_entry {{ digest_id: @learned_t config {{ max_timeout_ns: {wait}
    max_list_size: {size} ack_timeout_ns: {ack} }} }}"""


def test_digests_come_once_until_they_are_acknowledged(bench: Bench) -> None:
    entries = [(INSERT, AGEING.format(key=key, action="learn", more="")) for key in (1, 2)]
    bench.write(*entries)
    bench.packet(key=1)
    assert bench.told() == []  # not switched on
    config = DIGEST.format(wait=S, size=2, ack=10 * S)
    assert bench.refused(MODIFY, config)[0] == "NOT_FOUND"
    bench.write((INSERT, config))
    assert bench.refused(INSERT, config)[0] == "ALREADY_EXISTS"
    assert bench.read("digest_entry {}") == [bench.entity(config)]
    bench.packet(key=1, port=4)
    bench.packet(key=1, port=4)
    assert bench.told(2 * S) == []
    bench.packet(key=2, port=5)
    (told,) = bench.told(2 * S)
    samples = [[m.bitstring for m in one.struct.members] for one in told.digest.data]
    assert samples == [[b"\x01", b"\x04"], [b"\x02", b"\x05"]]
    bench.packet(key=1, port=4)
    assert bench.told(9 * S) == []
    ack = f"digest_ack {{ digest_id: @learned_t list_id: {told.digest.list_id} }}"
    bench.send(ack)
    bench.packet(key=1, port=4)
    assert bench.told(9 * S) == []
    (again,) = bench.told(10 * S)
    assert len(again.digest.data) == 1 and again.digest.list_id != told.digest.list_id
    bench.packet(key=1, port=4)
    assert bench.told(19 * S) == []
    bench.told(20 * S)  # the list is forgotten
    bench.packet(key=1, port=4)
    bench.told(20 * S)
    assert len(bench.told(21 * S)) == 1
    bench.write((DELETE, config))
    bench.packet(key=2, port=4)
    assert bench.told(99 * S) == [] == bench.read("digest_entry {}")
    bench.send("digest_ack { digest_id: 5 }")
    assert bench.told()[0].error.canonical_code == code_pb2.INVALID_ARGUMENT


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.booleans()), max_size=40),
    st.integers(0, 6), st.integers(0, 4), st.integers(0, 9),
)  # fmt: skip
def test_lists_are_distinct_in_time_and_not_repeated_unacknowledged(
    steps: list[tuple[int, int, bool]], wait: int, size: int, ack: int
) -> None:
    digests = Digests()
    digests.configure("d", Limits(wait, size, ack))
    now = 0
    unacknowledged: dict[int, tuple[int, set[Any]]] = {}
    for value, later, acknowledge in steps:
        now += later
        unacknowledged = {k: v for k, v in unacknowledged.items() if now - v[0] < ack}
        digests.learn("d", (value,), now)
        for _, list_id, messages in digests.lists(now):
            assert 0 < len(messages) <= (size or len(messages))
            assert len(set(messages)) == len(messages)
            assert not any(set(messages) & old for _, old in unacknowledged.values())
            unacknowledged[list_id] = (now, set(messages))
        deadline = digests.deadline()
        assert deadline is None or deadline > now or ack == 0
        if acknowledge and unacknowledged:
            list_id = next(iter(unacknowledged))
            digests.learners["d"].acknowledge(list_id)
            del unacknowledged[list_id]


# -- ageing --------------------------------------------------------------------------------------


def test_idle_entries_are_reported_until_they_are_hit(bench: Bench) -> None:
    more = f"idle_timeout_ns: {3 * S} metadata: 'mine' controller_metadata: 5"
    entry = AGEING.format(key=1, action="NoAction", more=more)
    bench.packet(key=9, now_ns=S)
    bench.write((INSERT, entry), (INSERT, AGEING.format(key=2, action="NoAction", more="")))
    bench.told(S)
    assert bench.read("table_entry { table_id: @ageing }")[0] == bench.entity(entry)
    bench.packet(key=1, now_ns=3 * S)
    assert bench.told(5 * S) == []
    bench.packet(key=9, now_ns=6 * S)
    told = [one for one in bench.told(6 * S) if one.HasField("idle_timeout_notification")]
    (idle,) = told[0].idle_timeout_notification.table_entry
    assert (idle.metadata, idle.controller_metadata) == (b"mine", 5)
    assert idle.idle_timeout_ns == 3 * S and len(idle.match) == 1
    bench.packet(key=9, now_ns=9 * S)
    assert any(one.HasField("idle_timeout_notification") for one in bench.told(9 * S))
    bench.packet(key=1, now_ns=10 * S)
    bench.told(11 * S)
    bench.packet(key=9, now_ns=12 * S)
    assert not any(one.HasField("idle_timeout_notification") for one in bench.told(12 * S))
    bench.packet(key=9, now_ns=13 * S)
    assert len([one for one in bench.told(13 * S) if not one.HasField("packet")]) == 1
    (read,) = bench.read(
        entry.replace("idle_timeout", "time_since_last_hit {} idle_timeout")
        .split("action {")[0]
        .replace(f"idle_timeout_ns: {3 * S}", "")
        + "}"
    )
    assert 3 * S <= read.table_entry.time_since_last_hit.elapsed_ns < 4 * S
    for text in (
        entry.replace(f"{3 * S}", "-1"),
        entry.replace("metadata", "time_since_last_hit {} metadata", 1),
        "table_entry { table_id: @rated idle_timeout_ns: 5 }",
        "table_entry { table_id: @ageing is_default_action: true idle_timeout_ns: 5 }",
    ):
        assert bench.refused(MODIFY, text)[0] == "INVALID_ARGUMENT"


# -- meters --------------------------------------------------------------------------------------

RATED = r"""table_entry {{ table_id: @rated match {{ field_id: 1 exact {{ value: "\x01" }} }}
    action {{ action {{ action_id: @metered params {{ param_id: 1 value: "\x05" }} }} }}
    {more} }}"""


def test_meters_are_set_and_read(bench: Bench) -> None:
    config = "config { cir: 10 cburst: 5 pir: 20 pburst: 10 }"
    written = f"meter_entry {{ meter_id: @rates index {{ index: 2 }} {config} }}"
    bench.write((MODIFY, written))
    cells = bench.read("meter_entry {}")
    assert [cell.meter_entry.index.index for cell in cells] == [0, 1, 2, 3]
    assert [cell.meter_entry.HasField("config") for cell in cells] == [False, False, True, False]
    assert bench.read("meter_entry { meter_id: @rates index { index: 2 } }") == [
        bench.entity(written)
    ]
    bench.write((MODIFY, f"meter_entry {{ meter_id: @rates {config} }}"))
    assert all(cell.meter_entry.HasField("config") for cell in bench.read("meter_entry {}"))
    bench.write((MODIFY, "meter_entry { meter_id: @rates index {} }"))
    assert not bench.read("meter_entry { meter_id: @rates index {} }")[0].meter_entry.HasField(
        "config"
    )
    for text, code in (
        (written.replace("cir: 10", "cir: -1"), "INVALID_ARGUMENT"),
        (written.replace("pir: 20", "pir: 9"), "INVALID_ARGUMENT"),
        (written.replace("cir: 10", "eburst: 1 cir: 10"), "INVALID_ARGUMENT"),
        (written.replace("index: 2", "index: -1"), "INVALID_ARGUMENT"),
        (written.replace("index: 2", "index: 4"), "OUT_OF_RANGE"),
        (written.replace("@rates", "77"), "INVALID_ARGUMENT"),
        (
            written.replace("config", "counter_data { red { byte_count: 1 } } config"),
            "INVALID_ARGUMENT",
        ),
    ):
        assert bench.refused(MODIFY, text)[0] == code, text
    assert bench.refused(INSERT, written)[0] == "INVALID_ARGUMENT"


def colours(data: Any) -> list[tuple[int, int]]:
    """Packets and bytes that were marked green, yellow and red."""
    return [(one.packet_count, one.byte_count) for one in (data.green, data.yellow, data.red)]


def test_packets_are_counted_by_the_colour_that_a_meter_gave_them(bench: Bench) -> None:
    one_cell = "meter_entry { meter_id: @rates index {} %s }"
    key = RATED.format(more="").split("action {")[0] + "}"
    direct = f"direct_meter_entry {{ {key} %s }}"
    entry = RATED.replace("{{", "{").replace("}}", "}").replace("{more}", "%s")

    def read() -> list[list[tuple[int, int]]]:
        (cell,) = bench.read(one_cell % "counter_data {}")
        (alone,) = bench.read(direct % "counter_data {}")
        (with_entry,) = bench.read("table_entry { table_id: @rated meter_counter_data {} }")
        assert colours(alone.direct_meter_entry.counter_data) == colours(
            with_entry.table_entry.meter_counter_data
        )
        return [colours(one) for one in (
            cell.meter_entry.counter_data, alone.direct_meter_entry.counter_data
        )]  # fmt: skip

    slow = "meter_config { cir: 1 cburst: 70 pir: 2 pburst: 130 }"
    forward = (INSERT, AGEING.format(key=1, action="NoAction", more=""))
    bench.write(forward, (INSERT, entry % (slow + "meter_counter_data { green {} }")))
    rates = "config { cir: 0 cburst: 1 pir: 0 pburst: 3 }"
    bench.write((MODIFY, one_cell % rates))
    assert read() == [[(0, 0)] * 3] * 2
    for i in range(4):
        bench.packet(1, kind=9, now_ns=S + i)
    assert read() == [[(1, 60), (2, 120), (1, 60)], [(1, 60), (1, 60), (2, 120)]]
    bench.write((MODIFY, one_cell % ""), (MODIFY, direct % ""))
    bench.packet(1, kind=9)
    seen = read()
    assert seen == [[(2, 120), (2, 120), (1, 60)], [(2, 120), (1, 60), (2, 120)]]
    bench.load("RECONCILE_AND_COMMIT")
    assert read() == seen
    undone = p4runtime_pb2.WriteRequest(device_id=1, atomicity=1)
    undone.election_id.low = 1
    for kind, text in ((DELETE, entry), (INSERT, entry), (INSERT, entry)):
        filled = substituted(text % "", bench.ids)
        text_format.Parse(filled, undone.updates.add(type=kind).entity)
    with pytest.raises(LocalError):
        bench.switch.stub.Write(undone)
    assert read() == seen
    for text in (one_cell % "counter_data { green { packet_count: 1 } }",
                 direct % "counter_data { yellow { byte_count: 1 } }",
                 entry % "meter_counter_data { red { packet_count: -1 } }"):  # fmt: skip
        assert bench.refused(MODIFY, text)[0] == "INVALID_ARGUMENT"
    bench.write((MODIFY, one_cell % "counter_data {}"))
    bench.write((MODIFY, direct % "counter_data { red {} }"))
    assert read() == [[(0, 0)] * 3] * 2
    bench.packet(1, kind=9)
    bench.write((MODIFY, entry % "meter_counter_data {}"))
    assert read() == [[(1, 60), (0, 0), (0, 0)], [(0, 0)] * 3]


def test_direct_meters_come_and_go_with_their_entry(bench: Bench) -> None:
    forward = (INSERT, AGEING.format(key=1, action="NoAction", more=""))
    slow = "meter_config { cir: 1 cburst: 70 pir: 1 pburst: 70 }"
    bench.write(forward, (INSERT, RATED.format(more=slow)))
    query = r"""table_entry { table_id: @rated meter_config {} }"""
    assert bench.read(query)[0].table_entry.meter_config.cburst == 70
    assert [len(bench.packet(1, kind=9, now_ns=S + i)) for i in range(3)] == [1, 0, 0]
    key = RATED.format(more="").split("action {")[0] + "}"
    direct = f"direct_meter_entry {{ {key} config {{ cir: 9 cburst: 900 pir: 9 pburst: 900 }} }}"
    bench.write((MODIFY, direct))
    assert bench.read("direct_meter_entry {}") == [bench.entity(direct)]
    assert len(bench.packet(1, kind=9, now_ns=2 * S)) == 1
    bench.write((MODIFY, RATED.format(more="")))
    assert not bench.read(query)[0].table_entry.HasField("meter_config")
    assert not bench.read("direct_meter_entry {}")[0].direct_meter_entry.HasField("config")
    assert bench.refused(INSERT, direct)[0] == "INVALID_ARGUMENT"
    missing = direct.replace(r"\x01", r"\x02")
    assert bench.refused(MODIFY, missing)[0] == "NOT_FOUND"


# -- value sets, registers -----------------------------------------------------------------------

MEMBER = r'members {{ match {{ field_id: 1 exact {{ value: "\x{0:02x}" }} }} }} '


def test_value_sets(bench: Bench) -> None:
    def of(*values: int) -> str:
        members = "".join(MEMBER.format(value) for value in values)
        return f"value_set_entry {{ value_set_id: @kinds {members} }}"

    assert bench.read("value_set_entry {}") == [bench.entity(of())]
    bench.write((MODIFY, of(7, 3)))
    assert bench.read("value_set_entry { value_set_id: @kinds }") == [bench.entity(of(7, 3))]
    special = AGEING.format(key=1, action="learn", more="").replace(r"\x01", r"\xff\xff")
    bench.write((INSERT, special))
    bench.packet(key=1, kind=7)
    assert bench.told() == []  # learned: not punted
    bench.write((MODIFY, of()))
    bench.packet(key=1, kind=7)
    assert len(bench.told()) == 1
    for kind, text, code in (
        (INSERT, of(1), "INVALID_ARGUMENT"),
        (DELETE, of(1), "INVALID_ARGUMENT"),
        (MODIFY, of(1, 1), "ALREADY_EXISTS"),
        (MODIFY, of(1, 2, 3, 4, 5), "RESOURCE_EXHAUSTED"),
        (MODIFY, of(1).replace("@kinds", "5"), "INVALID_ARGUMENT"),
        (MODIFY, of(1).replace("exact", "ternary"), "INVALID_ARGUMENT"),
        (MODIFY, "value_set_entry { value_set_id: @kinds members {} }", "INVALID_ARGUMENT"),
    ):
        assert bench.refused(kind, text)[0] == code, text
    empty = bench.refused(MODIFY, "value_set_entry { value_set_id: @kinds members {} }")[1]
    assert "key field 1: missing" in empty


def test_registers_of_signed_and_wide_numbers(bench: Bench) -> None:
    signed = (
        r'register_entry {{ register_id: @signed_cells index {{}} data {{ bitstring: "{}" }} }}'
    )
    for text, back in (
        (r"\xfd\x1d", r"\xfd\x1d"), (r"\xff\xff\x9d", r"\x9d"), (r"\x00", r"\x00"),
        (r"\x07\xff", r"\x07\xff"), (r"\xf8\x00", r"\xf8\x00"),
    ):  # fmt: skip
        bench.write((MODIFY, signed.format(text)))
        query = "register_entry { register_id: @signed_cells index {} }"
        assert bench.read(query) == [bench.entity(signed.format(back))]
    for text in (r"\x8d\x1d", r"\x08\x00", r"\xf7\xff", ""):
        assert bench.refused(MODIFY, signed.format(text))[0] == "OUT_OF_RANGE", text
    wide = signed.replace("signed_cells", "wide_cells").format(r"\x81" + r"\x00" * 7)
    bench.write((MODIFY, wide))
    assert bench.read("register_entry { register_id: @wide_cells index {} }") == [
        bench.entity(wide)
    ]
    other = wide.split("data {")[0] + "data { bool: true } }"
    assert bench.refused(MODIFY, other)[0] == "INVALID_ARGUMENT"


# -- programs ------------------------------------------------------------------------------------

EVERYTHING = (
    "table_entry {}", "counter_entry {}", "register_entry {}", "meter_entry {}",
    "value_set_entry {}", "digest_entry {}", "direct_counter_entry {}", "direct_meter_entry {}",
)  # fmt: skip


def test_a_program_is_reconciled_with_all_that_was_written(bench: Bench) -> None:
    given = r"""table_entry { table_id: @given match { field_id: 1 exact { value: "\x12\x34" } }
        action { action { action_id: @send params { param_id: 1 value: "\x07" } } } }"""
    bench.write(
        (INSERT, AGEING.format(key=1, action="NoAction", more="counter_data { packet_count: 7 }")),
        (INSERT, RATED.format(more="meter_config { cir: 1 cburst: 2 pir: 3 pburst: 4 }")),
        (INSERT, DIGEST.format(wait=1, size=2, ack=3)),
        (MODIFY, f"value_set_entry {{ value_set_id: @kinds {MEMBER.format(7)} }}"),
        (MODIFY, "meter_entry { meter_id: @rates index {} config { cir: 1 pir: 2 } }"),
        (MODIFY, r'register_entry { register_id: @wide_cells data { bitstring: "\x07" } }'),
        (MODIFY, given),
        (DELETE, given.replace(r"\x34", r"\x35")),
    )
    before = [bench.read(query) for query in EVERYTHING]
    assert before[0][-1] == bench.entity(given) and not before[0][-1].table_entry.is_const
    bench.load("RECONCILE_AND_COMMIT")
    assert [bench.read(query) for query in EVERYTHING] == before
    assert [one.port for one in bench.packet(0x1234, kind=6)] == [7]
    smaller = bench.files.json.read_text().replace('"max_size" : 16', '"max_size" : 0')
    smaller = smaller.replace('"max_size": 16', '"max_size": 0')
    assert smaller != bench.files.json.read_text()
    with pytest.raises(LocalError, match="INVALID_ARGUMENT: RECONCILE_AND_COMMIT: what is in"):
        bench.load("RECONCILE_AND_COMMIT", smaller.encode())
    assert [bench.read(query) for query in EVERYTHING] == before
    bench.load("VERIFY_AND_COMMIT")
    assert len(bench.read("table_entry {}")) == 3
    bench.load("VERIFY_AND_SAVE")
    bench.write((DELETE, given), (INSERT, RATED.format(more="")))
    staged = bench.read("table_entry {}")
    bench.load("COMMIT")
    assert bench.read("table_entry {}") == staged and len(staged) == 3


def test_a_const_entry_among_others_stays_as_it_is(bench: Bench) -> None:
    entry = r"""table_entry { table_id: @given match { field_id: 1 exact { value: "\x12\x33" } }
        action { action { action_id: @send params { param_id: 1 value: "\x07" } } } }"""
    key = entry.split("action {")[0]
    for kind, text, code in (
        (INSERT, entry, "ALREADY_EXISTS"),
        (MODIFY, entry, "PERMISSION_DENIED"),
        (DELETE, key + "}", "PERMISSION_DENIED"),
        (DELETE, key + "is_const: true }", "INVALID_ARGUMENT"),
    ):
        assert bench.refused(kind, text)[0] == code, text
    bench.write((MODIFY, key + "}"))
    other = entry.replace(r"\x33", r"\x36")
    bench.write((INSERT, other))
    for _ in range(2):
        read = [one.table_entry for one in bench.read("table_entry { table_id: @given }")]
        assert [one.is_const for one in read] == [True, False, False, False]
        assert [one.port for one in bench.packet(0x1233, kind=6)] == [4]
        bench.load("RECONCILE_AND_COMMIT")
    assert bench.refused(MODIFY, entry)[0] == "PERMISSION_DENIED"


def test_a_default_action_that_was_set_is_reconciled_or_does_not_fit(bench: Bench) -> None:
    query = "table_entry { table_id: @ageing is_default_action: true }"
    bench.write((MODIFY, query.replace("true", "true action { action { action_id: @NoAction } }")))
    before = bench.read(query)
    bench.load("RECONCILE_AND_COMMIT")
    assert bench.read(query) == before
    program = json.loads(bench.files.json.read_text())
    (table,) = (
        table
        for pipeline in program["pipelines"] for table in pipeline["tables"]
        if table["name"].endswith("ageing")
    )  # fmt: skip
    table["default_entry"] |= {"action_const": True, "action_entry_const": True}
    with pytest.raises(LocalError, match=r"what is in the switch does not fit: .*ageing"):
        bench.load("RECONCILE_AND_COMMIT", json.dumps(program).encode())
    assert bench.read(query) == before


def test_initial_entries_have_the_priorities_of_their_source(tmp_path: Path) -> None:
    source = EVERY_NOTICE.read_text()
    for old, new in (
        ("table given {", "table fixed { key = { hdr.data.key: exact; } actions = { NoAction; } "
         "const entries = { } }\n table given {"),
        ("given.apply();", "fixed.apply(); given.apply();"),
        ("key = { hdr.data.key: exact; }\n        actions = { send; NoAction; }\n        size = 4",
         "key = { hdr.data.key: ternary; } actions = { send; NoAction; } size = 4"),
        ("{ const 0x1233: send(4); 0x1234: send(2); 0x1235: send(3); }",
         "{ const priority = 70: 0x1233: send(4); priority = 50: 0x1230 &&& 0xfff0: send(2); "
         "priority = 50: 0x1235: send(3); }"),
    ):  # fmt: skip
        assert old in source
        source = source.replace(old, new)
    path = tmp_path / "priorities.p4"
    path.write_text(source)
    bench = Bench(compiled(path))
    entry = r"""table_entry { table_id: @given priority: %d
        match { field_id: 1 ternary { value: "\x12\x36" mask: "\xff\xff" } }
        action { action { action_id: @send params { param_id: 1 value: "\x07" } } } }"""
    given = [one.table_entry for one in bench.read("table_entry { table_id: @given }")]
    assert [(one.priority, one.is_const) for one in given] == [
        (70, True), (50, False), (50, False)
    ]  # fmt: skip
    assert [one.port for one in bench.packet(0x1236, kind=6)] == [2]
    bench.write((INSERT, entry % 51))
    assert [one.port for one in bench.packet(0x1236, kind=6)] == [7]
    wide = r"""table_entry { table_id: @given priority: %d
        match { field_id: 1 ternary { value: "\x12\x30" mask: "\xff\xf0" } } }"""
    assert bench.refused(DELETE, wide % 51)[0] == "NOT_FOUND"
    bench.write((DELETE, wide % 50))
    fixed = r"""table_entry { table_id: @fixed match { field_id: 1 exact { value: "\x01" } }
        action { action { action_id: @NoAction } } }"""
    assert bench.refused(INSERT, fixed)[0] == "PERMISSION_DENIED"


# -- translated types and roles ------------------------------------------------------------------

NAMED = r"""table_entry {{ table_id: @names priority: 1
    match {{ field_id: 1 exact {{ value: "{port}" }} }}
    match {{ field_id: 2 optional {{ value: "{vrf}" }} }}
    action {{ action {{ action_id: @named params {{ param_id: 1 value: "{out}" }}
        params {{ param_id: 2 value: "blue" }}
        params {{ param_id: 3 value: "\x01\x02" }} }} }} }}"""


def test_strings_stand_for_numbers_and_read_back(bench: Bench) -> None:
    entry = NAMED.format(port="1", vrf="", out="6")
    bench.write((INSERT, entry), (INSERT, NAMED.format(port="eth9", vrf="red", out="x")))
    assert bench.read("table_entry { table_id: @names }")[0] == bench.entity(entry)
    assert len(bench.read("table_entry { table_id: @names }")) == 2
    bench.write((INSERT, AGEING.format(key=1, action="NoAction", more="")))
    assert [one.port for one in bench.packet(key=1, port=1, kind=8)] == [6]
    assert bench.refused(INSERT, entry)[0] == "ALREADY_EXISTS"
    empty = NAMED.format(port="", vrf="red", out="x")
    assert bench.refused(INSERT, empty)[0] == "OUT_OF_RANGE"
    assert bench.refused(INSERT, entry.replace('"1"', r'"\xff"'))[0] == "INVALID_ARGUMENT"


def test_data_of_any_type_is_encoded_by_its_type() -> None:
    types = text_format.Parse(
        """new_types { key: "port" value { translated_type { sdn_string {} } } }
        enums { key: "e" value { members { name: "A" } members { name: "B" } } }
        headers { key: "h" value { members { type_spec { bit { bitwidth: 9 } } } } }""",
        p4types_pb2.P4TypeInfo(),
    )
    spec = text_format.Parse(
        """tuple { members { new_type { name: "port" } } members { bool {} }
        members { enum { name: "e" } } members { header { name: "h" } }
        members { bitstring { int { bitwidth: 8 } } } }""",
        p4types_pb2.P4DataTypeSpec(),
    )
    data = p4data_pb2.P4Data()
    encode_data(spec, types, iter([5, 1, 1, 3, 0xFE]), data)
    expected = text_format.Parse(
        r"""tuple { members { bitstring: "\x05" } members { bool: true } members { enum: "B" }
        members { header { is_valid: true bitstrings: "\x03" } } members { bitstring: "\xfe" } }""",
        p4data_pb2.P4Data(),
    )
    assert data == expected


PAIR = "members { bitstring { int { bitwidth: 4 } } } members { bool {} }"


def test_numbers_of_any_type_are_decoded_by_their_type() -> None:
    types = p4info_pb2.P4Info().type_info
    types.new_types["port_t"].translated_type.sdn_bitwidth = 12
    types.new_types["name_t"].translated_type.sdn_string.SetInParent()
    types.new_types["plain_t"].original_type.bitstring.bit.bitwidth = 4
    types.new_types["none_t"].original_type.bitstring.bit.bitwidth = -4
    types.serializable_enums["kind_t"].underlying_type.bitwidth = 3
    for spec, data, wanted in (
        ("new_type { name: 'port_t' }", r"bitstring: '\x0f\xff'", 0xFFF),
        ("new_type { name: 'port_t' }", r"bitstring: '\x10\x00'", "OUT_OF_RANGE"),
        ("new_type { name: 'port_t' }", "bool: true", "INVALID_ARGUMENT"),
        ("new_type { name: 'name_t' }", "bitstring: 'eth0'", "UNIMPLEMENTED"),
        ("new_type { name: 'plain_t' }", r"bitstring: '\x0f'", 15),
        ("new_type { name: 'none_t' }", r"bitstring: '\x0f'", "INVALID_ARGUMENT"),
        ("new_type { name: 'other_t' }", r"bitstring: '\x0f'", "INVALID_ARGUMENT"),
        ("serializable_enum { name: 'kind_t' }", r"enum_value: '\x07'", 7),
        ("serializable_enum { name: 'kind_t' }", r"enum_value: '\x08'", "OUT_OF_RANGE"),
        ("bitstring { int { bitwidth: 4 } }", r"bitstring: '\xf8'", 8),
        ("bitstring { int { bitwidth: 4 } }", r"bitstring: '\xf7'", "OUT_OF_RANGE"),
        ("bitstring { int {} }", r"bitstring: '\x00'", "INVALID_ARGUMENT"),
        ("bool {}", "bool: true", 1),
        ("bool {}", "", "INVALID_ARGUMENT"),
        ("enum { name: 'kind_t' }", "enum: 'A'", "UNIMPLEMENTED"),
        (
            f"tuple {{ {PAIR} }}",
            r"tuple { members { bitstring: '\xff' } members { bool: true } }",
            0x1F,
        ),
        (f"tuple {{ {PAIR} }}", r"tuple { members { bitstring: '\x05' } }", "INVALID_ARGUMENT"),
        (f"tuple {{ {PAIR} }}", "tuple { members {} members {} }", "INVALID_ARGUMENT"),
    ):
        typed = text_format.Parse(spec, p4types_pb2.P4DataTypeSpec())
        message = text_format.Parse(data, p4data_pb2.P4Data())
        try:
            found: int | str = decode_data(typed, types, message, "it")
        except Refusal as refusal:
            found = code_pb2.Code.Name(refusal.code)
        assert found == wanted, (spec, data)
        if isinstance(found, int) and "new_type" not in spec:
            again = p4data_pb2.P4Data()
            encode_data(typed, types, words_of(found, typed, types), again)
            assert again == message


def test_types_of_a_hostile_p4info_have_no_widths() -> None:
    types = p4info_pb2.P4Info().type_info
    for depth in range(15):
        for name in ("a", "b", "c", "d"):
            member = types.structs[f"s{depth}"].members.add(name=name)
            member.type_spec.struct.name = f"s{depth + 1}"
    types.structs["s15"].SetInParent()
    spec = p4types_pb2.P4DataTypeSpec()
    spec.struct.name = "s0"
    with pytest.raises(Refusal, match="too wide"):
        widths(spec, types)


@given(st.lists(st.text(min_size=1, max_size=4) | st.integers(0, 9).map(str), max_size=20))
def test_different_strings_have_different_numbers(texts: list[str]) -> None:
    strings = StringMap("t", 4, {"zero": 0})
    numbers: dict[str, int] = {"zero": 0}
    for text in texts:
        try:
            number = strings.number(text.encode(), "field")
        except Refusal as refusal:
            assert refusal.code == code_pb2.RESOURCE_EXHAUSTED and len(numbers) >= 14
            continue
        assert numbers.setdefault(text, number) == number
        assert strings.string(number) == text.encode()
    assert len(set(numbers.values())) == len(numbers)


def test_an_object_of_a_role_is_written_by_no_other(bench: Bench) -> None:
    for role in ("names", "other"):
        request = p4runtime_pb2.StreamMessageRequest()
        request.arbitration.device_id = 1
        request.arbitration.role.name = role
        request.arbitration.election_id.low = 1
        client, outbox = bench.streams.open()
        bench.streams.take_one(client, outbox, request)
    entry = NAMED.format(port="1", vrf="blue", out="6")
    code, message = bench.refused(INSERT, entry, role="other")
    assert code == "PERMISSION_DENIED" and "belongs to role 'names'" in message
    bench.write((INSERT, entry), role="names")
    assert len(bench.read("table_entry {}")) == len(bench.read("table_entry {}", role="names")) == 4
    assert len(bench.read("table_entry {}", role="other")) == 3
    bench.write((INSERT, AGEING.format(key=1, action="NoAction", more="")), role="other")
    bench.packet(key=9)
    assert len(bench.told()) == 1
