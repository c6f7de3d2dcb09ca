"""Clients that mean harm: programs that are almost right, calls that never end, nothing read."""

from __future__ import annotations

import gc
import json
import logging
import os
import socket
import threading
import time
import weakref
from contextlib import ExitStack
from functools import partial
from typing import Any

import grpc
import pytest
from google.protobuf import text_format
from google.rpc import code_pb2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.p4runtime_mutations import fill, mutate_info, mutate_json
from tests.support.p4runtime_support import (
    EVERY_ENTITY,
    EVERY_NOTICE,
    INSERT,
    BareClient,
    Connect,
    Files,
    Refused,
    compiled,
    config_request,
    make_dataplane,
    taken,
)

from weft.switch.engine.build import MOST_BUILT
from weft.switch.engine.switches import Dataplane
from weft.switch.messages import p4info_pb2, p4runtime_pb2
from weft.switch.p4runtime import configs, notifications, requests
from weft.switch.p4runtime.arbitration import Arbitration
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.p4info import DataPlane
from weft.switch.p4runtime.refusals import MOST_NAMED, Refusal, as_refusal
from weft.switch.p4runtime.server import (
    MAX_CALLS,
    MOST_WAITING,
    P4RuntimeServer,
    Waiting,
    unless_stalled,
)
from weft.switch.p4runtime.streams import MAX_WAITING, MAX_WAITING_BYTES, ClientOutbox, Streams

pytest_plugins = ["tests.support.p4runtime_fixtures"]

ENTITIES = [field.name for field in p4runtime_pb2.Entity.DESCRIPTOR.fields]
CPU_PORT = 8


# -- programs ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def programs() -> list[tuple[Any, Any]]:
    """BMv2 JSON and P4Info of two programs."""
    return [
        (
            json.loads(files.json.read_text()),
            text_format.Parse(files.p4info.read_text(), p4info_pb2.P4Info()),
        )
        for files in (compiled(EVERY_ENTITY), compiled(EVERY_NOTICE))
    ]


def new_target() -> tuple[Dataplane, Device]:
    """A switch without a program: what an example meets must not depend on those before."""
    dataplane = make_dataplane()
    dataplane.set_cpu_port(0, CPU_PORT)
    return dataplane, Device(dataplane.control(0, "leaf0"), 1)


@pytest.fixture
def target() -> tuple[Dataplane, Device]:
    return new_target()


@settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(random=st.randoms(use_true_random=False))
def test_a_program_that_is_almost_right_is_refused_or_runs(
    programs: list[tuple[Any, Any]], random: Any
) -> None:
    dataplane, device = new_target()
    document, info = random.choice(programs)
    if random.random() < 0.6:
        document = mutate_json(document, random)
    if random.random() < 0.6:
        info = mutate_info(info, random)
    request = p4runtime_pb2.SetForwardingPipelineConfigRequest()
    request.action = random.choice([1, 2, 3, 3, 3, 5])
    request.config.p4info.CopyFrom(info)
    request.config.p4_device_config = json.dumps(document).encode()
    before = device.running
    try:
        configs.set_config(device, request)
    except Exception as error:
        assert as_refusal(error).code != code_pb2.INTERNAL, error
        assert device.running is before
        return
    if device.running is None:
        return
    info = device.info.message
    ids = [one.preamble.id for one in (*info.tables, *info.actions, *info.meters)] or [1]
    for _ in range(3):
        write, read = p4runtime_pb2.WriteRequest(), p4runtime_pb2.ReadRequest()
        write.atomicity = random.randint(0, 2)
        for name in random.sample(ENTITIES, 5):
            update = write.updates.add(type=random.randint(1, 3))
            fill(getattr(update.entity, name), ids, random)
            getattr(read.entities.add(), name).SetInParent()
        for outcome in (*requests.write(device, write), *requests.read(device, read.entities)[1]):
            assert outcome is None or outcome.code != code_pb2.INTERNAL, outcome.message
    for port in (1, CPU_PORT):
        dataplane.receive(0, port, [random.randbytes(60)], dataplane.now_ns + 1)
        dataplane.transmit(dataplane.now_ns + 1)
    notifications.collect(device, dataplane.now_ns, 0)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[" * 1_000_000, "not BMv2 JSON"),
        (b'{"a": NaN}', "NaN is no number in JSON"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "not BMv2 JSON"),
        (b"[" + b"{}," * (1 << 21) + b"{}]", "2097152 at most"),
        (b"\xff\xfe", "not BMv2 JSON"),
        (b'{"pipelines": [], "header_types": 7}', "not BMv2 JSON"),
        (b'{"pipelines": [{"tables": 1e999}]}', "not BMv2 JSON"),
    ],
)
def test_what_is_no_program_costs_little(
    target: tuple[Dataplane, Device], data: bytes, message: str
) -> None:
    request = p4runtime_pb2.SetForwardingPipelineConfigRequest(action=1)
    request.config.p4_device_config = data
    with pytest.raises(Exception, match=message) as caught:
        configs.set_config(target[1], request)
    assert as_refusal(caught.value).code == code_pb2.INVALID_ARGUMENT


