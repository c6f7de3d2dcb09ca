"""P4Runtime's messages: the classes, and the calls of the service, of the package ``p4runtime``.

The code in that package was generated for an old protobuf, and does not import under protobuf 4 or
later. What it was generated from, the serialised descriptors, stands in it; they are read from the
files, none of which is imported, and the classes are made of them in a pool of their own. Each name
here is what the generated module of that name would be, with messages, enums and their values::

    update = p4runtime_pb2.Update(type=p4runtime_pb2.Update.INSERT)
"""

import ast
import json
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from google.protobuf import any_pb2, descriptor_pool
from google.protobuf.message_factory import GetMessageClass as class_of
from google.rpc import status_pb2

from weft.base.errors import MachineError

_SERIALISED = re.compile(
    r"""(?:serialized_pb=|AddSerializedFile\()\s*(b'(?:[^'\\]|\\.)*'|b"(?:[^"\\]|\\.)*")"""
)
"""The descriptor in a module that the compiler of protobuf 3.20, or a later one, generated."""

_POOL = descriptor_pool.DescriptorPool()
for _needed in (any_pb2, status_pb2):
    _POOL.AddSerializedFile(_needed.DESCRIPTOR.serialized_pb)


def _module(proto: str) -> Any:
    """Return the message classes of ``p4/PROTO.proto``; those of the files that it imports come
    first.

    Raises MachineError where the package p4runtime is not installed, or is not as it was.
    """
    try:
        # Found by the package's own record: a folder ``p4`` may also be one of P4 programs.
        file = distribution("p4runtime").locate_file(f"p4/{proto}_pb2.py")
        (literal,) = _SERIALISED.findall(Path(str(file)).read_text())
        described = _POOL.AddSerializedFile(ast.literal_eval(literal))
    except (PackageNotFoundError, OSError, TypeError, ValueError) as error:
        raise MachineError(
            f"the Python package p4runtime does not have p4/{proto}.proto: {error}; "
            "install the packages of Weft anew, in a clone by './weft setup'"
        ) from error
    messages = described.message_types_by_name.items()
    return SimpleNamespace(**{name: class_of(message) for name, message in messages})


p4types_pb2 = _module("config/v1/p4types")
p4info_pb2 = _module("config/v1/p4info")
p4data_pb2 = _module("v1/p4data")
p4runtime_pb2 = _module("v1/p4runtime")

INSERT: int = p4runtime_pb2.Update.INSERT
MODIFY: int = p4runtime_pb2.Update.MODIFY
DELETE: int = p4runtime_pb2.Update.DELETE

_SERVICE = _POOL.FindServiceByName("p4.v1.P4Runtime")
SERVICE = str(_SERVICE.full_name)
OWN_SERVICE = "weft.v1.Switch"
"""The service of what Weft's switch has beside P4Runtime, with one call, ``Call``."""


def stub_of(channel: Any) -> Any:
    """Return the calls of the services on a gRPC channel: ``stub_of(channel).Write(request)``."""
    calls = SimpleNamespace()
    for method in _SERVICE.methods:
        asked = "stream" if method.client_streaming else "unary"
        answered = "stream" if method.server_streaming else "unary"
        call = getattr(channel, f"{asked}_{answered}")(
            f"/{SERVICE}/{method.name}",
            request_serializer=class_of(method.input_type).SerializeToString,
            response_deserializer=class_of(method.output_type).FromString,
        )
        setattr(calls, method.name, call)
    calls.Call = channel.unary_unary(f"/{OWN_SERVICE}/Call")
    return calls


def own_call(stub: Any, name: str, arguments: Mapping[str, Any], timeout_s: float) -> Any:
    """Return what a switch answers to a call of its own service
    (`weft.switch.p4runtime.own_calls`)."""
    request = json.dumps({"call": name, "arguments": dict(arguments)}).encode()
    return json.loads(stub.Call(request, timeout=timeout_s))
