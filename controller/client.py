"""A P4Runtime session with one switch, built-in or BMv2.

The client is p4runtime-shell's ``P4RuntimeClient``, whose stub, queues of stream messages, getters
and exception serve; whatever is written for that class can be given a ``Session.client``. These
parts of it (version 0.0.6) do not serve and are replaced here:

- Its constructor makes a channel without options. Errors of a large batch may need more metadata
  than gRPC's 8 KiB, or they arrive without details; and a socket that does not exist yet needs
  retries quicker than once a second.
- Its handshake waits 2 s whatever the caller's deadline, prints to standard output, and ends the
  process by ``sys.exit`` where the switch does not answer.
- Its stream thread keeps the process alive, and logs to the root logger whatever ends the stream,
  the end of the run included.
- Its ``write`` raises P4RuntimeWriteException, whose iterator never returns when an update before
  the failed one succeeded: it does not step over an error whose code is OK.
- ``set_fwd_pipe_config`` parses P4Info and reads the program from files for every switch anew; here
  both are serialised once for all switches.

Its global shell context, and with it IPython, is not imported.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import grpc
from google.protobuf import text_format
from google.rpc import code_pb2, status_pb2
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc
from p4runtime_sh.p4runtime import P4RuntimeClient

from weft.base.errors import InputError, RunError
from weft.controller.local import LocalClient
from weft.controller.names import Names
from weft.controller.plan import Update
from weft.switch.p4runtime.local import LocalSwitch

Address = str | LocalSwitch
"""Where a switch is: ``unix:PATH`` or ``HOST:PORT``, or the switch itself."""

ELECTION_ID = (2, 0)
"""(high, low): above p4runtime-shell's default of (1, 0), so that a look does not take over."""


def later_election_id() -> tuple[int, int]:
    """One that is above all that were given so before, and above `ELECTION_ID`."""
    return (ELECTION_ID[0] + 1, time.time_ns())


DEADLINE_S = 60.0
"""For connecting, and for every request but the next one."""
PROGRAM_DEADLINE_S = 120.0
"""For loading a program, which the switch may have to compile."""
LEAVE_DEADLINE_S = 10.0
"""For a switch to end the stream of a client that leaves."""

MAX_METADATA_BYTES = 1 << 20
_OPTIONS = (
    ("grpc.max_metadata_size", MAX_METADATA_BYTES),
    ("grpc.absolute_max_metadata_size", MAX_METADATA_BYTES),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.min_reconnect_backoff_ms", 20),
    ("grpc.max_reconnect_backoff_ms", 200),
    ("grpc.enable_http_proxy", 0),
)
_SET_CONFIG = "/p4.v1.P4Runtime/SetForwardingPipelineConfig"
_KINDS = {
    "insert": p4runtime_pb2.Update.INSERT,
    "modify": p4runtime_pb2.Update.MODIFY,
    "delete": p4runtime_pb2.Update.DELETE,
}


class SwitchError(RunError):
    """A request to a switch that failed: says which switch, what was attempted and why."""


@dataclass(frozen=True)
class Failure:
    """An update that a switch refused."""

    update: Update
    code: str
    """The canonical code's name, for example ALREADY_EXISTS."""
    message: str

    def __str__(self) -> str:
        return f"{self.update}: {self.code}{f': {self.message}' if self.message else ''}"


class WriteError(SwitchError):
    """A batch of which some updates failed; the others have taken effect.

    ``failures`` are all of them, or of a large batch the first ones; ``summary`` says how many
    there are.
    """

    def __init__(self, switch: str, failures: Sequence[Failure], summary: str) -> None:
        self.failures = tuple(failures)
        shown = "".join(f"\n  {failure}" for failure in failures[:5])
        more = f"\n  and {len(failures) - 5} more" if len(failures) > 5 else ""
        super().__init__(f"{switch}: {summary}:{shown}{more}")


class ProgramPaths(Protocol):
    """A compiled program's files, as the compiler gives them."""

    @property
    def json(self) -> Path: ...

    @property
    def p4info(self) -> Path: ...


class Program:
    """A compiled P4 program, read and serialised once for all the switches that run it.

    Raises InputError if a file cannot be read or is not P4Info in text form.
    """

    def __init__(self, files: ProgramPaths) -> None:
        p4info = p4info_pb2.P4Info()
        try:
            text_format.Merge(files.p4info.read_text(), p4info, allow_unknown_field=True)
            device_config = files.json.read_bytes()
        except (OSError, UnicodeDecodeError, text_format.ParseError) as error:
            raise InputError(
                f"compiled program {files.json}, {files.p4info}: {error}; compile it again"
            ) from error
        self.names = Names(p4info)
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest()
        request.action = p4runtime_pb2.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        request.config.p4info.CopyFrom(p4info)
        request.config.p4_device_config = device_config
        self.request_part = bytes(request.SerializeToString())
        """The part of the request that is the same for all switches. Protobuf messages merge when
        their bytes are joined, so a switch's own fields go in front of it."""


