"""Programs of the Portable Switch Architecture: compiled, over P4Runtime, and on BMv2's psa_switch.

What packets go through is in tests/stf/psa; those tests run here, compiled, and beside the
interpreter in test_interpreter_oracle.py.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from google.protobuf import text_format
from tests.support.bmv2_support import require_bmv2, run_bmv2

from weft.switch.compiler import CompileError, compile_cached, compile_program
from weft.switch.engine.architectures.psa.document import prepare
from weft.switch.engine.program.errors import ProgramError
from weft.switch.engine.program.reader import read_program
from weft.switch.engine.switches import Dataplane, Queue
from weft.switch.messages import INSERT, p4info_pb2, p4runtime_pb2
from weft.switch.p4runtime.local import LocalSwitch
from weft.switch.stf import read_test, run_test

FOLDER = Path(__file__).resolve().parents[2] / "stf" / "psa"
TESTS = sorted(FOLDER.glob("*.stf"))
CPU_PORT = 7


def document(name: str) -> str:
    return compile_cached(FOLDER / f"{name}.p4").json.read_text("utf-8")


@pytest.mark.parametrize("test", TESTS, ids=lambda path: path.stem)
@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
def test_packets_go_where_they_should(test: Path, compiled: bool) -> None:
    report = run_test(read_test(test), document(test.stem), compiled=compiled, strict=True)
    assert [failure.lines() for failure in report.failures] == []


def test_p4info_names_the_architecture_and_its_objects() -> None:
    info = text_format.Parse(
        compile_cached(FOLDER / "externs.p4").p4info.read_text("utf-8"), p4info_pb2.P4Info()
    )
    assert info.pkg_info.arch == "psa"
    assert [one.preamble.name for one in info.counters] == ["In.arrivals"]
    assert [one.preamble.name for one in info.direct_counters] == ["In.hits", "In.seen"]
    assert [one.preamble.name for one in info.meters] == ["In.pace"]
    assert [one.preamble.name for one in info.direct_meters] == ["In.rate"]
    assert [one.preamble.name for one in info.registers] == ["In.last"]
    assert [one.preamble.name for one in info.digests] == ["InDeparse.learned"]
    profiles = {one.preamble.name: one.with_selector for one in info.action_profiles}
    assert profiles == {"In.ways": False, "In.spread": True}
    port = info.type_info.new_types["PortId_t"].translated_type
    assert (port.uri, port.sdn_bitwidth) == ("p4.org/psa/v1/PortId_t", 32)


@pytest.fixture
def switch() -> tuple[Dataplane, LocalSwitch, p4info_pb2.P4Info]:
    """A switch that runs a program which a client has loaded."""
    dataplane = Dataplane(1, 8, plain=True)
    for port in range(1, 8):
        dataplane.set_port(0, port, Queue())
    dataplane.set_cpu_port(0, CPU_PORT)
    local = LocalSwitch(dataplane.control(0, "s1"), 1)
    local.arbitrate((0, 1))
    return dataplane, local, p4info_pb2.P4Info()


def load(local: LocalSwitch, info: p4info_pb2.P4Info, name: str) -> None:
    files = compile_cached(FOLDER / f"{name}.p4")
    text_format.Parse(files.p4info.read_text("utf-8"), info)
    request = p4runtime_pb2.SetForwardingPipelineConfigRequest(device_id=1)
    request.action, request.election_id.low = request.VERIFY_AND_COMMIT, 1
    request.config.p4info.CopyFrom(info)
    request.config.p4_device_config = files.json.read_bytes()
    local.stub.SetForwardingPipelineConfig(request)


def write(local: LocalSwitch, *entities: str) -> None:
    request = p4runtime_pb2.WriteRequest(device_id=1)
    request.election_id.low = 1
    for text in entities:
        text_format.Parse(text, request.updates.add(type=INSERT).entity)
    local.stub.Write(request)


def entry(info: p4info_pb2.P4Info, what: int, path: int, action: str, value: bytes) -> str:
    (table,) = (one.preamble.id for one in info.tables if one.preamble.name == "In.ways")
    (number,) = (one.preamble.id for one in info.actions if one.preamble.name == action)
    escaped = "".join(f"\\x{byte:02x}" for byte in value)
    return f"""table_entry {{ table_id: {table}
        match {{ field_id: 1 exact {{ value: "\\x{what:02x}" }} }}
        match {{ field_id: 2 exact {{ value: "\\x{path:02x}" }} }}
        action {{ action {{ action_id: {number}
            params {{ param_id: 1 value: "{escaped}" }} }} }} }}"""


def frame(what: int) -> bytes:
    return bytes.fromhex(f"aaaaaaaaaaaabbbbbbbbbbbb0800{what:02x}00000000000000") + b"w"


Loaded = tuple[Dataplane, LocalSwitch, p4info_pb2.P4Info]


def test_ports_of_the_controller_and_for_recirculation_have_their_numbers(switch: Loaded) -> None:
    dataplane, local, info = switch
    load(local, info, "paths")
    recirculate, cpu = bytes.fromhex("fffffffa"), bytes.fromhex("fffffffd")
    write(
        local,
        "packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 4 "
        "replicas { egress_port: 4294967290 instance: 1 } replicas { egress_port: 2 } } }",
        entry(info, 1, 0, "In.forward", cpu),
        entry(info, 2, 0, "In.copy", bytes([4])),
        entry(info, 2, 6, "In.forward", bytes([3])),
        entry(info, 3, 0, "In.forward", recirculate),
        entry(info, 3, 6, "In.forward", cpu),
    )
    dataplane.receive(0, 1, [frame(2)], 0)
    left = {one.port: one.frame for one in dataplane.transmit(0)}
    assert sorted(left) == [2, 3]
    assert left[3][-5:-1] == recirculate, "its ingress_port is the port that recirculates"
    dataplane.receive(0, CPU_PORT, [frame(3), frame(1)], 0)
    dataplane.transmit(0)
    switched = dataplane.statistics(0, CPU_PORT)
    assert switched.tx_packets == 2


def test_timestamps_differ_from_microsecond_to_microsecond(switch: Loaded) -> None:
    dataplane, local, info = switch
    load(local, info, "externs")
    told = []
    for now_us in (1, 2, 3, 1000):
        dataplane.receive(0, 2, [frame(12)], now_us * 1000)
        ((data,),) = ([one.frame for one in dataplane.transmit(now_us * 1000)],)
        told.append(int.from_bytes(data[18:22], "big"))
    assert [later - told[0] for later in told] == [0, 1, 2, 999]


def test_packets_from_one_port_to_one_port_keep_their_order(switch: Loaded) -> None:
    dataplane, local, info = switch
    load(local, info, "externs")
    frames = [frame(0)[:-1] + bytes([number]) for number in range(20)]
    dataplane.receive(0, 2, frames, 1000)
    left = [one for one in dataplane.transmit(10**9) if one.port == 1]
    assert [one.frame[-1] for one in left] == list(range(20))


def test_a_digest_reaches_the_controller(switch: Loaded) -> None:
    dataplane, local, info = switch
    load(local, info, "externs")
    (digest,) = (one.preamble.id for one in info.digests)
    write(
        local,
        f"digest_entry {{ digest_id: {digest} config {{ max_list_size: 1 }} }}",
    )
    dataplane.receive(0, 1, [frame(11)], 0)
    dataplane.transmit(0)
    streams = local.service.streams
    streams.tell_due(10**9, 10**9)
    ((_, outbox),) = streams._outboxes.items()
    lists = [one.digest for one in iter_messages(outbox) if one.HasField("digest")]
    ((sample,),) = ([list(one.data) for one in lists],)
    values = [member.bitstring for member in sample[0].struct.members]
    assert values == [bytes.fromhex("bbbbbbbbbbbb"), b"\x05"]


def iter_messages(outbox: object) -> list[p4runtime_pb2.StreamMessageResponse]:
    from tests.support.p4runtime_support import taken

    found: list[p4runtime_pb2.StreamMessageResponse] = taken(outbox)  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("bit<32> before = last.read", "verify(true, error.NoError); bit<32> before = last.read"),
         "'verify' can only be called in a parser"),
        (("PSA_MeterColor_t colour = pace.execute(hdr.asked.rounds)",
          "PSA_MeterColor_t colour = pace.execute(hdr.asked.rounds, PSA_MeterColor_t.RED)"),
         "execute\\(\\) of a packet that has a colour already"),
        (("(8) last", "(8, 5) last"), "a register's initial value other than 0"),
        (("b.emit(hdr);", "if (m.learned == 0) { b.emit(hdr); }"),
         "emit\\(\\) where not all packets come"),
        (("b.emit(hdr);", "b.emit(hdr); hdr.asked.told = 1;"),
         "a change of a header that has been emitted before"),
        (("sum.add({ hdr.ipv4.start,", "sum.add({ hdr.ethernet.kind[7:0], hdr.ipv4.start,"),
         "takes whole words of 16 bits, not 88 bits"),
        (("Random<bit<8>>(7, 7)", "Random<bit<8>>(7, 6)"), "the least random number, 7, is"),
        (("together.clear();", "if (hdr.asked.rounds == 1) { together.update(hdr.asked.told); }"),
         "stand in different blocks"),
        (("psa_implementation = ways", "psa_implementation = hits"), "must be a ActionProfile or"),
        (("IngressPipeline(IngressParse(), In(), InDeparse()) ip;", ""), "ip"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told(change: tuple[str, str], message: str, tmp_path: Path) -> None:
    text = (FOLDER / "externs.p4").read_text()
    assert change[0] in text
    (source := tmp_path / "wrong.p4").write_text(text.replace(*change))
    with pytest.raises(CompileError, match=message):
        compile_program(source, include_dirs=[FOLDER])


def test_a_package_of_ones_own_that_has_psas_name_is_refused(tmp_path: Path) -> None:
    (source := tmp_path / "own.p4").write_text(
        "control c(); control d() { apply { } } package PSA_Switch(c one); PSA_Switch(d()) main;"
    )
    with pytest.raises(CompileError, match="this PSA_Switch is not psa's: it takes"):
        compile_program(source)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('"type": "Counter"', '"type": "Tally"'), "no extern 'Tally'"),
        (("_Counter_count", "_Counter_add"), "no primitive '_Counter_add'"),
        (("_Counter_count", "_Meter_execute"), "is of no extern"),
        (('"egress_parser"', '"other"'), ""),
    ],
)
def test_json_that_psa_switch_would_not_take_is_refused(
    change: tuple[str, str], message: str
) -> None:
    text = json.dumps(json.loads(document("externs"))).replace(*change)
    if message:
        with pytest.raises(ProgramError, match=message):
            read_program(text)
    else:
        read_program(text)


def test_jumps_lead_to_where_their_targets_have_come() -> None:
    extern = {"type": "extern", "value": "sum"}
    fields = {"type": "field_list", "value": [{"type": "field", "value": ["h", "a"]}]}
    content = {
        "header_types": [{"name": "h", "id": 0, "fields": [["a", 16, False]]}],
        "headers": [{"name": "h", "id": 0, "header_type": "h", "metadata": True}],
        "extern_instances": [{"name": "sum", "type": "InternetChecksum", "attribute_values": []}],
        "parsers": [],
        "deparsers": [],
        "actions": [
            {
                "primitives": [
                    {"op": "_jump", "parameters": [{"type": "hexstr", "value": "0x2"}]},
                    {"op": "_InternetChecksum_add", "parameters": [extern, fields]},
                    {"op": "exit", "parameters": []},
                ]
            }
        ],
    }  # fmt: skip
    prepare(content)
    primitives = content["actions"][0]["primitives"]  # type: ignore[index]
    place = int(primitives[0]["parameters"][0]["value"], 16)
    assert primitives[place]["op"] == "exit" and place == 3


# -- psa_switch ------------------------------------------------------------------------------------

TAKEN_ALONG = {"3333": "0000", "6666": "0000", "2222": "0000", "5555": "0000"}
"""What the metadata of PSA's paths holds here, and there, where packets take none along."""


