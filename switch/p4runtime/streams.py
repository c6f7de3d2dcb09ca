"""The stream of one client: arbitration and packets in both directions, notices of the switch."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from weft.switch.messages import p4runtime_pb2
from weft.switch.p4runtime import notifications
from weft.switch.p4runtime.arbitration import Arbitration, Client, Notice
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.digest_entries import acknowledge
from weft.switch.p4runtime.notifications import Message
from weft.switch.p4runtime.outboxes import Outbox
from weft.switch.p4runtime.packets import pack
from weft.switch.p4runtime.received import Malformed
from weft.switch.p4runtime.refusals import (
    MOST_MESSAGE,
    Refusal,
    as_refusal,
    denied,
    exhausted,
    fitting,
    unimplemented,
)
from weft.switch.p4runtime.roles import Scope

MAX_STREAMS = 16
"""Open streams of one switch."""

MOST_ECHO_BYTES = 4096
"""A faulty packet that is larger is not sent back with the error."""


@dataclass(frozen=True)
class _End:
    refusal: Refusal | None = None


class Streams:
    """All open streams of a switch."""

    def __init__(self, device: Device, arbitration: Arbitration) -> None:
        self._device = device
        self._arbitration = arbitration
        self._lock = threading.Lock()
        """Held for a moment, around ``_arbitration`` and ``_outboxes``."""
        self._in_order = threading.Lock()
        """Held by one change of the arbitration at a time, until all clients are told."""
        self._outboxes: dict[Client, Outbox] = {}

    def check_primary(self, request: Any) -> None:
        """Raise Refusal unless a request comes from the primary of its role."""
        with self._lock:
            self._arbitration.check_primary(request)

    def serve(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        """Answer one client until its stream ends. Raises the Refusal that ends it."""
        client, outbox = self.open()
        try:
            if not context.add_callback(lambda: outbox.put(_End())):
                return
            threading.Thread(
                target=self._take, args=(client, outbox, requests), daemon=True
            ).start()
            while True:
                message = outbox.get()
                if not isinstance(message, _End):
                    yield message
                elif message.refusal is not None:
                    raise message.refusal
                else:
                    return
        finally:
            self.close(client)

    def open(self) -> tuple[Client, Outbox]:
        """Begin a stream: who it is, and what it will be told. Raises the Refusal of one more."""
        client = Client()
        outbox = Outbox()
        with self._lock:
            if len(self._outboxes) >= MAX_STREAMS:
                raise exhausted(
                    f"{self._device.switch.name}: {MAX_STREAMS} streams are open already"
                )
            self._outboxes[client] = outbox
        return client, outbox

    def outbox(self, client: Client) -> Outbox:
        """What an open stream is told."""
        return self._outboxes[client]

    def close(self, client: Client) -> None:
        """End a stream: its client takes part in the arbitration no more."""
        with self._in_order:
            with self._lock:
                del self._outboxes[client]
                notices = self._arbitration.leave(client)
            self._tell(notices)

    def tell_due(self, now_ns: int, epoch_ns: int) -> int | None:
        """Tell the primaries of the switch's packets, digests and idle entries at ``now_ns``, which
        since 1970 is ``epoch_ns``; the time at which more is due, if known."""
        with self._device.lock:
            messages = notifications.collect(self._device, now_ns, epoch_ns)
            due_ns = notifications.deadline(self._device)
        self.tell_primaries(messages)
        return due_ns

    def tell_primaries(self, messages: Iterable[Message]) -> None:
        """Give messages to the primaries of their roles; a client that does not read loses them."""
        with self._lock:
            primaries = self._arbitration.primaries()
            for message, client in product(messages, primaries):
                outbox = self._outboxes.get(client)
                owns = Scope(str(client.role)).owns(message.role)
                if owns and outbox is not None and not outbox.full:
                    outbox.put(message.response)

    def _take(self, client: Client, outbox: Outbox, requests: Iterator[Any]) -> None:
        end = _End()
        try:
            for request in requests:
                self.take_one(client, outbox, request)
        except Refusal as refusal:
            end = _End(refusal)
        except Exception:  # gRPC's way to say that the stream is gone
            pass
        outbox.put(end)

    def take_one(self, client: Client, outbox: Outbox, request: Any) -> None:
        """Take one message of a stream; answers go to outboxes. Raises the Refusal that ends it."""
        if isinstance(request, Malformed):
            raise request.refusal()
        if outbox.full:
            raise exhausted("the client does not read its stream")
        kind = request.WhichOneof("update")
        if kind == "arbitration":
            self._arbitrate(client, request.arbitration)
            return
        try:
            self._take_message(client, kind, request)
        except Exception as error:
            outbox.put(_stream_error(kind, request, as_refusal(error)))

    def _take_message(self, client: Client, kind: str | None, request: Any) -> None:
        """Take what is no arbitration update; raises what is to be told as a ``StreamError``."""
        if kind not in ("packet", "digest_ack"):
            raise unimplemented(f"{kind or 'an empty message'}: not supported by this switch")
        with self._lock:
            primary = self._arbitration.is_primary(client)
        if not primary:
            raise denied("only the primary may send this; send a MasterArbitrationUpdate first")
        with self._device.lock:
            if kind == "digest_ack":
                acknowledge(self._device, request.digest_ack)
                return
            header = self._device.running_info.packet_headers.get("packet_out")
            frame = pack(header, request.packet)
            self._device.switch.packet_out(frame)

    def _arbitrate(self, client: Client, message: Any) -> None:
        with self._in_order:
            with self._lock:
                if client not in self._outboxes:
                    return
                before = self._arbitration.primaries()
                notices = self._arbitration.update(client, message)
                changed = self._arbitration.primaries() != before
            self._tell([notice for notice in notices if not notice.primary])
            primary = [notice for notice in notices if notice.primary]
            if primary:
                with self._device.lock:  # writes that the former primary had begun are through
                    if changed:
                        self._device.running_notes.digests.forget()
                self._tell(primary)

    def _tell(self, notices: list[Notice]) -> None:
        with self._lock:
            for notice in notices:
                outbox = self._outboxes.get(notice.client)
                if outbox is not None:
                    outbox.put_latest(notice.message)


_ERRORS = {"packet": ("packet_out", "packet_out"), "digest_ack": ("digest_list_ack",) * 2}
"""By kind of message: the field of a ``StreamError``, and in it the one that has the message."""


def _stream_error(kind: str | None, request: Any, refusal: Refusal) -> Any:
    error = p4runtime_pb2.StreamError(
        canonical_code=refusal.code, message=fitting(refusal.message, MOST_MESSAGE)
    )
    about, field = _ERRORS.get(kind or "", ("other", "other"))
    getattr(error, about).SetInParent()
    if kind is not None and getattr(request, kind).ByteSize() <= MOST_ECHO_BYTES:
        getattr(getattr(error, about), field).CopyFrom(getattr(request, kind))
    return p4runtime_pb2.StreamMessageResponse(error=error)