class SwitchClient(P4RuntimeClient):  # type: ignore[misc]
    """P4RuntimeClient with a deadline and errors in place of prints and exits."""

    def __init__(self, device_id: int, address: str, election_id: tuple[int, int]) -> None:
        """Raises nothing; ``set_up_stream`` begins to talk."""
        self.device_id = device_id
        self.election_id = election_id
        self.role_name = None
        self.channel = grpc.insecure_channel(address, options=_OPTIONS)
        self.stub = p4runtime_pb2_grpc.P4RuntimeStub(self.channel)
        self.deadline_s = DEADLINE_S
        self.stream: Any = None
        self.stream_recv_thread: threading.Thread | None = None
        self.stream_out_q: queue.Queue[Any] = queue.Queue()
        kinds = ("arbitration", "packet", "digest", "idle_timeout_notification", "unknown")
        self.stream_in_q: dict[str, queue.Queue[Any]] = {kind: queue.Queue() for kind in kinds}

    def set_up_stream(self) -> None:
        """Open the stream; what arrives goes to P4RuntimeClient's queues, None at the end."""
        self.stream = self.stub.StreamChannel(iter(self.stream_out_q.get, None))
        self.stream_recv_thread = threading.Thread(target=self._receive, daemon=True)
        self.stream_recv_thread.start()
        self.handshake()

    def _receive(self) -> None:
        try:
            for message in self.stream:
                kind = message.WhichOneof("update")
                self.stream_in_q[kind if kind in self.stream_in_q else "unknown"].put(message)
        except grpc.RpcError:
            pass  # ``self.stream`` keeps the status
        finally:
            for waiting in self.stream_in_q.values():
                waiting.put(None)

    def handshake(self) -> None:
        """Become the primary; raises SwitchError where that fails."""
        request = p4runtime_pb2.StreamMessageRequest()
        request.arbitration.device_id = self.device_id
        request.arbitration.election_id.high = self.election_id[0]
        request.arbitration.election_id.low = self.election_id[1]
        self.stream_out_q.put(request)
        while True:
            answer = self.get_stream_packet("arbitration", timeout=self.deadline_s)
            if answer is None and self.stream.done():
                raise SwitchError(f"the switch ended the stream: {_status(self.stream)}")
            if answer is None:
                raise SwitchError(f"no answer to the arbitration within {self.deadline_s:g} s")
            holder = (answer.arbitration.election_id.high, answer.arbitration.election_id.low)
            if answer.arbitration.status.code == code_pb2.OK and holder == self.election_id:
                return
            if answer.arbitration.status.code != code_pb2.OK and holder >= self.election_id:
                raise SwitchError(
                    f"another controller, with election id {holder}, owns the switch; this one "
                    f"has {self.election_id}; end the other one first"
                )
            # Word of what was before: others came and went.

    def tear_down(self) -> None:
        """End the stream and the channel.

        The switch ends the stream once it has let this client go: whoever comes then may have the
        same election id. A switch that does not is left all the same, after a while.
        """
        if self.stream is not None:
            self.stream_out_q.put(None)
            if self.stream_recv_thread is not None:
                self.stream_recv_thread.join(LEAVE_DEADLINE_S)
            self.stream.cancel()
        super().tear_down()


