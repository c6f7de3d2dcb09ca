"""Hostile clients: whatever they send is answered with an error of theirs, never one of ours."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.rpc import code_pb2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.support.emulated_support import wait_until
from tests.support.p4runtime_mutations import repeats
from tests.support.p4runtime_support import (
    EVERY_ENTITY,
    EVERY_NOTICE,
    BareClient,
    Refused,
    compiled,
    config_request,
    make_dataplane,
    taken,
)

from weft.switch.engine.switches import Dataplane
from weft.switch.messages import p4runtime_pb2
from weft.switch.p4runtime import bytestrings, configs, requests
from weft.switch.p4runtime.arbitration import Arbitration, Client
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.refusals import Refusal, as_refusal
from weft.switch.p4runtime.server import P4RuntimeServer
from weft.switch.p4runtime.streams import Streams

pytest_plugins = ["tests.support.p4runtime_fixtures"]

# The same server takes all examples: what it holds then is part of the test.
ONE_SERVER = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
hostile = settings(suppress_health_check=ONE_SERVER)


OBJECT_IDS = {
    "table_id", "action_id", "action_profile_id", "counter_id", "meter_id", "register_id",
    "value_set_id", "digest_id",
}  # fmt: skip


@pytest.fixture(params=[EVERY_ENTITY, EVERY_NOTICE], ids=["entities", "notices"])
def device(request: pytest.FixtureRequest) -> Device:
    """A switch that runs a program with one of each thing, without gRPC in front of it."""
    dataplane = make_dataplane()
    dataplane.set_cpu_port(0, 8)
    made = Device(dataplane.control(0, "leaf0"), 1)
    configs.set_config(made, config_request(compiled(request.param)))
    return made


def known_ids(device: Device) -> list[int]:
    info = device.info
    ids: list[int] = []
    for kind in (
        info.tables, info.actions, info.profiles, info.counters, info.registers, info.meters,
        info.value_sets, info.digests,
    ):  # fmt: skip
        ids += kind
    return ids


def fill(draw: st.DrawFn, message: Any, ids: list[int], depth: int = 0) -> None:
    """Set some of a message's fields, ids mostly to ones that exist."""
    fields = list(message.DESCRIPTOR.fields)
    if not fields:
        return
    chosen = draw(st.lists(st.sampled_from(fields), max_size=len(fields), unique=True))
    for field in chosen:
        repeated = repeats(message, field)
        for _ in range(draw(st.integers(1, 3)) if repeated else 1):
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                if depth > 5 or field.message_type.GetOptions().map_entry:
                    continue
                inner = getattr(message, field.name)
                inner = inner.add() if repeated else inner
                inner.SetInParent()
                fill(draw, inner, ids, depth + 1)
                continue
            value = draw(scalars(field, ids))
            if repeated:
                getattr(message, field.name).append(value)
            else:
                setattr(message, field.name, value)


def scalars(field: Any, ids: list[int]) -> st.SearchStrategy[Any]:
    kinds = FieldDescriptor
    small = st.integers(0, 4)
    if field.type == kinds.TYPE_BYTES:
        return st.binary(max_size=5)
    if field.type == kinds.TYPE_STRING:
        return st.text(max_size=5)
    if field.type == kinds.TYPE_BOOL:
        return st.booleans()
    if field.type == kinds.TYPE_ENUM:
        return st.sampled_from([value.number for value in field.enum_type.values])
    if field.type in (kinds.TYPE_UINT32, kinds.TYPE_UINT64):
        if field.name in OBJECT_IDS:
            return st.sampled_from(ids)
        return small | st.sampled_from(ids) | st.integers(0, (1 << 32) - 1)
    if field.type in (kinds.TYPE_INT32, kinds.TYPE_INT64):
        return small | st.integers(-(1 << 31), (1 << 31) - 1)
    return st.floats(width=32)


@hostile
@given(data=st.data())
def test_no_entity_makes_the_server_fail(device: Device, data: st.DataObject) -> None:
    ids = known_ids(device)
    write = p4runtime_pb2.WriteRequest()
    read = p4runtime_pb2.ReadRequest()
    draw: Any = data.draw
    for _ in range(data.draw(st.integers(1, 4))):
        fill(draw, write.updates.add(), ids)
        fill(draw, read.entities.add(), ids)
    write.atomicity = data.draw(st.integers(0, 2))
    outcomes = requests.write(device, write)
    _, answers = requests.read(device, read.entities)
    for outcome in (*outcomes, *answers):
        assert outcome is None or outcome.code != code_pb2.INTERNAL, outcome.message
        assert outcome is None or outcome.message


