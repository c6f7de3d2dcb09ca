"""A switch's P4Runtime service within one process: the same handlers as behind gRPC, called
directly with protobuf messages. No socket is opened and no thread is started, so calls made in one
order have one result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, NoReturn, Protocol

import grpc
from google.rpc import code_pb2

from weft.switch.engine.control.entities import TableEntry
from weft.switch.engine.control.state import SwitchControl
from weft.switch.messages import p4runtime_pb2
from weft.switch.p4runtime import arrays, inserts
from weft.switch.p4runtime.arbitration import Client
from weft.switch.p4runtime.call import RpcCall
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.received import RequestBatch
from weft.switch.p4runtime.server import Service, abort_batch, guarded
from weft.switch.p4runtime.streams import ClientOutbox


class LocalError(grpc.RpcError):
    """A call was refused; this has what clients read of gRPC's errors."""

    def __init__(self, code: Any, details: str, metadata: tuple[tuple[str, Any], ...]) -> None:
        super().__init__(f"{code.name}: {details}")
        self._code = code
        self._details = details
        self._metadata = metadata

    def code(self) -> Any:
        """Return the ``grpc.StatusCode``."""
        return self._code

    def details(self) -> str:
        """Return the message of the status."""
        return self._details

    def trailing_metadata(self) -> tuple[tuple[str, Any], ...]:
        """Return pairs of key and value; the errors of single updates are among them."""
        return self._metadata


class _LocalCall:
    """A call within the process, as an `RpcCall`."""

    _code: Any = None
    _metadata: tuple[tuple[str, Any], ...] = ()

    def code(self) -> Any:
        return self._code

    def cancel(self) -> None:
        """Do nothing: the answer of a call within the process is taken at once."""

    def set_trailing_metadata(self, metadata: tuple[tuple[str, Any], ...]) -> None:
        self._metadata = tuple(metadata)

    def abort(self, code: Any, details: str) -> NoReturn:
        self._code = code
        raise LocalError(code, details, self._metadata)


class Decoder(Protocol):
    """What knows what entries are decoded to."""

    def decoded(self, entity: Any, decode: Callable[[Any], TableEntry]) -> TableEntry:
        """Return what ``decode`` makes of the message of an entry."""


@dataclass(frozen=True)
class Inserts:
    """Table entries that are to be inserted."""

    request: Any
    entries: Sequence[Any]
    decoded: Callable[[Any, Callable[[Any], TableEntry]], TableEntry]


