"""The P4Runtime gRPC service of one switch.

::

    server = serve(control, device_id=1, address="unix:/run/weft/0a1b2c/leaf0.sock")
    ...
    server.stop()

Each switch has a server of its own, and a process may have many: threads are started as clients
come. Whatever a client sends, the answer is a status with a message, and the server runs on.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, NoReturn, cast

import grpc
from google.rpc import code_pb2

from weft.base.errors import InputError, MachineError, refuse
from weft.base.private_files import keep_private
from weft.switch.engine.control.state import SwitchControl
from weft.switch.messages import OWN_SERVICE, p4runtime_pb2
from weft.switch.p4runtime import configs, own_calls, reflection, requests
from weft.switch.p4runtime.addresses import check_address
from weft.switch.p4runtime.arbitration import Arbitration, RoleScope, role_key
from weft.switch.p4runtime.call import RpcCall, StreamCall
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.outcomes import DETAILS_METADATA, Outcomes
from weft.switch.p4runtime.received import (
    MAX_REQUEST_BYTES,
    Malformed,
    MessageParser,
    RequestBatch,
    batch_parser,
    config_parser,
    parser,
)
from weft.switch.p4runtime.refusals import (
    MOST_MESSAGE,
    Refusal,
    as_refusal,
    failed_precondition,
    fitting,
    invalid,
)
from weft.switch.p4runtime.streams import Streams

_log = logging.getLogger(__name__)

SERVICE = "p4.v1.P4Runtime"
MAX_CALLS = 128
"""The most calls at the same time, streams among them. Each call that has begun holds a thread,
even if its client sends no request or reads no answer."""
MOST_WAITING = 64
"""The most of these calls that wait for their clients: with one more, that which has waited longest
is cancelled, so that others find a thread whatever clients do."""
KEEPALIVE_MS = 30_000
"""How often a silent client is asked whether it is there; one that vanished would stay primary."""
LEAST_PING_MS = 5_000
"""The least time between two such questions of a client to the server."""
IDLE_S = 1.0
"""The longest sleep of a server's notifier: a digest that was configured meanwhile may be due
earlier than the notifier knew."""
STALL_S = 60.0
"""How long a client may take to read one message of an answer."""

_BUILDING = threading.Lock()
"""Programs are built one after the other: a request that waits may find its program built."""

_STATUS = {status.value[0]: status for status in grpc.StatusCode}


@dataclass(frozen=True)
class Credentials:
    """A server with TLS shows these to its clients and asks these of them, as PEM texts."""

    certificate: bytes
    key: bytes
    client_ca: bytes | None = None
    """The authority that signs the certificates of clients."""
    client_needed: bool = False
    """Whether a client without a certificate of that authority is turned away."""


class P4RuntimeServer:
    """A server is running: clients reach ``device`` at ``address``.

    Its notifier, a thread, hands the switch's packets, digests and idle entries to the clients. It
    wakes up when the packet loop has events, or when a digest list or an idle entry is due.
    """

    def __init__(self, server: Any, pool: ThreadPoolExecutor, address: str, service: "Service"):
        self.address = address
        self.device = service.device
        self._server = server
        self._pool = pool
        self._streams = service.streams
        self._wake = threading.Event()
        self._stopping = False
        switch = self.device.switch
        self._notifier = threading.Thread(
            target=self._notify, name=f"{switch.name} notifier", daemon=True
        )
        switch.set_listener(self._wake.set)
        self._notifier.start()

    def stop(self, grace_s: float = 0.0) -> None:
        """Take no new calls, and cancel those that are still under way after ``grace_s``."""
        self.stop_calls(grace_s).wait()
        self._pool.shutdown(wait=False)
        self.device.switch.set_listener(None)
        self._stopping = True
        self._wake.set()
        self._notifier.join()

    def stop_calls(self, grace_s: float = 0.0) -> threading.Event:
        """Begin to stop, which takes a moment that several servers can share; the event is set when
        no call is under way any more."""
        return cast(threading.Event, self._server.stop(grace_s))

    def _notify(self) -> None:
        timeout_s: float | None = None
        while True:
            self._wake.wait(timeout_s)
            self._wake.clear()
            if self._stopping:
                return
            try:
                now_ns = time.monotonic_ns()
                due_ns = self._streams.tell_due(now_ns, time.time_ns())
                timeout_s = (
                    None if due_ns is None else min(max((due_ns - now_ns) / 1e9, 0.0), IDLE_S)
                )
            except Exception:
                _log.exception("%s: events could not be told", self.device.switch.name)
                timeout_s = IDLE_S


def serve(
    control: SwitchControl, device_id: int, address: str, credentials: Credentials | None = None
) -> P4RuntimeServer:
    """Serve P4Runtime for one switch on ``address``, in threads of its own.

    ``address`` is ``unix:PATH``, a socket that its owner alone may use, or ``HOST:PORT``. With port
    0 the kernel chooses one, and the returned server's ``address`` has it. ``credentials`` are for
    TLS. Raises InputError for a device id or address that cannot be, MachineError if the address
    cannot be listened on.
    """
    if not 0 <= device_id < 1 << 64:
        raise InputError(f"device id {device_id}: a device id is 0 or more, and below 2^64")
    check_address(control.name, address)
    pool = ThreadPoolExecutor(MAX_CALLS, thread_name_prefix=control.name)
    service = Service(Device(control, device_id))
    server = grpc.server(
        pool,
        handlers=service.handlers(),
        maximum_concurrent_rpcs=MAX_CALLS,
        options=(
            ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 0),
            ("grpc.keepalive_time_ms", KEEPALIVE_MS),
            ("grpc.keepalive_timeout_ms", KEEPALIVE_MS),
            ("grpc.http2.min_ping_interval_without_data_ms", LEAST_PING_MS),
            ("grpc.keepalive_permit_without_calls", 1),
        ),
    )
    try:
        if credentials is None:
            port = server.add_insecure_port(address)
        else:
            pair = (credentials.key, credentials.certificate)
            client_ca, needed = credentials.client_ca, credentials.client_needed
            tls = grpc.ssl_server_credentials([pair], client_ca, needed)
            port = server.add_secure_port(address, tls)
    except RuntimeError as error:
        why = "" if credentials is None else ", or its certificate and key are no pair of PEM files"
        raise MachineError(
            f"{control.name}: cannot listen on {address} for P4Runtime{why}"
        ) from error
    if address.startswith("unix:"):
        with contextlib.suppress(FileNotFoundError):  # gRPC has taken the path for another
            keep_private(address.removeprefix("unix:"))
    server.start()
    if not address.startswith("unix:") and address.endswith(":0"):
        address = f"{address.removesuffix(':0')}:{port}"
    return P4RuntimeServer(server, pool, address, service)


class Waiting:
    """The calls of a server that wait for their clients: for a request, or until a message of the
    answer is taken."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._cancels: dict[object, Callable[[], object]] = {}
        """How to cancel each, those that have waited longest first."""

    @contextlib.contextmanager
    def wait(self, cancel: Callable[[], object]) -> Iterator[None]:
        """Count a call as waiting within the block, and cancel another one if that is too many."""
        key = object()
        oldest = None
        with self._lock:
            self._cancels[key] = cancel
            if len(self._cancels) > self._most:
                oldest = self._cancels.pop(next(iter(self._cancels)))
        if oldest is not None:
            oldest()
        try:
            yield
        finally:
            with self._lock:
                self._cancels.pop(key, None)