@settings(suppress_health_check=ONE_SERVER)
@given(data=st.data())
def test_no_stream_message_makes_the_server_fail(device: Device, data: st.DataObject) -> None:
    streams = Streams(device, Arbitration(1))
    draw: Any = data.draw
    for _ in range(3):
        client, outbox = streams.open()
        try:
            request = p4runtime_pb2.StreamMessageRequest()
            request.arbitration.device_id = 1
            request.arbitration.election_id.low = data.draw(st.integers(0, 3))
            streams.take_one(client, outbox, request)
            for _ in range(data.draw(st.integers(1, 4))):
                request = p4runtime_pb2.StreamMessageRequest()
                fill(draw, request, known_ids(device))
                streams.take_one(client, outbox, request)
        except Refusal as refusal:
            assert refusal.code != code_pb2.INTERNAL
        for told in taken(outbox):
            assert told.error.canonical_code != code_pb2.INTERNAL


def test_a_large_batch_is_answered_update_by_update(device: Device) -> None:
    request = p4runtime_pb2.WriteRequest()
    for number in range(10_000):
        update = request.updates.add(type=p4runtime_pb2.Update.INSERT)
        entry = update.entity.packet_replication_engine_entry.multicast_group_entry
        entry.multicast_group_id = number % 9_000 + 1
    outcomes = requests.write(device, request)
    assert [outcome is None for outcome in outcomes] == [True] * 9_000 + [False] * 1_000
    for atomicity in (1, 2):
        request.atomicity = atomicity
        assert all(outcome is not None for outcome in requests.write(device, request))


@hostile
@given(data=st.data())
def test_no_config_makes_the_server_fail(device: Device, data: st.DataObject) -> None:
    request = p4runtime_pb2.SetForwardingPipelineConfigRequest()
    draw: Any = data.draw
    fill(draw, request.config, known_ids(device))
    if data.draw(st.booleans()):
        assert device.running is not None
        request.config.p4_device_config = device.running.message.p4_device_config
    request.action = data.draw(st.sampled_from([0, request.VERIFY, request.COMMIT]))
    before = device.running
    try:
        configs.set_config(device, request)
    except Exception as error:
        assert as_refusal(error).code != code_pb2.INTERNAL, error
    assert device.running is before and device.staged is None