def test_a_p4info_of_another_program_is_refused(
    target: tuple[Dataplane, Device], every_entity: Files
) -> None:
    for part, what in (
        ("tables", r"table \S+ has \d key fields in the P4Info and \d in the BMv2 JSON"),
        ("actions", r"action \S+ has \d parameters in the P4Info and \d in the BMv2 JSON"),
    ):
        request = config_request(every_entity)
        for one in getattr(request.config.p4info, part):
            parts = one.match_fields if part == "tables" else one.params
            if parts:
                del parts[-1]
        with pytest.raises(Exception, match=f"not of one program: {what}; compile both"):
            configs.set_config(target[1], request)


def test_a_p4info_without_a_table_that_only_clients_fill_is_refused(
    target: tuple[Dataplane, Device], every_entity: Files
) -> None:
    request = config_request(every_entity)
    names = [table.preamble.name for table in request.config.p4info.tables]
    position = names.index("TheIngress.exact_table")
    del request.config.p4info.tables[position]
    what = r"the BMv2 JSON has table TheIngress\.exact_table, the P4Info does not"
    with pytest.raises(Exception, match=f"not of one program: {what}; compile both"):
        configs.set_config(target[1], request)


def with_foreign(files: Files, kind: str, count: int) -> Any:
    request = config_request(files)
    for number in range(count):
        one = getattr(request.config.p4info, kind).add()
        one.preamble.id = 0x01F00000 + number
        one.preamble.name = f"foreign.{number}"
    return request


@pytest.mark.parametrize("kind", ["actions", "counters", "registers", "digests"])
def test_a_p4info_with_many_objects_of_other_programs_is_refused(
    target: tuple[Dataplane, Device], every_entity: Files, kind: str
) -> None:
    device = target[1]
    with pytest.raises(Refusal) as caught:
        configs.set_config(device, with_foreign(every_entity, kind, 3_000))
    assert caught.value.code == code_pb2.INVALID_ARGUMENT
    assert caught.value.message == (
        "P4Info and p4_device_config are not of one program: 3000 objects of the P4Info are not in "
        "the BMv2 JSON, 1024 may have been dropped: "
        + ", ".join(f"foreign.{number}" for number in range(MOST_NAMED))
        + " and 2992 more; compile both together"
    )
    configs.set_config(device, with_foreign(every_entity, "actions", 3))


def test_the_widths_of_a_controller_header_are_looked_up_once(
    target: tuple[Dataplane, Device], every_entity: Files
) -> None:
    request = config_request(every_entity)
    header = request.config.p4info.controller_packet_metadata.add()
    header.preamble.id, header.preamble.name = 1, "packet_in"
    for number in range(2_000):
        header.metadata.add(id=number + 1, name=f"m{number}", bitwidth=8)
    device = target[1]
    compared = []

    class Counted(str):
        def startswith(self, *arguments: Any) -> bool:
            compared.append(self)
            return super().startswith(*arguments)

    configs.set_config(device, request)
    plane = DataPlane({"header_types": [], "pipelines": []})
    plane._headers = {"packet_in_t": [(Counted(f"m{number}"), 8) for number in range(2_000)]}
    assert plane.header_widths([f"m{number}" for number in range(2_000)]) == [8] * 2_000
    assert len(compared) == 2_000
    assert len(device.info.packet_headers["packet_in"].fields) == 2_000


