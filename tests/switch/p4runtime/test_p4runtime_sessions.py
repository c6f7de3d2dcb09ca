"""The P4Runtime server towards its clients: arbitration, programs, malformed requests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import grpc
import pytest
from google.rpc import code_pb2
from hypothesis import given
from hypothesis import strategies as st
from tests.support.p4runtime_support import (
    DELETE,
    GROUP,
    INSERT,
    MODIFY,
    SEND,
    BareClient,
    Connect,
    Files,
    Refused,
    config_request,
)

from weft.base.errors import InputError, MachineError
from weft.switch.engine.switches import Dataplane
from weft.switch.messages import p4runtime_pb2, stub_of
from weft.switch.p4runtime.received import bmv2_json
from weft.switch.p4runtime.server import Credentials, P4RuntimeServer, serve

pytest_plugins = ["tests.support.p4runtime_fixtures"]

EVERYTHING = (
    "table_entry {}", "table_entry { is_default_action: true }", "counter_entry {}",
    "register_entry {}", "action_profile_member {}", "packet_replication_engine_entry {}",
)  # fmt: skip
MEMBER = r"""action_profile_member { action_profile_id: @plain_profile member_id: 1
    action { action_id: @send params { param_id: 1 value: "\x01" } } }"""


# -- arbitration ---------------------------------------------------------------------------------


def test_the_first_client_becomes_primary(connect: Connect) -> None:
    answer = connect(election_id=7).arbitrate()
    assert answer.status.code == code_pb2.OK
    assert (answer.device_id, answer.election_id.high, answer.election_id.low) == (1, 0, 7)
    assert not answer.HasField("role")


def test_a_greater_election_id_takes_over_and_both_are_told(connect: Connect) -> None:
    first, second = connect(election_id=1), connect(election_id=1 << 64)
    first.arbitrate()
    assert second.arbitrate().status.code == code_pb2.OK
    told = first.receive().arbitration
    assert told.status.code == code_pb2.ALREADY_EXISTS
    assert (told.election_id.high, told.election_id.low) == (1, 0)


def test_a_smaller_election_id_is_a_backup_and_nobody_else_is_told(connect: Connect) -> None:
    first, second = connect(election_id=5), connect(election_id=3)
    first.arbitrate()
    answer = second.arbitrate()
    assert answer.status.code == code_pb2.ALREADY_EXISTS
    assert answer.election_id.low == 5
    assert first.nothing_received()


def test_a_client_without_election_id_never_becomes_primary(connect: Connect) -> None:
    answer = connect(election_id=None).arbitrate()
    assert answer.status.code == code_pb2.NOT_FOUND
    assert not answer.HasField("election_id")


def test_election_id_zero_is_an_election_id(connect: Connect) -> None:
    assert connect(election_id=0).arbitrate().status.code == code_pb2.OK


def test_backups_are_told_when_the_primary_leaves(connect: Connect) -> None:
    first, second = connect(election_id=5), connect(election_id=3)
    first.arbitrate()
    second.arbitrate()
    first.close()
    told = second.receive().arbitration
    assert told.status.code == code_pb2.NOT_FOUND
    assert told.election_id.low == 5
    assert second.arbitrate(4).status.code == code_pb2.NOT_FOUND
    assert second.arbitrate(5).status.code == code_pb2.OK


def test_backups_are_told_when_a_primary_is_back_with_its_election_id(connect: Connect) -> None:
    first, second = connect(election_id=5), connect(election_id=3)
    first.arbitrate()
    second.arbitrate()
    first.close()
    assert second.receive().arbitration.status.code == code_pb2.NOT_FOUND
    assert connect(election_id=5).arbitrate().status.code == code_pb2.OK
    assert second.receive().arbitration.status.code == code_pb2.ALREADY_EXISTS


def test_a_half_closed_stream_ends_and_counts_as_left(connect: Connect) -> None:
    first, second = connect(election_id=5), connect(election_id=3)
    first.arbitrate()
    second.arbitrate()
    first.half_close()
    assert second.receive().arbitration.status.code == code_pb2.NOT_FOUND


def test_a_primary_can_step_down(connect: Connect) -> None:
    first, second = connect(election_id=5), connect(election_id=3)
    first.arbitrate()
    second.arbitrate()
    assert first.arbitrate(2).status.code == code_pb2.NOT_FOUND
    assert second.receive().arbitration.status.code == code_pb2.NOT_FOUND


def test_an_election_id_in_use_ends_the_stream(connect: Connect) -> None:
    first, second = connect(election_id=5), connect(election_id=5)
    first.arbitrate()
    with pytest.raises(Refused, match="INVALID_ARGUMENT: election id 5 is already in use"):
        second.arbitrate()


def test_another_device_id_ends_the_stream(connect: Connect) -> None:
    with pytest.raises(Refused, match="NOT_FOUND: no device 9 here; this is device 1"):
        connect(device_id=9).arbitrate()
    client = connect()
    client.arbitrate()
    client.device_id = 9
    with pytest.raises(Refused, match="FAILED_PRECONDITION: no device 9"):
        client.arbitrate()


def test_each_role_has_a_primary_of_its_own(connect: Connect) -> None:
    first, second = connect(election_id=5), connect(election_id=5)
    first.arbitrate()
    answer = second.arbitrate(role="telemetry")
    assert (answer.status.code, answer.role.name) == (code_pb2.OK, "telemetry")
    with pytest.raises(Refused, match="FAILED_PRECONDITION: this stream has role 'telemetry'"):
        second.arbitrate(role="other")


def test_a_role_of_older_clients_is_a_number(connect: Connect, every_entity: Files) -> None:
    client = connect(election_id=5)
    request = p4runtime_pb2.StreamMessageRequest()
    request.arbitration.device_id = 1
    request.arbitration.role.id = 7
    request.arbitration.election_id.low = 5
    client.send(request)
    told = client.receive().arbitration
    assert (told.status.code, told.role.id, told.role.name) == (code_pb2.OK, 7, "")
    config = config_request(every_entity)
    config.device_id, config.role_id, config.election_id.low = 1, 7, 5
    client.set_config(config)
    config.role_id = 8
    with pytest.raises(Refused, match="NOT_FOUND: no client has ever had role 8"):
        client.set_config(config)


def test_what_is_wrong_on_the_stream_is_answered_with_an_error(connect: Connect) -> None:
    client = connect()
    request = p4runtime_pb2.StreamMessageRequest()
    request.packet.payload = b"frame"
    client.send(request)
    assert client.receive().error.canonical_code == code_pb2.PERMISSION_DENIED
    client.arbitrate()
    client.send(request)
    error = client.receive().error
    assert error.canonical_code == code_pb2.FAILED_PRECONDITION
    assert error.packet_out.packet_out == request.packet
    request.digest_ack.list_id = 5
    client.send(request)
    assert client.receive().error.digest_list_ack.digest_list_ack == request.digest_ack
    request.other.value = b"x"
    client.send(request)
    error = client.receive().error
    assert (error.canonical_code, error.other.other) == (code_pb2.UNIMPLEMENTED, request.other)


def test_streams_are_limited(connect: Connect) -> None:
    for election_id in range(16):
        connect(election_id=election_id).arbitrate()
    with pytest.raises(Refused, match="RESOURCE_EXHAUSTED: leaf0: 16 streams are open already"):
        connect(election_id=99).arbitrate()


# -- pipeline config -----------------------------------------------------------------------------


def test_a_config_reads_back_as_it_was_set(connect: Connect, every_entity: Files) -> None:
    client = connect()
    client.arbitrate()
    client.push(every_entity, cookie=77)
    config = client.get_config().config
    assert config.p4info == client.info
    assert config.p4_device_config == every_entity.json.read_bytes()
    assert config.cookie.cookie == 77
    cookie_only = client.get_config("COOKIE_ONLY").config
    assert cookie_only.cookie.cookie == 77
    assert not cookie_only.HasField("p4info") and not cookie_only.p4_device_config
    assert not client.get_config("P4INFO_AND_COOKIE").config.p4_device_config
    assert not client.get_config("DEVICE_CONFIG_AND_COOKIE").config.HasField("p4info")


def test_a_config_may_come_as_older_controllers_send_it(
    client: BareClient, every_entity: Files
) -> None:
    text = every_entity.json.read_bytes()
    size = bytes([len(text) & 0x7F | 0x80, len(text) >> 7 & 0x7F | 0x80, len(text) >> 14])
    request = config_request(every_entity, "VERIFY_AND_COMMIT", 0)
    request.device_id, request.election_id.low = client.device_id, client.election_id
    # p4.tmp.P4DeviceConfig { reassign: true device_data: text }
    request.config.p4_device_config = wrapped = b"\x08\x01\x1a" + size + text
    client.set_config(request)
    assert client.get_config().config.p4_device_config == wrapped


@given(st.binary(max_size=20))
def test_what_is_no_older_device_config_is_taken_as_it_is(content: bytes) -> None:
    assert bmv2_json(b"\x1a" + bytes([len(content)]) + content) == content
    assert bmv2_json(b"\x1a" + bytes([len(content) + 1]) + content) != content
    assert bmv2_json(b"{" + content) == b"{" + content
    assert bmv2_json(content) in content


def test_only_the_primary_may_set_a_config(connect: Connect, every_entity: Files) -> None:
    with pytest.raises(Refused, match="PERMISSION_DENIED: election id 1 is not the primary's"):
        connect().push(every_entity)
    first, second = connect(election_id=5), connect(election_id=3)
    first.arbitrate()
    second.arbitrate()
    with pytest.raises(Refused, match="PERMISSION_DENIED"):
        second.push(every_entity)


def test_verify_changes_nothing(connect: Connect, every_entity: Files) -> None:
    client = connect()
    client.arbitrate()
    client.push(every_entity, "VERIFY")
    with pytest.raises(Refused, match="FAILED_PRECONDITION: leaf0: no forwarding pipeline config"):
        client.get_config()


def test_a_saved_config_takes_writes_and_runs_after_commit(
    connect: Connect, every_entity: Files, dataplane: Dataplane
) -> None:
    client = connect()
    client.arbitrate()
    with pytest.raises(Refused, match="NOT_FOUND: COMMIT: no config was saved"):
        client.push(every_entity, "COMMIT")
    client.push(every_entity, "VERIFY_AND_SAVE")
    client.push(every_entity, "VERIFY_AND_SAVE")
    client.write((INSERT, SEND.format(a=1)), (INSERT, GROUP.format(id=5)))
    with pytest.raises(Refused):
        client.write((INSERT, SEND.format(a=1)))
    frame = bytes([1, 0x10, 0x20]) + bytes(57)
    dataplane.receive(0, 1, [frame], 1000)
    assert dataplane.transmit(10**9) == []
    assert len(client.read("table_entry { table_id: @exact_table }")) == 1
    client.push(every_entity, "COMMIT")
    assert client.read("table_entry { table_id: @exact_table }") == [
        client.entity(SEND.format(a=1))
    ]
    assert len(client.read("packet_replication_engine_entry {}")) == 1
    dataplane.receive(0, 1, [frame], 2 * 10**9)
    assert [departure.port for departure in dataplane.transmit(3 * 10**9)] == [5]
    with pytest.raises(Refused, match="NOT_FOUND: COMMIT"):
        client.push(every_entity, "COMMIT")


def test_a_new_config_clears_the_tables(client: BareClient, every_entity: Files) -> None:
    client.write((INSERT, SEND.format(a=1)))
    client.push(every_entity)
    assert client.read("table_entry { table_id: @exact_table }") == []


def test_reconcile_keeps_what_fits(client: BareClient, every_entity: Files) -> None:
    client.write((INSERT, SEND.format(a=1)), (INSERT, GROUP.format(id=5)))
    client.push(every_entity, "RECONCILE_AND_COMMIT")
    assert client.read("table_entry { table_id: @exact_table }") == [
        client.entity(SEND.format(a=1))
    ]
    assert len(client.read("packet_replication_engine_entry {}")) == 1


def test_what_is_no_program_is_refused_and_the_running_one_stays(
    client: BareClient, every_entity: Files
) -> None:
    before = client.get_config()
    request = p4runtime_pb2.SetForwardingPipelineConfigRequest(device_id=1)
    request.election_id.low = 1
    request.action = request.VERIFY_AND_COMMIT
    with pytest.raises(Refused, match="INVALID_ARGUMENT: VERIFY_AND_COMMIT needs a config"):
        client.set_config(request)
    for data in (b"", b"\xff", b"[]", b"{", b"{}", b'{"pipelines": [{"tables": 5}]}', b"[" * 9999):
        request.config.p4_device_config = data
        with pytest.raises(Refused, match="INVALID_ARGUMENT: "):
            client.set_config(request)
    request.config.p4_device_config = b'{"pipelines": [{"tables": []}]}'
    with pytest.raises(Refused, match="not complete BMv2 JSON: 'headers' is missing"):
        client.set_config(request)
    other = every_entity.json.read_text().replace("TheIngress.exact_table", "TheIngress.another")
    request.config.p4_device_config = other.encode()
    request.config.p4info.CopyFrom(client.info)
    with pytest.raises(Refused, match=r"not of one program: the P4Info has table TheIngress\."):
        client.set_config(request)
    request.action = request.UNSPECIFIED
    with pytest.raises(Refused, match="INVALID_ARGUMENT: action 0"):
        client.set_config(request)
    assert client.get_config() == before


def test_without_a_program_nothing_can_be_written_or_read(connect: Connect) -> None:
    client = connect()
    client.arbitrate()
    with pytest.raises(Refused, match="FAILED_PRECONDITION: leaf0: no forwarding pipeline config"):
        client.write((INSERT, "table_entry {}"))
    with pytest.raises(Refused, match="FAILED_PRECONDITION"):
        client.read("table_entry {}")


@pytest.mark.parametrize("entity", sorted(p4runtime_pb2.Entity.DESCRIPTOR.fields_by_name))
def test_without_a_program_no_kind_of_entity_can_be_written_or_read(
    entity: str, connect: Connect
) -> None:
    client = connect()
    client.arbitrate()
    for do in (lambda text: client.write((INSERT, text)), client.read):
        with pytest.raises(Refused) as caught:
            do(f"{entity} {{}}")
        codes = {caught.value.code, *(code for code, _ in caught.value.updates)}
        assert codes & {"FAILED_PRECONDITION", "UNIMPLEMENTED"}, caught.value


@pytest.mark.parametrize(
    "response_type",
    p4runtime_pb2.GetForwardingPipelineConfigRequest.ResponseType.keys(),
)
def test_without_a_program_there_is_no_config_to_get(response_type: str, connect: Connect) -> None:
    """Clients push theirs if they are told so, as BMv2's server tells them."""
    client = connect()
    with pytest.raises(Refused, match="FAILED_PRECONDITION: leaf0: no forwarding pipeline config"):
        client.get_config(response_type)


