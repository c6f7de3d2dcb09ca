"""Messages of the debug adapter protocol as bytes: a header with their length, and JSON.

Debug Adapter Protocol 1.x, "Base Protocol".
"""

import json
import re
from typing import Any, BinaryIO

from weft.base.errors import WeftError

Message = dict[str, Any]

MOST_BYTES = 16 << 20
MOST_LINE = 4096

_LENGTH = re.compile(rb"content-length[ \t]*:[ \t]*([0-9]{1,12})[ \t]*", re.IGNORECASE)


class MalformedMessageError(WeftError):
    """What has come is no message, and reading goes on behind it."""


def encoded(message: Message) -> bytes:
    """Return a message as it is sent."""
    body = json.dumps(message, separators=(",", ":")).encode()
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def read_message(stream: BinaryIO) -> Message | None:
    """Return the next message, or None at the end. Raises MalformedMessageError."""
    length = _header(stream)
    if length is None:
        return None
    if length > MOST_BYTES:
        _skip(stream, length)
        raise MalformedMessageError(f"a message of {length} bytes: the most is {MOST_BYTES}")
    body = stream.read(length)
    if len(body) < length:
        return None
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedMessageError(f"a message that is no JSON: {error}") from None
    if not isinstance(message, dict):
        raise MalformedMessageError(f"a message that is no object: {body[:60]!r}")
    return message


def _header(stream: BinaryIO) -> int | None:
    """Return the length that a header tells, or None at the end."""
    length: int | None = None
    first = b""
    while line := stream.readline(MOST_LINE):
        text = line.rstrip(b"\r\n")
        if not text and first:
            break
        first = first or text
        found = _LENGTH.fullmatch(text)
        if found:
            length = int(found[1])
    else:
        return None
    if length is None:
        raise MalformedMessageError(f"a header without Content-Length: {first[:60]!r}")
    return length


def _skip(stream: BinaryIO, length: int) -> None:
    while length and (got := stream.read(min(length, 1 << 16))):
        length -= len(got)