def commands_of(
    test: Path, text: str
) -> tuple[str, list[tuple[int, bytes]], list[tuple[int, str]]]:
    """A packet test's commands for psa_switch_CLI, its packets, and what is to leave."""
    program = json.loads(text)
    tables = {one["name"]: one for each in program["pipelines"] for one in each["tables"]}
    names = {
        one["name"]: [item["name"] for item in one["runtime_data"]] for one in program["actions"]
    }
    commands, packets, expected = [], [], []
    for line in test.read_text().splitlines():
        words = line.split("#")[0].split(" = ")[0].split()
        match words:
            case ["add", table, *keys, action] if not action.startswith(("member", "group")):
                given = dict(key.split(":") for key in keys)
                name, values = re.fullmatch(r"([\w.]+)\((.*)\)", action).groups()  # type: ignore[union-attr]
                data = dict(item.split(":") for item in values.split(",") if item)
                matched = [
                    given[key["name"]] for key in tables[table]["key"] if key["name"] in given
                ]
                rest = [data[one] for one in names[name]]
                commands.append(f"table_add {table} {name} {' '.join(matched)} => {' '.join(rest)}")
            case ["packet", port, *parts]:
                packets.append((int(port), bytes.fromhex("".join(parts))))
            case ["expect", port, *parts]:
                expected.append((int(port), "".join(parts).rstrip("$")))
            case [first, *_] if first.startswith(("mc_", "mirroring")):
                commands.append(" ".join(words))
    return "\n".join(commands), packets, expected