class LocalSwitch:
    """The service of one switch; requests and answers are messages of ``p4.v1``.

    ``stub`` has the unary calls and Read, as gRPC's stubs have them; deadlines mean nothing, as
    every call is answered when it returns. They and all methods raise `LocalError` where gRPC would
    end the call with a status that is not OK.
    """

    def __init__(
        self, control: SwitchControl, device_id: int, now_ns: Callable[[], int] = lambda: 0
    ) -> None:
        """``now_ns`` gives the time in which the switch lives, for digests and idle entries."""
        self.name = control.name
        self._now_ns = now_ns
        self._outboxes: dict[Client, ClientOutbox] = {}
        self.device_id = device_id
        self.service = service = Service(Device(control, device_id))

        def write(request: Any, call: RpcCall) -> Any:
            return service.write(RequestBatch(request, request.updates), call)

        def read(request: Any, call: RpcCall) -> list[Any]:
            parts = service.read(RequestBatch(request, request.entities), call)
            return [p4runtime_pb2.ReadResponse.FromString(part) for part in parts]

        self.stub = SimpleNamespace(
            Write=answered(write),
            Read=answered(read),
            SetForwardingPipelineConfig=answered(service.set_config),
            GetForwardingPipelineConfig=answered(service.get_config),
            Capabilities=answered(service.capabilities),
            Call=answered(service.own_call),
        )

    def client(self, device_id: int, election_id: tuple[int, int]) -> "LocalClient":
        """Return a controller's end."""
        return LocalClient(self, device_id, election_id)

    def arbitrate(self, election_id: tuple[int, int]) -> tuple[Client, Any]:
        """Open a stream, take part in the arbitration, and return the client and the answer to
        it."""

        def enter(request: Any, call: RpcCall) -> tuple[Client, Any]:
            client, outbox = self.service.streams.open()
            try:
                self.service.streams.take_one(client, outbox, request)
            except BaseException:
                self.service.streams.close(client)
                raise
            self._outboxes[client] = outbox
            return client, outbox.get()

        request = p4runtime_pb2.StreamMessageRequest()
        request.arbitration.device_id = self.device_id
        request.arbitration.election_id.high, request.arbitration.election_id.low = election_id
        answer: tuple[Client, Any] = answered(enter)(request)
        return answer

    def counted(self, cells: Sequence[tuple[int, int]], call: RpcCall) -> list[tuple[int, int]]:
        """Answer `LocalClient.counted`."""
        device = self.service.device
        with device.lock:
            return arrays.counted(device, cells)

    def insert(self, work: "Inserts", call: RpcCall) -> None:
        """Answer `LocalClient.insert`."""
        device = self.service.device
        with device.lock:
            self.service.streams.check_primary(work.request)
            decode = partial(inserts.decode_entry, device)
            outcomes = inserts.insert(
                device, (partial(work.decoded, one, decode) for one in work.entries)
            )
        if outcomes.failed:
            abort_batch(call, "updates", outcomes)

    def leave(self, client: Client) -> None:
        """End a client's stream."""
        del self._outboxes[client]
        self.service.streams.close(client)

    def take_message(self, client: Client, request: Any) -> None:
        """Take a message of a client's stream."""

        def take(message: Any, call: RpcCall) -> None:
            self.service.streams.take_one(client, self._outboxes[client], message)

        answered(take)(request)

    def take_notices(self, client: Client) -> list[Any]:
        """Return what a client has been told since the last call: digests, packets, idle entries
        and errors."""
        now_ns = self._now_ns()
        self.service.streams.tell_due(now_ns, now_ns)
        return self._outboxes[client].take_all()


class LocalClient:
    """One controller's end of a `LocalSwitch`, with those methods of a client over gRPC that a
    session uses."""

    def __init__(self, switch: LocalSwitch, device_id: int, election_id: tuple[int, int]) -> None:
        self.switch = switch
        self.device_id = device_id
        self.election_id = election_id
        self.stub = switch.stub
        self._client: Client | None = None

    def become_primary(self, *, over: bool = False) -> None:
        """Own the switch; nobody takes it away then. Raises LocalError if another controller owns
        it."""
        if self._client is not None:
            return
        self._client, answer = self.switch.arbitrate(self.election_id)
        if answer.arbitration.status.code != code_pb2.OK:
            self.tear_down()
            raise LocalError(
                grpc.StatusCode.PERMISSION_DENIED, "another controller owns the switch", ()
            )

    @property
    def takes_entries(self) -> bool:
        """Return whether `insert` may be used: no saved program waits for its updates."""
        return self.switch.service.device.staged is None

    def insert(self, request: Any, entries: Sequence[Any], decoder: "Decoder") -> None:
        """Insert table entries as Write does, without a message for each: what entries are decoded
        to is known of other switches. Raises LocalError.

        Args:
            request: a WriteRequest without updates, which says who writes.
            entries: those of the decoder.
        """
        answered(self.switch.insert)(Inserts(request, entries, decoder.decoded))

    def counted(self, cells: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the packets and bytes of cells of indirect counters, each given by the counter's
        id and an index: what Read tells, without messages. Raises LocalError."""
        found: list[tuple[int, int]] = answered(self.switch.counted)(cells)
        return found

    def tell(self, request: Any) -> None:
        """Send a message on the stream."""
        if self._client is not None:
            self.switch.take_message(self._client, request)

    def take_notices(self) -> list[Any]:
        """Return what the switch has told since the last call."""
        return [] if self._client is None else self.switch.take_notices(self._client)

    def tear_down(self) -> None:
        """End the stream."""
        if self._client is not None:
            self.switch.leave(self._client)
            self._client = None


def answered(behaviour: Callable[[Any, RpcCall], Any]) -> Callable[..., Any]:
    """Return a call that returns its answer, or raises the error of its status."""

    def call(request: Any, timeout: float | None = None, wait_for_ready: bool = False) -> Any:
        return guarded(behaviour)(request, _LocalCall())

    return call
