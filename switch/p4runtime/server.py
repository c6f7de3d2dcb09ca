"""The P4Runtime gRPC service of one switch.

::

    server = serve(control, device_id=1, address="unix:/run/weft/0a1b2c/leaf0.sock")
    ...
    server.stop()

One server per switch, many in a process: threads are started as clients come. Whatever a client
sends, the answer is a status with a message, and the server runs on.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import grpc
from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from switch.engine.control import SwitchControl
from switch.errors import InputError, MachineError
from switch.p4runtime import requests
from switch.p4runtime.arbitration import Arbitration
from switch.p4runtime.device import Device
from switch.p4runtime.refusals import DETAILS_METADATA, Refusal, as_refusal, batch_status
from switch.p4runtime.streams import MAX_STREAMS, Malformed, Streams

_log = logging.getLogger(__name__)

SERVICE = "p4.v1.P4Runtime"
MAX_MESSAGE_BYTES = 64 << 20
"""Greatest request: a program may be large."""
UNARY_THREADS = 4
MAX_UNIX_PATH_BYTES = 107
"""Length of a Unix socket's path that the kernel takes (unix(7))."""

_STATUS = {status.value[0]: status for status in grpc.StatusCode}


class P4RuntimeServer:
    """A running server; ``address`` is where clients reach it."""

    def __init__(self, server: Any, pool: ThreadPoolExecutor, address: str) -> None:
        self.address = address
        self._server = server
        self._pool = pool

    def stop(self, grace_s: float = 0.0) -> None:
        """Stop serving: no new calls, and those that go on are cancelled after ``grace_s``."""
        self._server.stop(grace_s).wait()
        self._pool.shutdown(wait=False)


def serve(control: SwitchControl, device_id: int, address: str) -> P4RuntimeServer:
    """Serve P4Runtime for one switch on ``address``, from threads of its own.

    ``address``: ``unix:PATH``, or ``HOST:PORT`` (port 0 lets the kernel choose one; the handle's
    ``address`` has it). Raises InputError for a device id or address that cannot be, MachineError
    if the address cannot be listened on.
    """
    if not 0 < device_id < 1 << 64:
        raise InputError(f"device id {device_id}: a device id is 1 or more, and below 2^64")
    path = address.removeprefix("unix:")
    if path != address and len(path.encode()) > MAX_UNIX_PATH_BYTES:
        raise InputError(
            f"P4Runtime address {address}: a Unix socket's path has at most "
            f"{MAX_UNIX_PATH_BYTES} bytes; use a shorter folder"
        )
    pool = ThreadPoolExecutor(MAX_STREAMS + UNARY_THREADS, thread_name_prefix=control.name)
    server = grpc.server(
        pool,
        handlers=(Service(Device(control, device_id)).handlers(),),
        maximum_concurrent_rpcs=4 * (MAX_STREAMS + UNARY_THREADS),
        options=(
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 0),
        ),
    )
    try:
        port = server.add_insecure_port(address)
    except RuntimeError as error:
        raise MachineError(f"{control.name}: cannot listen on {address} for P4Runtime") from error
    server.start()
    if path == address and address.endswith(":0"):
        address = f"{address.removesuffix(':0')}:{port}"
    return P4RuntimeServer(server, pool, address)


class Service:
    """The RPCs: gRPC on one side, a ``Device`` on the other."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.streams = Streams(device, Arbitration(device.device_id))

    def handlers(self) -> Any:
        """The service as gRPC wants it."""

        def unary(behaviour: Callable[[Any, Any], Any], request: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(
                guarded(behaviour), _parser(request), _serialise
            )

        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Write": unary(self.write, p4runtime_pb2.WriteRequest),
                "Read": grpc.unary_stream_rpc_method_handler(
                    guarded_stream(self.read), _parser(p4runtime_pb2.ReadRequest), bytes
                ),
                "SetForwardingPipelineConfig": unary(
                    self.set_config, p4runtime_pb2.SetForwardingPipelineConfigRequest
                ),
                "GetForwardingPipelineConfig": unary(
                    self.get_config, p4runtime_pb2.GetForwardingPipelineConfigRequest
                ),
                "StreamChannel": grpc.stream_stream_rpc_method_handler(
                    guarded_stream(self.streams.serve, check=False),
                    _parser(p4runtime_pb2.StreamMessageRequest),
                    _serialise,
                ),
                "Capabilities": unary(self.capabilities, p4runtime_pb2.CapabilitiesRequest),
            },
        )

    def write(self, request: Any, context: Any) -> Any:
        requests.check_device(self._device, request.device_id)
        with self._device.lock:
            self.streams.check_primary(request)
            outcomes = requests.write(self._device, request)
        if any(outcomes):
            _abort_batch(context, "updates", outcomes)
        return p4runtime_pb2.WriteResponse()

    def read(self, request: Any, context: Any) -> Iterator[bytes]:
        requests.check_device(self._device, request.device_id)
        with self._device.lock:
            responses, outcomes = requests.read(self._device, request)
        yield from responses
        if any(outcomes):
            _abort_batch(context, "queries", outcomes)

    def set_config(self, request: Any, context: Any) -> Any:
        requests.check_device(self._device, request.device_id)
        with self._device.lock:
            self.streams.check_primary(request)
            requests.set_config(self._device, request)
        return p4runtime_pb2.SetForwardingPipelineConfigResponse()

    def get_config(self, request: Any, context: Any) -> Any:
        requests.check_device(self._device, request.device_id)
        with self._device.lock:
            return requests.get_config(self._device, request)

    def capabilities(self, request: Any, context: Any) -> Any:
        return p4runtime_pb2.CapabilitiesResponse(p4runtime_api_version=requests.API_VERSION)


def _serialise(message: Any) -> bytes:
    return bytes(message.SerializeToString())


def _parser(kind: Any) -> Callable[[bytes], Any]:
    """A deserialiser that never raises: gRPC would log a traceback for what a client did wrong."""

    def parse(data: bytes) -> Any:
        try:
            return kind.FromString(data)
        except Exception as error:
            return Malformed(error)

    return parse


def _abort(context: Any, error: Exception) -> NoReturn:
    refusal = as_refusal(error)
    if refusal.code == code_pb2.INTERNAL:
        _log.error("P4Runtime request failed", exc_info=error)
    context.abort(_STATUS[refusal.code], refusal.message)
    raise AssertionError("abort returns not")


def _abort_batch(context: Any, what: str, outcomes: list[Refusal | None]) -> None:
    status = batch_status(what, outcomes)
    context.set_trailing_metadata(((DETAILS_METADATA, status.SerializeToString()),))
    context.abort(grpc.StatusCode.UNKNOWN, status.message)


def guarded(behaviour: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def answer(request: Any, context: Any) -> Any:
        with _refusals(context):
            if isinstance(request, Malformed):
                raise request.refusal()
            return behaviour(request, context)

    return answer


def guarded_stream(
    behaviour: Callable[[Any, Any], Iterator[Any]], *, check: bool = True
) -> Callable[[Any, Any], Iterator[Any]]:
    def answer(request: Any, context: Any) -> Iterator[Any]:
        with _refusals(context):
            if check and isinstance(request, Malformed):
                raise request.refusal()
            yield from behaviour(request, context)

    return answer


@contextlib.contextmanager
def _refusals(context: Any) -> Iterator[None]:
    """End the call with the status of whatever goes wrong inside."""
    try:
        yield
    except Exception as error:
        if context.code() is not None:  # already aborted
            raise
        _abort(context, error)