def test_a_program_that_was_loaded_without_its_p4info_is_no_config(
    connect: Connect, every_entity: Files, dataplane: Dataplane
) -> None:
    control = dataplane.control(0, "leaf0")
    control.load_program(every_entity.json.read_text(), load="save")
    control.commit_program()
    with pytest.raises(Refused, match="FAILED_PRECONDITION: leaf0: no forwarding pipeline config"):
        connect().get_config()


# -- the whole -----------------------------------------------------------------------------------


def test_packets_see_a_batch_when_the_write_returns(
    client: BareClient, dataplane: Dataplane
) -> None:
    frame = bytes([1, 0x10, 0x20]) + bytes(57)
    client.write((INSERT, SEND.format(a=1)))
    dataplane.receive(0, 1, [frame], 1000)
    assert [departure.port for departure in dataplane.transmit(10**9)] == [5]
    client.write((MODIFY, SEND.format(a=1).replace(r"\x05", r"\x06")))
    dataplane.receive(0, 1, [frame], 2 * 10**9)
    assert [departure.port for departure in dataplane.transmit(3 * 10**9)] == [6]


def test_only_the_primary_may_write(connect: Connect, client: BareClient) -> None:
    other = connect(election_id=9)
    other.info = client.info
    with pytest.raises(Refused, match="PERMISSION_DENIED: election id 9 is not the primary's"):
        other.write((INSERT, SEND.format(a=1)))
    other.arbitrate()
    other.write((INSERT, SEND.format(a=1)))
    with pytest.raises(Refused, match="PERMISSION_DENIED: election id 1 is not the primary's"):
        client.write((INSERT, SEND.format(a=2)))
    assert len(client.read("table_entry { table_id: @exact_table }")) == 1
    other.role = "never seen"
    with pytest.raises(Refused, match="NOT_FOUND: no client has ever had role 'never seen'"):
        other.write((INSERT, SEND.format(a=2)))
    other.device_id = 4
    with pytest.raises(Refused, match="NOT_FOUND: no device 4 here"):
        other.read("table_entry {}")


