"""The streams of clients: arbitration and packets in both directions, and notices of the switch."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

from weft.base.errors import refuse
from weft.switch.messages import p4runtime_pb2
from weft.switch.p4runtime import notifications
from weft.switch.p4runtime.arbitration import Arbitration, Client, Notice, RoleScope
from weft.switch.p4runtime.call import StreamCall
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.notifications import RoleMessage, acknowledge, pack
from weft.switch.p4runtime.p4info_objects import NO_HEADER
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

MAX_STREAMS = 16
"""The most streams of one switch that are open at the same time."""

MAX_WAITING = 1024
"""The most messages that wait for a client that does not read."""

MAX_WAITING_BYTES = 32 << 20
"""The most bytes that these messages take together: a list of digests may be large."""

MOST_ECHO_BYTES = 4096
"""A faulty packet that is larger than this is not sent back with the error."""


class ClientOutbox:
    """An outbox has the messages that wait to be sent, in order, to one client, which may read
    slowly or never.

    None among them ends the stream, and a `Refusal` ends it with that status. An outbox is
    thread-safe, and bounded as long as everybody looks at ``full`` before adding a message.
    """

    def __init__(self) -> None:
        self._waiting: deque[Any] = deque()
        self._bytes = 0
        self._change = threading.Condition()

    @property
    def full(self) -> bool:
        """Return whether so much waits that nothing should be added."""
        return len(self._waiting) > MAX_WAITING or self._bytes > MAX_WAITING_BYTES

    def put(self, message: Any) -> None:
        """Add a message, or what ends the stream."""
        with self._change:
            self._waiting.append(message)
            self._bytes += _size(message)
            self._change.notify()

    def put_latest(self, message: Any) -> None:
        """Add an arbitration update. If too much waits, the older updates are dropped, as each one
        tells all that there is to know."""
        with self._change:
            if self.full:
                kept = [one for one in self._waiting if not _arbitrates(one)]
                self._bytes = sum(map(_size, kept))
                self._waiting = deque(kept)
        self.put(message)

    def get(self) -> Any:
        """Take the next message, and wait for it if there is none."""
        with self._change:
            self._change.wait_for(lambda: self._waiting)
            message = self._waiting.popleft()
            self._bytes -= _size(message)
            return message

    def take_all(self) -> list[Any]:
        """Take all messages that wait now."""
        with self._change:
            taken = list(self._waiting)
            self._waiting.clear()
            self._bytes = 0
            return taken


def _size(message: Any) -> int:
    return int(message.ByteSize()) if hasattr(message, "ByteSize") else 0


def _arbitrates(message: Any) -> bool:
    return hasattr(message, "WhichOneof") and message.WhichOneof("update") == "arbitration"


class Streams:
    """All open streams of a switch."""

    def __init__(self, device: Device, arbitration: Arbitration) -> None:
        self._device = device
        self._arbitration = arbitration
        self._lock = threading.Lock()
        """Held for moments, while ``_arbitration`` and ``_outboxes`` are used."""
        self._in_order = threading.Lock()
        """Held by one change of the arbitration at a time, until all clients have been told of
        it."""
        self._outboxes: dict[Client, ClientOutbox] = {}

    def check_primary(self, request: Any) -> None:
        """Raise Refusal unless a request comes from the primary of its role."""
        with self._lock:
            self._arbitration.check_primary(request)

    def serve(self, requests: Iterator[Any], context: StreamCall) -> Iterator[Any]:
        """Answer one client of the RPC ``StreamChannel`` until its stream ends (specification,
        section "P4Runtime Stream Messages"). Raises the Refusal that ends the stream."""
        client, outbox = self.open()
        try:
            if not context.add_callback(lambda: outbox.put(None)):
                return
            threading.Thread(
                target=self._take, args=(client, outbox, requests), daemon=True
            ).start()
            while (message := outbox.get()) is not None:
                if isinstance(message, Refusal):
                    raise message
                yield message
        finally:
            self.close(client)

    def open(self) -> tuple[Client, ClientOutbox]:
        """Begin a stream, and return its client and what waits for that client.

        Raises Refusal if there are too many streams.
        """
        client = Client()
        outbox = ClientOutbox()
        with self._lock:
            refuse(
                len(self._outboxes) >= MAX_STREAMS,
                f"{self._device.switch.name}: {MAX_STREAMS} streams are open already",
                exhausted,
            )
            self._outboxes[client] = outbox
        return client, outbox

    def close(self, client: Client) -> None:
        """End a stream; its client takes part in the arbitration no more."""
        with self._in_order:
            with self._lock:
                del self._outboxes[client]
                notices = self._arbitration.leave(client)
            self._tell(notices)

    def tell_due(self, now_ns: int, epoch_ns: int) -> int | None:
        """Tell the primaries of the switch's packets, digests and idle entries.

        ``now_ns`` is the time of any clock, ``epoch_ns`` the time since 1970. Returns the time at
        which more will be due, in the clock of ``now_ns``, or None if that is not known.
        """
        with self._device.lock:
            messages = notifications.collect(self._device, now_ns, epoch_ns)
            due_ns = notifications.deadline(self._device)
        self.tell_primaries(messages)
        return due_ns

    def tell_primaries(self, messages: Iterable[RoleMessage]) -> None:
        """Give messages to the primaries of their roles; a client that does not read loses them."""
        with self._lock:
            for message, client in product(messages, self._arbitration.primaries()):
                outbox = self._outboxes.get(client)
                owns = RoleScope(str(client.role)).owns(message.role)
                if owns and outbox is not None and not outbox.full:
                    outbox.put(message.response)

    def _take(self, client: Client, outbox: ClientOutbox, requests: Iterator[Any]) -> None:
        end: Refusal | None = None
        try:
            for request in requests:
                self.take_one(client, outbox, request)
        except Exception as error:  # one that is no Refusal is gRPC's way to say: it is gone
            end = error if isinstance(error, Refusal) else None
        outbox.put(end)

    def take_one(self, client: Client, outbox: ClientOutbox, request: Any) -> None:
        """Take one message of a stream, and put answers into outboxes.

        Raises the Refusal that ends the stream.
        """
        if isinstance(request, Malformed):
            raise request.refusal()
        refuse(outbox.full, "the client does not read its stream", exhausted)
        kind = request.WhichOneof("update")
        if kind == "arbitration":
            self._arbitrate(client, request.arbitration)
        else:
            try:
                self._take_message(client, kind, request)
            except Exception as error:
                outbox.put(_stream_error(kind, request, as_refusal(error)))

    def _take_message(self, client: Client, kind: str | None, request: Any) -> None:
        """Take a message that is no arbitration update. Raises what a ``StreamError`` is to
        tell."""
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
            header = self._device.running_info.packet_headers.get("packet_out", NO_HEADER)
            self._device.switch.packet_out(pack(header, request.packet))

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
                with self._device.lock:  # so writes that the former primary had begun are done
                    if changed:
                        self._device.running_notes.digests.forget()
                self._tell(primary)

    def _tell(self, notices: list[Notice]) -> None:
        with self._lock:
            for notice in notices:
                if (outbox := self._outboxes.get(notice.client)) is not None:
                    outbox.put_latest(notice.message)


_ERRORS = {"packet": ("packet_out", "packet_out"), "digest_ack": ("digest_list_ack",) * 2}
"""For each kind of message, the field of a ``StreamError``, and the field in it for the message."""


def _stream_error(kind: str | None, request: Any, refusal: Refusal) -> Any:
    error = p4runtime_pb2.StreamError(
        canonical_code=refusal.code, message=fitting(refusal.message, MOST_MESSAGE)
    )
    about, field = _ERRORS.get(kind or "", ("other", "other"))
    getattr(error, about).SetInParent()
    if kind is not None and getattr(request, kind).ByteSize() <= MOST_ECHO_BYTES:
        getattr(getattr(error, about), field).CopyFrom(getattr(request, kind))
    return p4runtime_pb2.StreamMessageResponse(error=error)
