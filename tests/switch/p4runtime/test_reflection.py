"""What a P4Runtime server says of itself: server reflection, and its health."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from hypothesis import given
from hypothesis import strategies as st

from weft.switch.p4runtime.reflection import HEALTH, REFLECTIONS, Answer, Question, answers
from weft.switch.p4runtime.server import P4RuntimeServer

pytest_plugins = ["tests.support.p4runtime_fixtures"]


@pytest.fixture
def channel(server: P4RuntimeServer) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.address) as channel:
        yield channel


@pytest.mark.parametrize("service", REFLECTIONS)
def test_a_client_that_knows_nothing_learns_all_services(
    channel: grpc.Channel, service: str
) -> None:
    ask = channel.stream_stream(
        f"/{service}/ServerReflectionInfo", Question.SerializeToString, Answer.FromString
    )
    (listed,) = ask(iter([Question(list_services="")]))
    names = [each.name for each in listed.list_services_response.service]
    assert names == ["p4.v1.P4Runtime", *REFLECTIONS, HEALTH]
    pool = DescriptorPool()
    for answer in ask(Question(file_containing_symbol=name) for name in names):
        files = {}
        for data in answer.file_descriptor_response.file_descriptor_proto:
            one = FileDescriptorProto.FromString(data)
            files[one.name] = one
        for one in reversed(files.values()):  # those that a file imports come behind it
            pool.Add(one)
    methods = pool.FindServiceByName("p4.v1.P4Runtime").methods_by_name
    assert {"Write", "Read", "StreamChannel", "Capabilities"} <= set(methods)
    assert methods["Write"].input_type.fields_by_name["updates"].number == 4
    assert pool.FindServiceByName(service).methods_by_name["ServerReflectionInfo"].client_streaming


def test_what_is_not_known_is_said_and_the_stream_goes_on() -> None:
    asked = [
        Question(file_containing_symbol="no.Such"),
        Question(file_by_filename="p4/v1/p4runtime.proto"),
        Question(all_extension_numbers_of_type="p4.v1.WriteRequest"),
        Question(),
    ]
    unknown, file, extensions, nothing = answers(iter(asked))
    assert unknown.error_response.error_code == nothing.error_response.error_code == 5
    assert unknown.error_response.error_message == "'no.Such' is not known here"
    assert unknown.original_request == asked[0]
    assert len(file.file_descriptor_response.file_descriptor_proto) > 3
    assert extensions.all_extension_numbers_response.base_type_name == "p4.v1.WriteRequest"


@given(st.binary(max_size=40))
def test_any_question_is_answered(data: bytes) -> None:
    try:
        asked = Question.FromString(data)
    except Exception:
        return
    (answer,) = answers(iter([asked]))
    assert answer.WhichOneof("message_response")


def test_a_server_says_that_it_serves(channel: grpc.Channel) -> None:
    check = channel.unary_unary(f"/{HEALTH}/Check")
    assert check(b"") == b"\x08\x01"
    assert check(b"\x0a\x0fp4.v1.P4Runtime") == b"\x08\x01"
    with pytest.raises(grpc.RpcError) as caught:
        check(b"\x0a\x04none")
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND


def test_what_is_no_question_ends_the_stream_with_a_status(channel: grpc.Channel) -> None:
    ask = channel.stream_stream(f"/{REFLECTIONS[0]}/ServerReflectionInfo")
    with pytest.raises(grpc.RpcError) as caught:
        list(ask(iter([b"\xff"])))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