@pytest.mark.parametrize("atomicity", [1, 2])
def test_a_batch_of_all_or_none(client: BareClient, dataplane: Dataplane, atomicity: int) -> None:
    counted = SEND.format(a=1).replace("match", "counter_data { packet_count: 9 } match", 1)
    client.write((INSERT, counted), atomicity=atomicity)
    before = client.read(*EVERYTHING, SEND.format(a=1).split("match")[0] + "counter_data {} }")
    with pytest.raises(Refused, match="10 of 10 updates failed") as caught:
        client.write(
            (DELETE, SEND.format(a=1)),
            (INSERT, SEND.format(a=2).replace("match", "metadata: 'x' match", 1)),
            (MODIFY, "table_entry { table_id: @keyless_table is_default_action: true }"),
            (INSERT, GROUP.format(id=5)),
            (MODIFY, "counter_entry { counter_id: @seen data { packet_count: 3 } }"),
            (MODIFY, 'register_entry { register_id: @cells data { bitstring: "\\x09" } }'),
            (INSERT, MEMBER),
            (INSERT, SEND.format(a=2)),
            (INSERT, SEND.format(a=3)),
            (INSERT, SEND.format(a=4)),
            atomicity=atomicity,
        )
    codes = [code for code, _ in caught.value.updates]
    assert codes == ["ABORTED"] * 7 + ["ALREADY_EXISTS"] + ["ABORTED"] * 2
    assert before == client.read(
        *EVERYTHING, SEND.format(a=1).split("match")[0] + "counter_data {} }"
    )
    client.write(
        (DELETE, SEND.format(a=1)),
        (INSERT, SEND.format(a=2)),
        (MODIFY, "counter_entry { counter_id: @seen data { packet_count: 3 } }"),
        atomicity=atomicity,
    )
    dataplane.receive(0, 1, [bytes([2, 0x10, 0x20]) + bytes(57)], 1000)
    assert [departure.port for departure in dataplane.transmit(10**9)] == [5]
    (cell,) = client.read("counter_entry { counter_id: @seen index { index: 2 } }")
    assert cell.counter_entry.data.packet_count == 3
    with pytest.raises(Refused, match="INVALID_ARGUMENT: atomicity 7"):
        client.write((INSERT, SEND.format(a=1)), atomicity=7)


