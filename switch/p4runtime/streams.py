"""The stream of one client: arbitration in both directions, notices from other threads."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from switch.p4runtime.arbitration import Arbitration, Client, Notice
from switch.p4runtime.device import Device
from switch.p4runtime.refusals import Refusal, invalid

MAX_STREAMS = 16
"""Open streams of one switch."""

MAX_WAITING = 1024
"""Messages that wait for a client that does not read, before its stream is ended."""


class Malformed:
    """Stands for a message that is no protobuf of the expected kind."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def refusal(self) -> Refusal:
        """What the sender is told."""
        return invalid(f"malformed protobuf: {type(self.error).__name__} {self.error}".rstrip())


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
        self._outboxes: dict[Client, queue.SimpleQueue[Any]] = {}

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

    def open(self) -> tuple[Client, queue.SimpleQueue[Any]]:
        """Begin a stream: who it is, and what it will be told. Raises the Refusal of one more."""
        client = Client()
        outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        with self._lock:
            if len(self._outboxes) >= MAX_STREAMS:
                raise Refusal(
                    code_pb2.RESOURCE_EXHAUSTED,
                    f"{self._device.control.name}: {MAX_STREAMS} streams are open already",
                )
            self._outboxes[client] = outbox
        return client, outbox

    def close(self, client: Client) -> None:
        """End a stream: its client takes part in the arbitration no more."""
        with self._in_order:
            with self._lock:
                del self._outboxes[client]
                notices = self._arbitration.leave(client)
            self._tell(notices)

    def _take(
        self, client: Client, outbox: queue.SimpleQueue[Any], requests: Iterator[Any]
    ) -> None:
        end = _End()
        try:
            for request in requests:
                self.take_one(client, outbox, request)
        except Refusal as refusal:
            end = _End(refusal)
        except Exception:  # gRPC's way to say that the stream is gone
            pass
        outbox.put(end)

    def take_one(self, client: Client, outbox: queue.SimpleQueue[Any], request: Any) -> None:
        """Take one message of a stream; answers go to outboxes. Raises the Refusal that ends it."""
        if isinstance(request, Malformed):
            raise request.refusal()
        kind = request.WhichOneof("update")
        if outbox.qsize() > MAX_WAITING:
            raise Refusal(code_pb2.RESOURCE_EXHAUSTED, "the client does not read its stream")
        if kind == "arbitration":
            self._arbitrate(client, request.arbitration)
            return
        response = p4runtime_pb2.StreamMessageResponse()
        response.error.canonical_code = code_pb2.UNIMPLEMENTED
        response.error.message = f"{kind or 'an empty message'}: not supported by this switch"
        if kind == "packet":
            response.error.packet_out.SetInParent()
        elif kind == "digest_ack":
            response.error.digest_list_ack.SetInParent()
        else:
            response.error.other.SetInParent()
        outbox.put(response)

    def _arbitrate(self, client: Client, message: Any) -> None:
        with self._in_order:
            with self._lock:
                if client not in self._outboxes:
                    return
                notices = self._arbitration.update(client, message)
            self._tell([notice for notice in notices if not notice.primary])
            primary = [notice for notice in notices if notice.primary]
            if primary:
                with self._device.lock:
                    pass  # writes that the former primary had begun are through
                self._tell(primary)

    def _tell(self, notices: list[Notice]) -> None:
        with self._lock:
            for notice in notices:
                outbox = self._outboxes.get(notice.client)
                if outbox is not None:
                    outbox.put(notice.message)
