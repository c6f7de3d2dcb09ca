"""What a P4Runtime server says of itself: server reflection, by which clients such as grpcurl learn
its services and messages, and whether it serves.

Both are gRPC's own services (``grpc.reflection.v1`` and its older name ``v1alpha``,
``grpc.health.v1``). Of the latter there is ``Check`` alone: a client that would ``Watch`` takes
UNIMPLEMENTED for healthy, as that service's definition says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc
from google.protobuf import descriptor_pool, text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message_factory import GetMessageClass

from weft.switch.messages import SERVICE, p4runtime_pb2
from weft.switch.p4runtime.received import Malformed, MessageParser, parser
from weft.switch.p4runtime.refusals import not_found

HEALTH = "grpc.health.v1.Health"
REFLECTIONS = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
MOST_QUESTION_BYTES = 1 << 12
"""The most bytes of a question, which is a name."""


def _field(name: str, number: int, type_: str, more: str = "") -> str:
    label = "" if "label" in more else "label: LABEL_OPTIONAL "
    kind = f'type: TYPE_MESSAGE type_name: "{type_}"' if "." in type_ else f"type: TYPE_{type_}"
    return f'field {{ name: "{name}" number: {number} {label}{kind} {more} }}\n'


def _reflection_file(package: str) -> str:
    """Return the definition of the service of server reflection, of one of its two names."""
    many, one = "label: LABEL_REPEATED", "oneof_index: 0"
    here = f".{package}"
    asks = [("file_by_filename", 3), ("file_containing_symbol", 4), ("list_services", 7),
            ("all_extension_numbers_of_type", 6)]  # fmt: skip
    messages = {
        "ServerReflectionRequest": _field("host", 1, "STRING")
        + "".join(_field(name, number, "STRING", one) for name, number in asks)
        + _field("file_containing_extension", 5, f"{here}.ExtensionRequest", one)
        + 'oneof_decl { name: "message_request" }',
        "ExtensionRequest": _field("containing_type", 1, "STRING")
        + _field("extension_number", 2, "INT32"),
        "ServerReflectionResponse": _field("valid_host", 1, "STRING")
        + _field("original_request", 2, f"{here}.ServerReflectionRequest")
        + _field("file_descriptor_response", 4, f"{here}.FileDescriptorResponse", one)
        + _field("all_extension_numbers_response", 5, f"{here}.ExtensionNumberResponse", one)
        + _field("list_services_response", 6, f"{here}.ListServiceResponse", one)
        + _field("error_response", 7, f"{here}.ErrorResponse", one)
        + 'oneof_decl { name: "message_response" }',
        "FileDescriptorResponse": _field("file_descriptor_proto", 1, "BYTES", many),
        "ExtensionNumberResponse": _field("base_type_name", 1, "STRING")
        + _field("extension_number", 2, "INT32", many),
        "ListServiceResponse": _field("service", 1, f"{here}.ServiceResponse", many),
        "ServiceResponse": _field("name", 1, "STRING"),
        "ErrorResponse": _field("error_code", 1, "INT32") + _field("error_message", 2, "STRING"),
    }
    return _file(package, "reflection", messages, "ServerReflection", (
        f'method {{ name: "ServerReflectionInfo" input_type: "{here}.ServerReflectionRequest" '
        f'output_type: "{here}.ServerReflectionResponse" '
        "client_streaming: true server_streaming: true }"
    ))  # fmt: skip


def _health_file() -> str:
    here = ".grpc.health.v1"
    messages = {
        "HealthCheckRequest": _field("service", 1, "STRING"),
        "HealthCheckResponse": 'field { name: "status" number: 1 label: LABEL_OPTIONAL '
        f'type: TYPE_ENUM type_name: "{here}.HealthCheckResponse.ServingStatus" }}\n'
        'enum_type { name: "ServingStatus" value { name: "UNKNOWN" number: 0 } '
        'value { name: "SERVING" number: 1 } value { name: "NOT_SERVING" number: 2 } '
        'value { name: "SERVICE_UNKNOWN" number: 3 } }',
    }
    method = (
        f'method {{ name: "Check" input_type: "{here}.HealthCheckRequest" '
        f'output_type: "{here}.HealthCheckResponse" }}'
    )
    return _file("grpc.health.v1", "health", messages, "Health", method)


def _file(package: str, file: str, messages: dict[str, str], service: str, method: str) -> str:
    parts = [f'message_type {{ name: "{name}"\n{text} }}' for name, text in messages.items()]
    place = f"{package.replace('.', '/')}/{file}.proto"
    head = f'name: "{place}" package: "{package}" syntax: "proto3"'
    return "\n".join([head, *parts, f'service {{ name: "{service}" {method} }}'])


_P4 = p4runtime_pb2.WriteRequest.DESCRIPTOR.file.pool
_OWN = descriptor_pool.DescriptorPool()
for _text in (*(_reflection_file(name.rpartition(".")[0]) for name in REFLECTIONS), _health_file()):
    _OWN.Add(text_format.Parse(_text, FileDescriptorProto()))

Question = GetMessageClass(_OWN.FindMessageTypeByName("grpc.reflection.v1.ServerReflectionRequest"))
Answer = GetMessageClass(_OWN.FindMessageTypeByName("grpc.reflection.v1.ServerReflectionResponse"))
_Check = GetMessageClass(_OWN.FindMessageTypeByName("grpc.health.v1.HealthCheckRequest"))
_Health = GetMessageClass(_OWN.FindMessageTypeByName("grpc.health.v1.HealthCheckResponse"))


def check_health(request: Any, context: object) -> Any:
    """Answer the RPC ``Check``: that the server serves, or NOT_FOUND for a service that it does not
    have."""
    if request.service not in ("", SERVICE):
        raise not_found(f"there is no service {request.service!r}; there is {SERVICE}")
    return _Health(status=1)


def answers(requests: Iterator[Any]) -> Iterator[Any]:
    """Yield the answer to each question of server reflection."""
    for request in requests:
        if isinstance(request, Malformed):
            raise request.refusal()
        yield _answer(request)


def _answer(request: Any) -> Any:
    answer = Answer(valid_host=request.host, original_request=request)
    kind = request.WhichOneof("message_request")
    try:
        if kind == "list_services":
            for name in (SERVICE, *REFLECTIONS, HEALTH):
                answer.list_services_response.service.add(name=name)
        elif kind in ("file_by_filename", "file_containing_symbol"):
            files = answer.file_descriptor_response.file_descriptor_proto
            files.extend(_with_imports(_found(kind, getattr(request, kind))))
        elif kind == "all_extension_numbers_of_type":
            answer.all_extension_numbers_response.base_type_name = _found(
                "message_type", request.all_extension_numbers_of_type
            ).full_name
        else:  # no message of P4Runtime can be extended
            raise KeyError("there are no extensions")
    except KeyError as error:
        answer.error_response.error_code = grpc.StatusCode.NOT_FOUND.value[0]
        answer.error_response.error_message = str(error.args[0])
    return answer


def _found(kind: str, name: str) -> Any:
    """Return what is asked for by a name. Raises KeyError if it is in neither pool."""
    look_up = {
        "file_by_filename": "FindFileByName",
        "file_containing_symbol": "FindFileContainingSymbol",
        "message_type": "FindMessageTypeByName",
    }[kind]
    for pool in (_P4, _OWN):
        try:
            return getattr(pool, look_up)(name)
        except KeyError:
            continue
    raise KeyError(f"{name!r} is not known here")


def _with_imports(file: Any) -> list[bytes]:
    """Return a file, serialised, and behind it those that it imports, each before its own."""
    found: dict[str, bytes] = {}

    def add(one: Any) -> None:
        if one.name not in found:
            for each in one.dependencies:
                add(each)
            found[one.name] = one.serialized_pb

    add(file)
    return [*reversed(found.values())]


def handlers(
    unary: Callable[[Callable[[Any, Any], Any], MessageParser], Any],
    stream: Callable[[Callable[[Iterator[Any]], Iterator[Any]], MessageParser], Any],
) -> list[Any]:
    """Return both services in the form in which gRPC takes them.

    Args:
        unary: makes a handler of a function of one request, and its parser.
        stream: makes one of a function of a stream of requests, and their parser.
    """
    info = {"ServerReflectionInfo": stream(answers, parser(Question, MOST_QUESTION_BYTES))}
    services = dict.fromkeys(REFLECTIONS, info)
    services[HEALTH] = {"Check": unary(check_health, parser(_Check, MOST_QUESTION_BYTES))}
    return [grpc.method_handlers_generic_handler(*each) for each in services.items()]