def test_programs_that_no_switch_runs_are_forgotten(
    target: tuple[Dataplane, Device], every_entity: Files
) -> None:
    dataplane, device = target
    configs.set_config(device, config_request(every_entity))
    text = every_entity.json.read_text()
    first = weakref.ref(dataplane.build(text + " "))
    for spaces in range(2, 2 * MOST_BUILT + 4):
        dataplane.build(text + " " * spaces)
    gc.collect()
    assert first() is None
    dataplane.receive(0, 1, [bytes(60)], 1)
    dataplane.transmit(2)


# -- clients that do not read --------------------------------------------------------------------


def test_what_waits_for_a_client_that_does_not_read_is_bounded(
    target: tuple[Dataplane, Device],
) -> None:
    streams = Streams(target[1], Arbitration(1))
    (lazy, unread), (busy, read) = streams.open(), streams.open()
    request = p4runtime_pb2.StreamMessageRequest()
    request.arbitration.device_id = 1
    streams.take_one(lazy, unread, request)
    for election_id in range(3 * MAX_WAITING):
        request.arbitration.election_id.low = election_id
        request.arbitration.election_id.SetInParent()
        streams.take_one(busy, read, request)
        (answer,) = taken(read)
        assert answer.arbitration.status.code == code_pb2.OK
    waiting = taken(unread)
    assert len(waiting) <= MAX_WAITING + 1
    assert waiting[-1].arbitration.election_id.low == 3 * MAX_WAITING - 1
    large = p4runtime_pb2.StreamMessageResponse()
    large.packet.payload = bytes(1 << 20)
    while not read.full:
        read.put(large)
    assert (MAX_WAITING_BYTES >> 20) - 1 <= len(taken(read)) <= MAX_WAITING_BYTES >> 20
    assert not read.full


def test_messages_come_in_their_order_from_any_thread() -> None:
    outbox = ClientOutbox()
    taken: list[Any] = []
    thread = threading.Thread(target=lambda: taken.extend(outbox.get() for _ in range(100)))
    thread.start()
    for number in range(100):
        outbox.put(number)
    thread.join(60)
    assert taken == list(range(100))


def test_an_answer_that_nobody_reads_ends() -> None:
    cancelled = threading.Event()
    answer = unless_stalled([b"one", b"two"], cancelled.set, stall_s=0.01)
    assert next(answer) == b"one"
    assert cancelled.wait(60)
    untouched = threading.Event()
    assert list(unless_stalled([b"one", b"two"], untouched.set)) == [b"one", b"two"]
    assert list(unless_stalled([b"one"], untouched.set, stall_s=0)) == [b"one"]
    assert not untouched.is_set()


def test_calls_that_never_send_a_request_and_unread_answers_do_not_keep_others_out(
    server: P4RuntimeServer, client: BareClient
) -> None:
    client.write(*[(INSERT, f"packet_replication_engine_entry {{ multicast_group_entry {{ "
                    f"multicast_group_id: {number} metadata: '{'m' * 200}' }} }}")
                   for number in range(1, 2000)])  # fmt: skip
    query = p4runtime_pb2.ReadRequest(device_id=1)
    query.entities.add().packet_replication_engine_entry.SetInParent()
    ended = threading.Event()

    def never() -> Any:
        ended.wait()
        yield b""

    channels, calls = [], []
    for number in range(24):
        channel = grpc.insecure_channel(
            server.address, options=[("grpc.use_local_subchannel_pool", 1)]
        )
        channels.append(channel)
        if number % 2:
            calls.append(channel.stream_unary("/p4.v1.P4Runtime/Write").future(never()))
        else:
            read = channel.unary_stream("/p4.v1.P4Runtime/Read")
            calls.append(read(query.SerializeToString()))
    assert client.get_config("COOKIE_ONLY").HasField("config")
    assert not any(call.done() for call in calls[1::2])
    ended.set()
    for channel in channels:
        channel.close()
    client.write((INSERT, "packet_replication_engine_entry { multicast_group_entry { "
                  "multicast_group_id: 3000 } }"))  # fmt: skip


