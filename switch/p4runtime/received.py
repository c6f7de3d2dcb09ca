"""Reads requests as they arrive. They are looked over as bytes, as messages made of them take
hundreds of times their size.

A request that is too large is refused before anything is made of it. The updates of a Write and
the queries of a Read become messages one by one, when their turn comes.

The program in a pipeline config's ``p4_device_config`` is looked over as bytes, too; its form is
the target's (specification, section "ForwardingPipelineConfig"). BMv2 takes its JSON as it is, and
its JSON in a ``p4.tmp.P4DeviceConfig`` (p4lang/PI, proto/p4/tmp/p4config.proto), which older
controllers send, those of p4lang's tutorials among them.
"""

from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass
from typing import Any, Protocol

from weft.base.errors import refuse
from weft.switch.messages import p4runtime_pb2
from weft.switch.p4runtime.refusals import Refusal, exhausted, invalid

VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {FIXED64: 8, FIXED32: 4}
_FORMS = {1: VARINT, 2: DELIMITED, 3: DELIMITED}  # reassign, extras, device_data
_DEVICE_DATA = 3
_MOST_FIELDS = 64
"""The most fields of a ``P4DeviceConfig``, which has three: bytes with more are something else."""
MAX_REQUEST_BYTES = 64 << 20
"""The size of the greatest request: a program may be large."""
MOST_ELEMENTS = 1 << 17
"""The most updates of one Write, or queries of one Read: these fill two large tables. Each takes
some 0.15 ms, mostly to become a message."""
MOST_MESSAGE_BYTES = 1 << 20
"""The most bytes of one update, query or message of a stream, or of anything else but a pipeline
config."""
MOST_P4INFO_BYTES = 4 << 20
"""The most bytes of a pipeline config without its ``p4_device_config``. The P4Info of `fabric.p4`
has 10,000."""


def fields(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield the number of each field of a message, its wire type, and where its content begins and
    ends.

    What is nested in a field is not looked at. Raises ValueError where the bytes are no message, or
    have groups, which only old messages have.
    """
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        number, form = key >> 3, key & 7
        if form == DELIMITED:
            size, at = _varint(data, at)
        elif form == VARINT:
            size = _varint(data, at)[1] - at
        else:
            size = _FIXED_BYTES.get(form, -1)
        if not number or size < 0 or at + size > end:
            raise ValueError(f"no field of a message at byte {at}")
        yield number, form, at, at + size
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number in protobuf's variable length, and the place after it."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError(f"a number that does not end before byte {at}")


def bmv2_json(device_config: bytes) -> bytes:
    """Return the BMv2 JSON in a device config, which is the config itself unless that is a
    ``P4DeviceConfig``."""
    found = b""
    try:
        for count, (number, form, start, end) in enumerate(fields(device_config)):
            if _FORMS.get(number) != form or count == _MOST_FIELDS:
                return device_config
            if number == _DEVICE_DATA:
                found = device_config[start:end]
    except ValueError:
        return device_config
    return found


MessageParser = Callable[[bytes], Any]


class Elements(Sized, Protocol):
    """Messages of one kind; `Malformed` stands for each that is no message of that kind."""

    def __iter__(self) -> Iterator[Any]: ...


@dataclass(frozen=True)
class RequestBatch:
    """A batch is a Write or Read: ``head`` is the request without its elements, which are updates
    or queries."""

    head: Any
    elements: Elements


@dataclass(frozen=True)
class Malformed:
    """A stand-in for a message that is no protobuf of the expected kind, or is too large."""

    error: Exception

    def refusal(self) -> Refusal:
        """Return what the sender is told."""
        if isinstance(self.error, Refusal):
            return self.error
        return invalid(f"malformed protobuf: {type(self.error).__name__} {self.error}".rstrip())


def parser(kind: Any, most_bytes: int = MOST_MESSAGE_BYTES) -> MessageParser:
    """Return a parser of one kind of messages."""

    def parse(data: bytes) -> Any:
        _check("this request", len(data), most_bytes)
        return kind.FromString(data)

    return _never_raising(parse)


def batch_parser(kind: Any, field: str) -> MessageParser:
    """Return a parser that makes a `RequestBatch` of a request whose ``field`` repeats."""
    descriptor = kind.DESCRIPTOR.fields_by_name[field]
    element: Any = getattr(p4runtime_pb2, descriptor.message_type.name)

    def parse(data: bytes) -> RequestBatch:
        head = []
        count = after = 0
        for number, _, start, end in fields(data):
            begin, after = after, end
            if number != descriptor.number:
                head.append(data[begin:end])
            else:
                count += 1
                _check(f"{field}[{count - 1}] of this request", end - start, MOST_MESSAGE_BYTES)
                refuse(
                    count > MOST_ELEMENTS,
                    f"this request has more than {MOST_ELEMENTS} {field}, which is the limit; "
                    "send several",
                    exhausted,
                )
        rest = b"".join(head)
        _check(f"this request without its {field}", len(rest), MOST_MESSAGE_BYTES)
        return RequestBatch(
            kind.FromString(rest), _RepeatedField(data, descriptor.number, element, count)
        )

    return _never_raising(parse)


def config_parser() -> MessageParser:
    """Return a parser of requests to set a pipeline config."""
    kind = p4runtime_pb2.SetForwardingPipelineConfigRequest
    config = kind.DESCRIPTOR.fields_by_name["config"]
    device_config = config.message_type.fields_by_name["p4_device_config"].number

    def parse(data: bytes) -> Any:
        program_bytes = sum(
            after - begin
            for number, _, start, end in fields(data)
            if number == config.number
            for inner, _, begin, after in fields(data[start:end])
            if inner == device_config
        )
        what = "P4Info, or this request without its p4_device_config,"
        _check(what, len(data) - program_bytes, MOST_P4INFO_BYTES)
        return kind.FromString(data)

    return _never_raising(parse)


@dataclass(frozen=True)
class _RepeatedField:
    """These are the messages of a repeated field; each is made of its bytes when its turn comes."""

    data: bytes
    number: int
    kind: Any
    count: int

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Any]:
        parse = _never_raising(self.kind.FromString)
        for number, _, start, end in fields(self.data):
            if number == self.number:
                yield parse(self.data[start:end])


def _check(what: str, size: int, most: int) -> None:
    refuse(size > most, f"{what} has {size} bytes; {most} is the limit", exhausted)


def _never_raising(parse: MessageParser) -> MessageParser:
    """Return a parser that returns `Malformed` where another raises an error.

    gRPC would log a traceback for what a client did wrong.
    """

    def answer(data: bytes) -> Any:
        try:
            return parse(data)
        except Exception as error:
            return Malformed(error)

    return answer