def test_capabilities(connect: Connect) -> None:
    client = connect()
    answer = client.stub.Capabilities(p4runtime_pb2.CapabilitiesRequest())
    assert answer.p4runtime_api_version == "1.4.1"


def test_malformed_messages_are_answered_and_the_server_runs_on(
    server: P4RuntimeServer, client: BareClient
) -> None:
    channel = grpc.insecure_channel(server.address)
    for method in (
        "Write",
        "SetForwardingPipelineConfig",
        "GetForwardingPipelineConfig",
        "Capabilities",
    ):
        call = channel.unary_unary(f"/p4.v1.P4Runtime/{method}")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"\xff\xff\xff", timeout=120)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert "malformed protobuf" in caught.value.details()
    for stream in (
        channel.unary_stream("/p4.v1.P4Runtime/Read")(b"\xff\xff", timeout=120),
        channel.stream_stream("/p4.v1.P4Runtime/StreamChannel")(iter([b"\xff\xff"]), timeout=120),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            list(stream)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/p4.v1.P4Runtime/NoSuchMethod")(b"", timeout=120)
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
    channel.close()
    client.write((INSERT, SEND.format(a=1)))


def test_the_fabric_program_is_taken(connect: Connect, fabric: Files) -> None:
    client = connect()
    client.arbitrate()
    client.push(fabric)
    cells = sum(counter.size for counter in client.info.counters)
    assert cells > 4 * 512
    assert len(client.read("counter_entry {}")) == cells


def test_an_address_that_cannot_be_listened_on_is_an_error(
    dataplane: Dataplane, tmp_path: Path
) -> None:
    control = dataplane.control(0, "leaf0")
    refused = r"leaf0: cannot listen on unix:/nowhere/leaf0\.sock .*no folder '/nowhere'"
    with pytest.raises(MachineError, match=refused):
        serve(control, 1, "unix:/nowhere/leaf0.sock")
    with pytest.raises(InputError, match="at most 107 bytes"):
        serve(control, 1, f"unix:/tmp/{'x' * 200}.sock")
    with pytest.raises(InputError, match="device id -1"):
        serve(control, -1, f"unix:{tmp_path}/leaf0.sock")


def test_a_tcp_port_can_be_left_to_the_kernel(dataplane: Dataplane) -> None:
    running = serve(dataplane.control(0, "leaf0"), 1, "localhost:0")
    client = BareClient(running.address)
    assert client.arbitrate().status.code == code_pb2.OK
    client.close()
    running.stop()


def pem_files(folder: Path) -> tuple[bytes, bytes]:
    """A certificate of localhost that vouches for itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not on PATH")
    command = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-nodes", "-keyout", str(folder / "key"), "-out", str(folder / "cert"), "-days", "2",
        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    return (folder / "cert").read_bytes(), (folder / "key").read_bytes()


def test_clients_are_served_with_tls(dataplane: Dataplane, tmp_path: Path) -> None:
    certificate, key = pem_files(tmp_path)
    control = dataplane.control(0, "leaf0")
    with pytest.raises(MachineError, match="no pair of PEM files"):
        serve(control, 1, "localhost:0", Credentials(b"no certificate", key))
    server = serve(control, 1, "localhost:0", Credentials(certificate, key, certificate, True))
    request = p4runtime_pb2.CapabilitiesRequest()
    newcomer = grpc.ssl_channel_credentials(certificate)
    known = grpc.ssl_channel_credentials(certificate, key, certificate)
    try:
        with grpc.secure_channel(server.address, known) as channel:
            stub = stub_of(channel)
            assert stub.Capabilities(request, timeout=120).p4runtime_api_version
        for channel in (
            grpc.secure_channel(server.address, newcomer), grpc.insecure_channel(server.address)
        ):  # fmt: skip
            with channel, pytest.raises(grpc.RpcError) as refused:
                stub_of(channel).Capabilities(request, timeout=120)
            assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
    finally:
        server.stop()


def test_stop_ends_the_streams(server: P4RuntimeServer, connect: Connect) -> None:
    client = connect()
    client.arbitrate()
    server.stop()
    with pytest.raises(Refused):
        client.receive()