@pytest.mark.parametrize("name", ["l2", "paths"])
def test_psa_switch_does_the_same(name: str, tmp_path: Path) -> None:
    require_bmv2("psa_switch")
    text = document(name)
    commands, packets, expected = commands_of(FOLDER / f"{name}.stf", text)
    arrivals: dict[int, list[tuple[int, bytes]]] = {}
    for number, (port, data) in enumerate(packets):
        arrivals.setdefault(port, []).append((number, data))
    sent = run_bmv2(
        tmp_path, text, arrivals, len(expected), commands, range(1, 6), target="psa_switch"
    )
    theirs = sorted((port, data.hex()) for port, frames in sent.items() for data in frames)
    ours = []
    for port, left in expected:
        here = left
        for told, there in TAKEN_ALONG.items():
            here = here.replace(told, there)
        if told_resubmitted(left):
            here = here.replace("00000005" + "77", "00000000" + "77")
        ours.append((port, here))
    assert theirs == sorted(ours)


def told_resubmitted(data: str) -> bool:
    """Whether a packet was resubmitted: psa_switch forgets its port."""
    return "3333" in data


# -- classes of service, truncation, the controller's session --------------------------------------


def classed(queues: int) -> Loaded:
    dataplane = Dataplane(1, 8, plain=True, priority_queues=queues)
    for port in range(1, 8):
        dataplane.set_port(0, port, Queue(rate_bps=8_000_000))
    dataplane.set_cpu_port(0, CPU_PORT)
    local, info = LocalSwitch(dataplane.control(0, "s1"), 1), p4info_pb2.P4Info()
    local.arbitrate((0, 1))
    load(local, info, "classes")
    return dataplane, local, info


