"""Requests as they come: looked over as bytes, as messages take hundreds of times their size.

A request that is too large is refused before anything is made of it. The updates of a Write and
the queries of a Read become messages one by one, when their turn comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass
from typing import Any, Protocol

from weft.switch.messages import p4runtime_pb2
from weft.switch.p4runtime.refusals import Refusal, exhausted, invalid
from weft.switch.p4runtime.wire import fields

MAX_REQUEST_BYTES = 64 << 20
"""Greatest request: a program may be large."""

MOST_ELEMENTS = 1 << 17
"""Updates of one Write, queries of one Read: what fills two large tables. Each takes some 0.15 ms,
mostly to become a message."""

MOST_MESSAGE_BYTES = 1 << 20
"""One update, one query, one message of a stream, or anything else but a pipeline config."""

MOST_P4INFO_BYTES = 4 << 20
"""A pipeline config without its ``p4_device_config``. The P4Info of `fabric.p4` has 10,000."""

Parser = Callable[[bytes], Any]


class Elements(Sized, Protocol):
    """Messages of one kind; what is no message of that kind comes as `Malformed`."""

    def __iter__(self) -> Iterator[Any]: ...


@dataclass(frozen=True)
class Batch:
    """A Write or Read: the request without its updates or queries, and those."""

    head: Any
    elements: Elements


class Malformed:
    """Stands for a message that is no protobuf of the expected kind, or is too large."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def refusal(self) -> Refusal:
        """What the sender is told."""
        if isinstance(self.error, Refusal):
            return self.error
        return invalid(f"malformed protobuf: {type(self.error).__name__} {self.error}".rstrip())


def parser(kind: Any, most_bytes: int = MOST_MESSAGE_BYTES) -> Parser:
    """Makes messages of a kind."""

    def parse(data: bytes) -> Any:
        _check("this request", len(data), most_bytes)
        return kind.FromString(data)

    return _never_raising(parse)


def batch_parser(kind: Any, field: str) -> Parser:
    """Makes a `Batch` of a request whose ``field`` repeats."""
    descriptor = kind.DESCRIPTOR.fields_by_name[field]
    element: Any = getattr(p4runtime_pb2, descriptor.message_type.name)

    def parse(data: bytes) -> Batch:
        head = []
        count = after = 0
        for number, _, start, end in fields(data):
            begin, after = after, end
            if number != descriptor.number:
                head.append(data[begin:end])
                continue
            count += 1
            _check(f"{field}[{count - 1}] of this request", end - start, MOST_MESSAGE_BYTES)
            if count > MOST_ELEMENTS:
                raise exhausted(
                    f"this request has more than {MOST_ELEMENTS} {field}, which is the limit; "
                    "send several"
                )
        rest = b"".join(head)
        _check(f"this request without its {field}", len(rest), MOST_MESSAGE_BYTES)
        return Batch(kind.FromString(rest), _Elements(data, descriptor.number, element, count))

    return _never_raising(parse)


def config_parser() -> Parser:
    """Makes messages of requests to set a pipeline config."""
    kind = p4runtime_pb2.SetForwardingPipelineConfigRequest
    config = kind.DESCRIPTOR.fields_by_name["config"]
    device_config = config.message_type.fields_by_name["p4_device_config"].number

    def parse(data: bytes) -> Any:
        size = len(data)
        for number, _, start, end in fields(data):
            if number != config.number:
                continue
            for inner, _, begin, after in fields(data[start:end]):
                if inner == device_config:
                    size -= after - begin
        _check("P4Info, or this request without its p4_device_config,", size, MOST_P4INFO_BYTES)
        return kind.FromString(data)

    return _never_raising(parse)


class _Elements:
    """The messages of a repeated field, made of their bytes when their turn comes."""

    def __init__(self, data: bytes, number: int, kind: Any, count: int) -> None:
        self._data = data
        self._number = number
        self._kind = kind
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        parse = _never_raising(self._kind.FromString)
        for number, _, start, end in fields(self._data):
            if number == self._number:
                yield parse(self._data[start:end])


def _check(what: str, size: int, most: int) -> None:
    if size > most:
        raise exhausted(f"{what} has {size} bytes; {most} is the limit")


def _never_raising(parse: Parser) -> Parser:
    """A parser that gives `Malformed`: gRPC would log a traceback for what a client did wrong."""

    def answer(data: bytes) -> Any:
        try:
            return parse(data)
        except Exception as error:
            return Malformed(error)

    return answer