@settings(suppress_health_check=ONE_SERVER)
@given(
    method=st.sampled_from(
        ["Write", "SetForwardingPipelineConfig", "GetForwardingPipelineConfig", "Read",
         "Capabilities", "StreamChannel"]
    ),
    data=st.binary(max_size=60),
)  # fmt: skip
def test_random_bytes_are_answered(server: P4RuntimeServer, method: str, data: bytes) -> None:
    channel = grpc.insecure_channel(server.address)
    name = f"/p4.v1.P4Runtime/{method}"
    try:
        if method == "StreamChannel":
            list(channel.stream_stream(name)(iter([data]), timeout=120))
        else:
            list(channel.unary_stream(name)(data, timeout=120))
    except grpc.RpcError as error:
        allowed = ("INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "PERMISSION_DENIED")
        assert error.code().name in allowed, error
    finally:
        channel.close()
    client = BareClient(server.address)
    assert client.arbitrate().device_id == 1
    client.leave()
    client.close()


def test_the_server_outlives_clients_that_vanish(
    server: P4RuntimeServer, dataplane: Dataplane
) -> None:
    for election_id in range(1, 60):
        client = BareClient(server.address, election_id=election_id)
        client.open_stream()
        client.send(p4runtime_pb2.StreamMessageRequest())
        client.close()
    last: list[BareClient] = []

    def is_primary() -> bool:
        # Streams of clients that are gone may still be counted for a moment.
        last.append(BareClient(server.address, election_id=100 + len(last)))
        try:
            return bool(last[-1].arbitrate().status.code == code_pb2.OK)
        except Refused:
            return False
        finally:
            last[-1].close()

    wait_until(is_primary, "a stream to become free")


def test_a_client_that_floods_its_stream_without_reading_is_cut_off(
    server: P4RuntimeServer,
) -> None:
    request = p4runtime_pb2.StreamMessageRequest()
    request.packet.payload = bytes(1000)
    channel = grpc.insecure_channel(server.address)
    call = channel.stream_stream(
        "/p4.v1.P4Runtime/StreamChannel", request_serializer=lambda message: message
    )
    data = request.SerializeToString()
    stream = call(iter([data] * 20_000), timeout=120)
    codes = set()
    try:
        for _ in stream:
            pass
        codes.add("OK")
    except grpc.RpcError as error:
        codes.add(error.code().name)
    assert codes <= {"OK", "RESOURCE_EXHAUSTED"}
    channel.close()
    client = BareClient(server.address)
    assert client.arbitrate().status.code == code_pb2.OK
    client.close()


# -- arbitration as a machine --------------------------------------------------------------------


class ArbitrationMachine(RuleBasedStateMachine):
    """Clients come, go and change their election ids in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.arbitration = Arbitration(1)
        self.live: list[Client] = []
        self.highest: int | None = None

    @rule(election_id=st.none() | st.integers(0, 5), known=st.none() | st.integers(0, 9))
    def update(self, election_id: int | None, known: int | None) -> None:
        new = known is None or not self.live
        client = Client() if new else self.live[(known or 0) % len(self.live)]
        message = p4runtime_pb2.MasterArbitrationUpdate(device_id=1)
        if election_id is not None:
            message.election_id.low = election_id
            message.election_id.SetInParent()
        taken = election_id is not None and any(
            other.election_id == election_id for other in self.live if other is not client
        )
        was_primary = client.joined and client is self.primary()
        try:
            notices = self.arbitration.update(client, message)
        except Refusal as refusal:
            assert taken and refusal.code == code_pb2.INVALID_ARGUMENT
            return
        assert not taken
        if new:
            self.live.append(client)
        becomes = election_id is not None and (self.highest is None or election_id >= self.highest)
        if becomes:
            self.highest = election_id
        told = self.live if becomes or was_primary else [client]
        assert {id(notice.client) for notice in notices} == {id(one) for one in told}
        self.check(notices)

    @rule(which=st.integers(0, 9))
    def leave(self, which: int) -> None:
        if not self.live:
            return
        client = self.live[which % len(self.live)]
        was_primary = client is self.primary()
        self.live.remove(client)
        notices = self.arbitration.leave(client)
        assert len(notices) == (len(self.live) if was_primary else 0)
        self.check(notices)

    def primary(self) -> Client | None:
        if self.highest is None:
            return None
        return next((one for one in self.live if one.election_id == self.highest), None)

    def check(self, notices: list[Any]) -> None:
        primary = self.primary()
        for position, notice in enumerate(notices):
            update = notice.message.arbitration
            if notice.client is primary:
                assert update.status.code == code_pb2.OK
                assert position == len(notices) - 1
            elif primary is not None:
                assert update.status.code == code_pb2.ALREADY_EXISTS
            else:
                assert update.status.code == code_pb2.NOT_FOUND
            assert update.HasField("election_id") == (self.highest is not None)
            assert update.election_id.low == (self.highest or 0)

    @invariant()
    def only_the_primary_may_write(self) -> None:
        for election_id in range(6):
            request = p4runtime_pb2.WriteRequest()
            request.election_id.low = election_id
            request.election_id.SetInParent()
            primary = self.primary()
            if primary is not None and primary.election_id == election_id:
                self.arbitration.check_primary(request)
            else:
                with pytest.raises(Refusal):
                    self.arbitration.check_primary(request)


TestArbitration = ArbitrationMachine.TestCase


# -- bytestrings ---------------------------------------------------------------------------------


@given(st.integers(0, (1 << 128) - 1), st.integers(0, 4), st.integers(1, 130))
def test_bytestrings_of_any_length_mean_their_value(value: int, zeros: int, width: int) -> None:
    canonical = bytestrings.encode(value)
    assert len(canonical) == 1 or canonical[0] != 0
    if value >> width:
        with pytest.raises(Refusal):
            bytestrings.decode(bytes(zeros) + canonical, width, "field")
    else:
        assert bytestrings.decode(bytes(zeros) + canonical, width, "field") == value


@pytest.mark.parametrize(
    ("width", "data"),
    [(8, b"\x01\x63"), (8, b""), (16, b"\x01\x00\x63"), (12, b"\x10\x63"), (12, b"\x00\x40\x63")],
)
def test_the_specifications_examples_of_invalid_bytestrings(width: int, data: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        bytestrings.decode(data, width, "field")
    assert caught.value.code == code_pb2.OUT_OF_RANGE