def way(info: p4info_pb2.P4Info, what: int, action: str, *values: int, path: int = 0) -> str:
    """An entry whose key has an enum's type: clients write the number of the member."""
    (table,) = (one.preamble.id for one in info.tables)
    (number,) = (one.preamble.id for one in info.actions if one.preamble.name == f"In.{action}")
    params = "".join(
        f'params {{ param_id: {at} value: "\\x{value:02x}" }} '
        for at, value in enumerate(values, start=1)
    )
    return f"""table_entry {{ table_id: {table}
        match {{ field_id: 1 exact {{ value: "\\x{what:02x}" }} }}
        match {{ field_id: 2 exact {{ value: "\\x{path:02x}" }} }}
        action {{ action {{ action_id: {number} {params} }} }} }}"""


def session(number: int, port: int, more: str) -> str:
    return (
        f"packet_replication_engine_entry {{ clone_session_entry {{ session_id: {number} "
        f"replicas {{ egress_port: {port} instance: 9 }} {more} }} }}"
    )


def left(dataplane: Dataplane, sent: bytes, port: int = 1) -> list[tuple[int, bytes]]:
    """What leaves within a second, in order of time, of a frame that comes."""
    dataplane.receive(0, port, [sent], 0)
    return [(one.port, one.frame) for one in dataplane.transmit(10**9)]


