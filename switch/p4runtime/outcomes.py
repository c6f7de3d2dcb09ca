"""What came of the elements of a batch, and how gRPC carries that to the client.

P4Runtime specification, section "Error Reporting Messages": where elements failed, there is one
status UNKNOWN whose details hold one ``p4.v1.Error`` for each element, in order, OK for those that
succeeded. Details are metadata, of which a client takes 8 KiB unless it was told otherwise. No
server sees how much, and whoever is sent more gets RESOURCE_EXHAUSTED in place of the status. So:

- Where all fits, all is there, as the specification says.
- Where it does not, the last messages are cut. There is an error with its code for each element.
- Where that is too much, the details are those of the first elements. The message of the status
  says how many failed and how many have details, and which is the first error if it has none; the
  last error among the details says how many more failed.
"""

from collections.abc import Iterator
from typing import Any

from google.rpc import code_pb2, status_pb2

from weft.switch.messages import p4runtime_pb2
from weft.switch.p4runtime.refusals import Refusal, fitting

DETAILS_METADATA = "grpc-status-details-bin"
"""The trailing metadata in which gRPC carries a serialised google.rpc.Status."""

DETAILS_BYTES = 5500
"""The most bytes of that Status. In base64 it takes a third more, and beside it come the message
once more and 32 bytes for each field: together less than 8,192 bytes."""

MESSAGE_BYTES = 512
"""The most bytes of the message of that Status."""

_LEAST_TEXT_BYTES = 512
"""The least room for the messages of errors, if each element has an error."""
_NOTE_BYTES = 64
"""The room for the note that says how many more failed."""
_FRAME_BYTES = 8
"""The bytes that a message takes beside its text: its key, and longer lengths around it."""
_DOTS = "..."


class Outcomes:
    """A canonical code for each element of a batch, and the messages of the first errors.

    Iterating yields a `Refusal` for each element that failed, and None for each that succeeded.
    """

    def __init__(self) -> None:
        self._codes = bytearray()
        self._texts: dict[int, str] = {}
        self._room = DETAILS_BYTES
        self._cause: int | None = None
        """The first element that failed by itself, and not because another element failed."""

    def add(self, refusal: Refusal | None, times: int = 1) -> None:
        """Add what came of the next element, or of the next ``times`` elements."""
        first = len(self._codes)
        self._codes += bytes([code_pb2.OK if refusal is None else refusal.code]) * times
        if refusal is None:
            return
        if self._cause is None and refusal.code != code_pb2.ABORTED:
            self._cause = first
            self._keep(first, refusal.message)
        for number in range(first, first + times):
            if self._room <= 0:
                return
            self._keep(number, refusal.message)

    def extend(self, later: "Outcomes") -> None:
        """Add what came of the elements that follow."""
        first = len(self._codes)
        self._codes += later._codes
        if self._cause is None and later._cause is not None:
            self._cause = first + later._cause
            self._keep(self._cause, later._texts[later._cause])
        for number, text in later._texts.items():
            if self._room > 0:
                self._keep(first + number, text)

    def _keep(self, number: int, text: str) -> None:
        if number not in self._texts:
            data = text.encode(errors="replace")[:DETAILS_BYTES]
            self._texts[number] = data.decode(errors="ignore")
            self._room -= len(data) + _FRAME_BYTES

    def __len__(self) -> int:
        return len(self._codes)

    def __iter__(self) -> Iterator[Refusal | None]:
        for number, code in enumerate(self._codes):
            yield Refusal(code, self._texts.get(number, "")) if code else None

    @property
    def failed(self) -> int:
        """Return the number of elements that failed."""
        return len(self) - self._codes.count(code_pb2.OK)

    def status(self, what: str) -> Any:
        """Return the google.rpc.Status of a batch of ``what`` in which something failed."""
        status = status_pb2.Status(
            code=code_pb2.UNKNOWN, message=f"{self.failed} of {len(self)} {what} failed"
        )
        left = DETAILS_BYTES - status.ByteSize() - _FRAME_BYTES
        left -= sum(_bare_bytes(code) * self._codes.count(code) for code in set(self._codes))
        if left < _LEAST_TEXT_BYTES:
            self._add_first(status, what)
            return status
        for number, code in enumerate(self._codes):
            text = _cut(self._texts.get(number, ""), left - _FRAME_BYTES)
            left -= len(text.encode()) + _FRAME_BYTES if text else 0
            status.details.add().Pack(p4runtime_pb2.Error(canonical_code=code, message=text))
        return status

    def _add_first(self, status: Any, what: str) -> None:
        """Add details of as many of the first elements as there is room for, and say what is left
        out."""
        left = DETAILS_BYTES - MESSAGE_BYTES - _NOTE_BYTES
        errors = []
        failed = 0
        for number, code in enumerate(self._codes):
            text = _cut(self._texts.get(number, ""), left - _bare_bytes(code) - _FRAME_BYTES)
            left -= _bare_bytes(code) + len(text.encode()) + _FRAME_BYTES
            if left < 0:
                break
            errors.append(p4runtime_pb2.Error(canonical_code=code, message=text))
            failed += code != code_pb2.OK
        for error in reversed(errors):
            if error.canonical_code != code_pb2.OK:
                error.message += f" (and {self.failed - failed} more {what} failed)"
                break
        for error in errors:
            status.details.add().Pack(error)
        status.message += f"; here are details of the first {len(errors)}"
        if self._cause is not None and self._cause >= len(errors):
            code = code_pb2.Code.Name(self._codes[self._cause])
            text = f"; number {self._cause + 1} is the first: {code}: {self._texts[self._cause]}"
            status.message = fitting(status.message + text, MESSAGE_BYTES)


def _bare_bytes(code: int) -> int:
    """Return how many bytes an element without message takes in a Status."""
    status = status_pb2.Status()
    status.details.add().Pack(p4runtime_pb2.Error(canonical_code=code))
    return int(status.ByteSize())


def _cut(text: str, most_bytes: int) -> str:
    """Return a text cut to so many bytes at most. A text that is cut ends in dots, so that no
    number in it reads as another."""
    data = text.encode()
    if len(data) <= most_bytes:
        return text
    kept = data[: max(most_bytes - len(_DOTS), 0)].decode(errors="ignore")
    return f"{kept}{_DOTS}" if kept else ""