class Service:
    """The service carries out remote procedure calls on a ``Device``."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.streams = Streams(device, Arbitration(device.device_id))
        self._waiting = Waiting()

    def handlers(self) -> tuple[Any, ...]:
        """Return P4Runtime, the switch's own service, and those by which the server tells of
        itself, in the form in which gRPC takes them.

        A call of one request is taken as a stream of requests: so it is known here while its
        request has not come. On the wire both are the same.
        """

        def unary(behaviour: Callable[[Any, RpcCall], Any], parse: MessageParser) -> Any:
            return grpc.stream_unary_rpc_method_handler(
                self._of_one(guarded(behaviour)), parse, _serialise
            )

        def stream(
            behaviour: Callable[[Iterator[Any]], Iterator[Any]], parse: MessageParser
        ) -> Any:
            def answer(requests: Iterator[Any], context: RpcCall) -> Iterator[Any]:
                return behaviour(self._awaited(requests, context))

            return grpc.stream_stream_rpc_method_handler(guarded_stream(answer), parse, _serialise)

        own = {"Call": grpc.unary_unary_rpc_method_handler(guarded(self.own_call))}
        p4runtime = grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Write": unary(self.write, batch_parser(p4runtime_pb2.WriteRequest, "updates")),
                "Read": grpc.stream_stream_rpc_method_handler(
                    self._of_one(guarded_stream(self.read)),
                    batch_parser(p4runtime_pb2.ReadRequest, "entities"),
                    bytes,
                ),
                "SetForwardingPipelineConfig": unary(self.set_config, config_parser()),
                "GetForwardingPipelineConfig": unary(
                    self.get_config, parser(p4runtime_pb2.GetForwardingPipelineConfigRequest)
                ),
                "StreamChannel": grpc.stream_stream_rpc_method_handler(
                    guarded_stream(self.streams.serve),
                    parser(p4runtime_pb2.StreamMessageRequest),
                    _serialise,
                ),
                "Capabilities": unary(self.capabilities, parser(p4runtime_pb2.CapabilitiesRequest)),
            },
        )
        own_service = grpc.method_handlers_generic_handler(OWN_SERVICE, own)
        return p4runtime, own_service, *reflection.handlers(unary, stream)

    def _awaited(self, requests: Iterator[Any], context: RpcCall) -> Iterator[Any]:
        """Yield requests, each of which the client is waited for."""
        while True:
            with self._waiting.wait(context.cancel):
                request = next(requests, None)
            if request is None:
                return
            yield request

    def _of_one(self, answer: Callable[[Any, Any], Any]) -> Callable[[Iterator[Any], Any], Any]:
        """Return what answers a stream of requests as ``answer`` does the first one of it."""

        def answer_first(requests: Iterator[Any], context: RpcCall) -> Any:
            with self._waiting.wait(context.cancel):
                request = next(requests, _NO_REQUEST)
            return answer(request, context)

        return answer_first

    def write(self, batch: RequestBatch, context: RpcCall) -> Any:
        """Answer the RPC ``Write``: apply the updates of a batch (specification, section "Write
        RPC")."""
        request = batch.head
        requests.check_device(self.device, request.device_id)
        scope = RoleScope(str(role_key(request.role, request.role_id)))
        outcomes = Outcomes()
        info = None
        for part in requests.parts(batch):
            with self.device.lock:
                try:
                    self.streams.check_primary(request)
                    refuse(
                        info not in (None, self.device.info),
                        "another program was loaded before this update",
                        failed_precondition,
                    )
                    info = self.device.info
                    outcomes.extend(requests.write(self.device, part, scope))
                except Refusal as refusal:
                    if not len(outcomes):
                        raise
                    outcomes.add(refusal, len(batch.elements) - len(outcomes))
                    break
        if outcomes.failed:
            abort_batch(context, "updates", outcomes)
        return p4runtime_pb2.WriteResponse()

    def read(self, batch: RequestBatch, context: RpcCall) -> Iterator[bytes]:
        """Answer the RPC ``Read``: yield the entities that queries select (specification, section
        "Read RPC")."""
        request = batch.head
        requests.check_device(self.device, request.device_id)
        with self.device.lock:
            responses, outcomes = requests.read(
                self.device, batch.elements, RoleScope(request.role)
            )
        yield from unless_stalled(responses, context.cancel, waiting=self._waiting)
        if outcomes.failed:
            abort_batch(context, "queries", outcomes)

    def set_config(self, request: Any, context: RpcCall) -> Any:
        """Answer the RPC ``SetForwardingPipelineConfig``: verify, save or commit a config
        (specification, section "SetForwardingPipelineConfig RPC")."""
        requests.check_device(self.device, request.device_id)
        with self.device.lock:
            self.streams.check_primary(request)
        with _BUILDING:
            configs.build(self.device, request)
        with self.device.lock:
            self.streams.check_primary(request)
            configs.set_config(self.device, request)
        return p4runtime_pb2.SetForwardingPipelineConfigResponse()

    def get_config(self, request: Any, context: RpcCall) -> Any:
        """Answer the RPC ``GetForwardingPipelineConfig``: return the config, or parts of it
        (specification, section "GetForwardingPipelineConfig RPC")."""
        requests.check_device(self.device, request.device_id)
        with self.device.lock:
            return configs.get_config(self.device, request)

    def capabilities(self, request: Any, context: RpcCall) -> Any:
        """Answer the RPC ``Capabilities``: return the version of P4Runtime (specification, section
        "Capabilities RPC")."""
        return p4runtime_pb2.CapabilitiesResponse(p4runtime_api_version=requests.API_VERSION)

    def own_call(self, request: bytes, context: RpcCall) -> bytes:
        """Answer a call that P4Runtime does not have."""
        return own_calls.answer(self.device, request)


_serialise = methodcaller("SerializeToString")
_NO_REQUEST = Malformed(invalid("no request came"))


def unless_stalled(
    messages: Sequence[bytes],
    cancel: Callable[[], object],
    stall_s: float = STALL_S,
    waiting: Waiting | None = None,
) -> Iterator[bytes]:
    """Yield the messages of an answer, and call ``cancel`` if one of them is not taken in time.

    A call whose client does not read the answer would hold a thread of the server for good. An
    answer of one message fits into what gRPC keeps for a client, and needs no watch.
    """
    if len(messages) < 2:
        yield from messages
        return
    for message in messages:
        watch = threading.Timer(stall_s, cancel)
        watch.daemon = True
        watch.start()
        try:
            with contextlib.nullcontext() if waiting is None else waiting.wait(cancel):
                yield message
        finally:
            watch.cancel()


def _abort(context: RpcCall, error: Exception) -> NoReturn:
    refusal = as_refusal(error)
    if refusal.code == code_pb2.INTERNAL:
        _log.error("P4Runtime request failed", exc_info=error)
    context.abort(_STATUS[refusal.code], fitting(refusal.message, MOST_MESSAGE))


def abort_batch(context: RpcCall, what: str, outcomes: Outcomes) -> None:
    """End a call some of whose updates or queries have failed."""
    status = outcomes.status(what)
    context.set_trailing_metadata(((DETAILS_METADATA, status.SerializeToString()),))
    context.abort(grpc.StatusCode.UNKNOWN, status.message)


def guarded(behaviour: Callable[[Any, RpcCall], Any]) -> Callable[[Any, RpcCall], Any]:
    """Return a handler that answers a malformed request, and an error, with a status."""

    def answer(request: Any, context: RpcCall) -> Any:
        with _refusals(context, request):
            return behaviour(request, context)

    return answer


def guarded_stream(
    behaviour: Callable[[Any, StreamCall], Iterator[Any]],
) -> Callable[[Any, StreamCall], Iterator[Any]]:
    """Do as `guarded` does, for a handler that answers with a stream."""

    def answer(request: Any, context: StreamCall) -> Iterator[Any]:
        with _refusals(context, request):
            yield from behaviour(request, context)

    return answer


@contextlib.contextmanager
def _refusals(context: RpcCall, request: Any) -> Iterator[None]:
    """End the call with the status of whatever is wrong with the request, or goes wrong inside the
    block."""
    try:
        if isinstance(request, Malformed):
            raise request.refusal()
        yield
    except Exception as error:
        if context.code() is not None:  # already aborted
            raise
        _abort(context, error)