class Session:
    """This controller's ownership of one switch, from ``connect`` to ``close``.

    Not to be used by two threads at once, but for ``close``. All methods raise SwitchError.
    """

    def __init__(
        self,
        name: str,
        device_id: int,
        address: Address,
        *,
        election_id: tuple[int, int] = ELECTION_ID,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        """Nothing is sent before ``connect``.

        ``deadline_s``: for the switch to listen, and for each request.
        """
        self.name = name
        self._deadline_s = deadline_s
        self.client: Any
        if isinstance(address, LocalSwitch):
            self.where = f"{name} (device {device_id}, in this process)"
            self.client = LocalClient(address, device_id, election_id)
        else:
            self.where = f"{name} (device {device_id}, {address})"
            self.client = SwitchClient(device_id, address, election_id)
        self.client.deadline_s = deadline_s
        self._program: Program | None = None
        self._closed = False
        self._set_config = self.client.channel.unary_unary(
            _SET_CONFIG,
            request_serializer=bytes,
            response_deserializer=p4runtime_pb2.SetForwardingPipelineConfigResponse.FromString,
        )

    def connect(self) -> None:
        """Wait until the switch listens, and become the primary."""
        try:
            # A request without effect: gRPC retries the connection until the deadline.
            self.client.stub.Capabilities(
                p4runtime_pb2.CapabilitiesRequest(), wait_for_ready=True, timeout=self._deadline_s
            )
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNIMPLEMENTED:  # then it is older than version 1.1
                raise self._error(f"connect within {self._deadline_s:g} s", error) from None
        try:
            self.client.set_up_stream()
        except grpc.RpcError as error:
            raise self._error("become the primary", error) from None
        except SwitchError as error:
            raise SwitchError(f"{self.where}: {error}") from None

    def take_over(self) -> None:
        """Become the primary, whoever is so now."""
        self.client.election_id = later_election_id()
        try:
            self.client.handshake()
        except (grpc.RpcError, SwitchError) as error:
            raise SwitchError(f"{self.where}: {error}") from None

    def close(self) -> None:
        """End the session and, in other threads, its requests; the switch keeps its entries."""
        if not self._closed:
            self._closed = True
            self.client.tear_down()

    def push_program(
        self, program: Program, deadline_s: float = PROGRAM_DEADLINE_S, *, keep: bool = False
    ) -> None:
        """Make the switch run a program, with empty tables; or with ``keep``, if the switch can do
        it, with those entries that fit the program (RECONCILE_AND_COMMIT)."""
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest()
        self._identify(request)
        data = request.SerializeToString() + program.request_part
        if keep:
            action = p4runtime_pb2.SetForwardingPipelineConfigRequest(
                action=p4runtime_pb2.SetForwardingPipelineConfigRequest.RECONCILE_AND_COMMIT
            )
            data += action.SerializeToString()  # of a field that comes twice the last one counts
        try:
            self._set_config(data, timeout=deadline_s)
        except grpc.RpcError as error:
            raise self._error("load the program", error) from None
        self._program = program

    def write(self, updates: Sequence[Update]) -> None:
        """Send one batch. Raises WriteError where the switch refused some of it."""
        request = p4runtime_pb2.WriteRequest()
        self._identify(request)
        names = self._names()
        for update in updates:
            names.fill(request.updates.add(type=_KINDS[update.kind]).entity, update.entity)
        try:
            self.client.stub.Write(request, timeout=self._deadline_s)
        except grpc.RpcError as error:
            failures, tried = _failures(error, updates)
            if failures:
                summary = f"{len(failures)} of {len(updates)} updates failed"
                if tried < len(updates):  # a switch may tell no more than gRPC's clients take
                    summary = error.details()
                raise WriteError(self.where, failures, summary) from None
            what = str(updates[0]) if len(updates) == 1 else f"write {len(updates)} updates"
            raise self._error(what, error) from None

    def read(self, entities: Sequence[Any]) -> list[Any]:
        """The ``p4.v1.Entity`` messages that the queries, messages of the same kind, select."""
        request = p4runtime_pb2.ReadRequest(device_id=self.client.device_id)
        request.entities.extend(entities)
        try:
            responses = list(self.client.stub.Read(request, timeout=self._deadline_s))
        except grpc.RpcError as error:
            raise self._error(f"read {len(entities)} queries", error) from None
        return [entity for response in responses for entity in response.entities]

    def read_counters(self, cells: Sequence[tuple[str, int]]) -> list[tuple[int, int]]:
        """(packets, bytes) of cells of indirect counters, given by name and index."""
        names = self._names()
        queries = []
        for counter, index in cells:
            query = p4runtime_pb2.Entity()
            query.counter_entry.counter_id = names.counter_id(counter)
            query.counter_entry.index.index = index
            queries.append(query)
        found = {}
        for entity in self.read(queries):
            cell = entity.counter_entry
            data = cell.data
            found[cell.counter_id, cell.index.index] = (data.packet_count, data.byte_count)
        try:
            return [found[names.counter_id(counter), index] for counter, index in cells]
        except KeyError as error:
            raise SwitchError(f"{self.where}: no answer for counter cell {error}") from None

    def _names(self) -> Names:
        if self._program is None:
            raise SwitchError(f"{self.where}: no program was pushed in this session")
        return self._program.names

    def _identify(self, request: Any) -> None:
        request.device_id = self.client.device_id
        request.election_id.high, request.election_id.low = self.client.election_id

    def _error(self, what: str, error: Any) -> SwitchError:
        return SwitchError(f"{self.where}: could not {what}: {_status(error)}")


def _status(call: Any) -> str:
    return f"{call.code().name}: {call.details()}"


def _failures(error: Any, updates: Sequence[Update]) -> tuple[list[Failure], int]:
    """The updates that failed, from the details of a Write's status, and of how many of the first
    updates the details tell; none and 0 if it has none."""
    details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
    if error.code() != grpc.StatusCode.UNKNOWN or not isinstance(details, bytes):
        return [], 0
    status = status_pb2.Status.FromString(details)
    failures = []
    for update, packed in zip(updates, status.details, strict=False):
        one = p4runtime_pb2.Error()
        if packed.Unpack(one) and one.canonical_code != code_pb2.OK:
            code = code_pb2.Code.Name(one.canonical_code)
            failures.append(Failure(update, code, one.message))
    return failures, len(status.details)