def test_more_calls_without_requests_than_there_are_threads_keep_nobody_out(
    server: P4RuntimeServer, client: BareClient, connect: Connect
) -> None:
    ended = threading.Event()

    def never() -> Any:
        ended.wait()
        yield b""

    channels, calls = [], []
    for number in range(8):
        channel = grpc.insecure_channel(
            server.address, options=[("grpc.use_local_subchannel_pool", 1)]
        )
        channels.append(channel)
        method = ("Write", "Capabilities", "GetForwardingPipelineConfig", "Read")[number % 4]
        calls += [
            channel.stream_unary(f"/p4.v1.P4Runtime/{method}").future(never())
            for _ in range(MAX_CALLS // 4)
        ]
        assert client.get_config("COOKIE_ONLY").HasField("config")
    connect(election_id=9).arbitrate()  # which is a stream
    end_s = time.monotonic() + 60  # a call hears of its end when the machine gets to it
    while sum(not call.done() for call in calls) > MOST_WAITING and time.monotonic() < end_s:
        time.sleep(0.05)
    assert sum(not call.done() for call in calls) <= MOST_WAITING
    ended.set()
    for channel in channels:
        channel.close()
    assert client.get_config("COOKIE_ONLY").HasField("config")


def test_a_call_that_ends_without_a_request_is_told_so(server: P4RuntimeServer) -> None:
    with grpc.insecure_channel(server.address) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.stream_unary("/p4.v1.P4Runtime/Capabilities")(iter(()))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert caught.value.details() == "no request came"


def test_of_calls_that_wait_the_one_that_has_waited_longest_makes_room() -> None:
    waiting = Waiting(most=2)
    cancelled: list[int] = []
    with ExitStack() as stack:
        for number in range(4):
            stack.enter_context(waiting.wait(partial(cancelled.append, number)))
        assert cancelled == [0, 1]
    with waiting.wait(partial(cancelled.append, 4)), waiting.wait(partial(cancelled.append, 5)):
        assert cancelled == [0, 1]


def test_what_is_quoted_in_an_error_is_cut(client: BareClient, connect: Connect) -> None:
    other = connect(election_id=9)
    with pytest.raises(Refused, match=r"INVALID_ARGUMENT: role\.name: 5000 char"):
        other.arbitrate(role="r" * 5000)
    client.role = "r" * 100_000
    with pytest.raises(Refused, match="NOT_FOUND: no client has ever had role 'rrr") as caught:
        client.write((INSERT, "table_entry {}"))
    assert len(caught.value.details) == 2000


def test_hundreds_of_streams_and_noise_leave_the_server_as_it_was(
    server: P4RuntimeServer, client: BareClient, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    crowd = [connect(election_id=100 + number) for number in range(200)]
    for one in crowd:
        one.open_stream()
        request = p4runtime_pb2.StreamMessageRequest()
        request.arbitration.device_id = 1
        request.arbitration.election_id.low = one.election_id or 0
        one.send(request)
    answers = []
    for one in crowd:
        try:
            answers.append(one.receive().WhichOneof("update"))
        except Refused as refused:
            answers.append(refused.code)
    assert set(answers) == {"arbitration", "RESOURCE_EXHAUSTED"}
    sockets = []
    for number in range(60):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(server.address.removeprefix("unix:"))
        greeting = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" if number % 2 else b""
        connection.send(greeting + os.urandom(200) if number % 3 else b"\x00")
        sockets.append(connection)
    assert client.read("table_entry {}")
    for connection in sockets:
        connection.close()
    for one in crowd:
        one.close()
    assert client.read("table_entry {}")
    assert not [record for record in caplog.records if record.exc_info]