def told(data: bytes) -> tuple[int, int]:
    """The class of service and the instance that egress saw."""
    return data[12], data[13]


@pytest.mark.parametrize(("queues", "asked", "seen"), [(1, 3, 0), (4, 3, 3), (4, 4, 0), (4, 0, 0)])
def test_a_class_of_service_without_a_queue_is_class_0(queues: int, asked: int, seen: int) -> None:
    dataplane, local, info = classed(queues)
    write(local, way(info, 1, "go", asked, 2))
    ((port, data),) = left(dataplane, frame(1))
    assert (port, told(data)) == (2, (seen, 0))
    assert data[15] == 0, "a packet begins in class 0"
    counted = [int(one.counted.taken_packets) for one in dataplane.queues_of(0, 2)]
    assert counted == [int(priority == seen) for priority in range(queues)]


def test_copies_of_a_session_are_cut_before_egress_parses_them() -> None:
    dataplane, local, info = classed(4)
    write(
        local,
        way(info, 1, "also_clone", 3, 5),
        session(5, 4, "class_of_service: 2 packet_length_bytes: 23"),
    )
    whole = frame(1) + bytes(100)
    ((port, data),) = left(dataplane, whole)
    assert (port, told(data)) == (4, (0, 9))
    assert data[14:] == whole[14:23], "the packet as it came"
    (read,) = local_sessions(local)
    assert (read.class_of_service, read.packet_length_bytes) == (2, 23)


def test_what_egress_clones_is_cut_where_the_deparser_has_ended() -> None:
    dataplane, local, info = classed(2)
    write(
        local,
        way(info, 7, "go", 0, 2),
        session(7, 3, "class_of_service: 1 packet_length_bytes: 30"),
    )
    sent = dict(left(dataplane, frame(7) + bytes(range(60))))
    assert len(sent[2]) == len(frame(7)) + 60 and len(sent[3]) == 30
    assert told(sent[3]) == (0, 9)
    assert sent[3][14:] == sent[2][14:30]


def test_the_session_to_the_controller_is_there_from_the_start() -> None:
    dataplane, local, info = classed(1)
    write(local, way(info, 1, "also_clone", 0, 0))
    dataplane.receive(0, 1, [frame(1)], 0)
    assert dataplane.transmit(10**9) == []
    assert dataplane.statistics(0, CPU_PORT).tx_packets == 1
    assert local_sessions(local) == []


def local_sessions(local: LocalSwitch) -> list[p4runtime_pb2.CloneSessionEntry]:
    request = p4runtime_pb2.ReadRequest(device_id=1)
    request.entities.add().packet_replication_engine_entry.clone_session_entry.SetInParent()
    return [
        entity.packet_replication_engine_entry.clone_session_entry
        for response in local.stub.Read(request)
        for entity in response.entities
    ]


def test_a_session_that_there_is_not_makes_no_copy_and_the_packet_goes_on() -> None:
    dataplane, local, info = classed(1)
    write(local, way(info, 1, "also_clone", 0, 6), way(info, 7, "go", 0, 2))
    assert left(dataplane, frame(1)) == []
    assert [port for port, _ in left(dataplane, frame(7))] == [2]


def test_a_frame_too_short_for_a_parser_goes_on_with_the_error() -> None:
    dataplane, local, info = classed(1)
    (table,) = (one.preamble.id for one in info.tables)
    assert table
    write(local, way(info, 0, "go", 0, 2))
    ((port, data),) = left(dataplane, frame(1)[:18])
    assert port == 2
    assert data[6:12] == bytes.fromhex("eeeeeeeeeeee"), "egress has the error, too"
