"""A P4Runtime session with one switch, built-in or BMv2.

A `Session` is what the controller uses to talk to a switch; its errors say what was attempted. It
uses a client: `RemoteClient` for a switch behind gRPC, or `weft.controller.client.LocalClient` for
one in this process.
"""

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import grpc
from google.protobuf import text_format
from google.rpc import code_pb2, status_pb2

from weft.base.errors import InputError, RunError
from weft.controller.features.registry import FEATURES
from weft.controller.messages import EntityMessages
from weft.controller.plan import Update
from weft.controller.program_names import ProgramNames
from weft.switch.messages import p4info_pb2, p4runtime_pb2, stub_of
from weft.switch.p4runtime.arbitration import Client
from weft.switch.p4runtime.local import LocalError, LocalSwitch

Address = str | LocalSwitch
"""Where a switch is: ``unix:PATH`` or ``HOST:PORT``, or the switch itself."""

ElectionId = tuple[int, int]
"""An election id as (high, low)."""

ELECTION_ID: ElectionId = (0, 1)
"""The controller's own. It is the least there is, so that any other client that has a greater one
owns the switch."""


def next_election_id(before: ElectionId) -> ElectionId:
    """Return the least election id above another one."""
    high, low = before
    return divmod((high << 64 | low) + 1, 1 << 64)


DEADLINE_S = 60.0
"""How long a switch may take to be connected to, and to answer every request but loading a
program."""
PROGRAM_DEADLINE_S = 120.0
"""How long a switch may take to load a program, which it may have to compile."""
LEAVE_DEADLINE_S = 10.0
"""How long a switch may take to end the stream of a client that leaves."""

DIGEST_ACK_TIMEOUT_NS = 1_000_000_000
"""After so long a digest counts as acknowledged, and the same one is sent again."""
MAX_METADATA_BYTES = 1 << 20
MOST_NOTICES = 1 << 16
"""The most messages of a switch that wait for somebody to take them."""
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
_KINDS = {
    "insert": p4runtime_pb2.Update.INSERT,
    "modify": p4runtime_pb2.Update.MODIFY,
    "delete": p4runtime_pb2.Update.DELETE,
}


class SwitchError(RunError):
    """A request to a switch that failed: which switch it was, what was attempted, and why it
    failed."""


@dataclass(frozen=True)
class Failure:
    """An update that a switch refused, and the reason."""

    update: Update | str
    """The update, or what it is."""
    code: str
    """The canonical code's name, for example ALREADY_EXISTS."""
    message: str

    def __str__(self) -> str:
        return f"{self.update}: {self.code}{f': {self.message}' if self.message else ''}"


class WriteError(SwitchError):
    """Updates of a batch that failed; the others have taken effect.

    ``failures`` are the updates that failed, or the first of them where the batch is large;
    ``summary`` says how many failed.
    """

    def __init__(self, switch: str, failures: Sequence[Failure], summary: str) -> None:
        self.failures = tuple(failures)
        shown = "".join(f"\n  {failure}" for failure in failures[:5])
        more = f"\n  and {len(failures) - 5} more" if len(failures) > 5 else ""
        super().__init__(f"{switch}: {summary}:{shown}{more}")


class ProgramPaths(Protocol):
    """The files of a compiled program, as the compiler's result does."""

    @property
    def json(self) -> Path:
        """Return the program as BMv2's JSON."""

    @property
    def p4info(self) -> Path:
        """Return the program's P4Info, in text form."""


class LoadableProgram:
    """A compiled P4 program for all the switches that run it."""

    def __init__(self, p4info: Any, device_config: bytes) -> None:
        """Hold a program by its ``p4.config.v1.P4Info`` and its BMv2 JSON."""
        self.names = ProgramNames(p4info, [*FEATURES.others])
        self.messages = EntityMessages(p4info)
        self.config = p4runtime_pb2.ForwardingPipelineConfig(
            p4info=p4info, p4_device_config=device_config
        )

    @classmethod
    def read(cls, files: ProgramPaths) -> "LoadableProgram":
        """Return the program in the files of a compiled one.

        Raises InputError if a file cannot be read or is not P4Info in text form.
        """
        p4info = p4info_pb2.P4Info()
        try:
            text_format.Merge(files.p4info.read_text(), p4info, allow_unknown_field=True)
            device_config = files.json.read_bytes()
        except (OSError, UnicodeDecodeError, text_format.ParseError) as error:
            raise InputError(
                f"compiled program {files.json}, {files.p4info}: {error}; compile it again"
            ) from error
        return cls(p4info, device_config)


class RemoteClient:
    """A client of a switch over gRPC (``stub``), with the stream by which a client owns the
    switch."""

    def __init__(
        self,
        where: str,
        device_id: int,
        address: str,
        election_id: ElectionId | None,
        deadline_s: float,
    ) -> None:
        """Open a channel; nothing is sent before the first call or ``become_primary``.

        ``where`` names the switch in errors. Without an election id the client takes the least that
        serves.
        """
        self._where = where
        self.device_id = device_id
        self.election_id = election_id
        self._deadline_s = deadline_s
        self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        self.stub = stub_of(self._channel)
        self._stream: Any = None
        self._receiver = threading.Thread(target=self._receive, daemon=True)
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        """The arbitration updates that have come; None where the stream has ended."""
        self._known: tuple[int, ElectionId] | None = None
        """The last answer that was looked at."""
        self._notices: deque[Any] = deque(maxlen=MOST_NOTICES)
        """What else has come; the oldest goes if nobody takes it."""

    def _receive(self) -> None:
        """Keep the switch's answers about who is the primary, and what else it tells."""
        try:
            for message in self._stream:
                if message.WhichOneof("update") == "arbitration":
                    self._answers.put(message.arbitration)
                else:
                    self._notices.append(message)
        except grpc.RpcError:
            pass  # ``self._stream`` keeps the status
        finally:
            self._answers.put(None)

    def become_primary(self, *, over: bool = False) -> None:
        """Own the switch, and open the stream first if there is none.

        A switch remembers the greatest election id that any client had. If the client that had it
        has gone, this client takes it over, and if that client is there and ``over`` is true, the
        next one above it. Raises SwitchError if another controller owns the switch or no answer
        comes.
        """
        while not self._answers.empty():  # others came and went
            self._answer()
        # BMv2 does not answer a client that wants what it has said already.
        if self._known is None or self._known[0] == code_pb2.NOT_FOUND:
            self._wish()
            self._answer()
        while True:
            assert self._known is not None
            code, holder = self._known
            own = self.election_id
            if code == code_pb2.OK:
                if holder == own:
                    return
                if own is None:  # BMv2 takes no id for 0, which may own a switch
                    self.election_id = max(holder, ELECTION_ID)
                    self._wish()
            elif code == code_pb2.NOT_FOUND:
                if own is None or holder > own:
                    self.election_id = max(holder, ELECTION_ID)
                    self._wish()
            elif own is None or holder >= own:
                if not over:
                    raise SwitchError(
                        f"{self._where}: another controller, with election id {_shown(holder)}, "
                        "owns the switch; end that one first"
                    )
                self.election_id = next_election_id(holder)
                self._wish()
            self._answer()

    def vacant_election_id(self) -> ElectionId:
        """Return the least election id by which a client would own the switch now, whoever owns
        it."""
        self._wish()
        code, holder = self._answer()
        return (
            next_election_id(holder)
            if code == code_pb2.ALREADY_EXISTS
            else max(holder, ELECTION_ID)
        )

    def _wish(self) -> None:
        """Tell the switch by which election id this client wants to own it; one without an id only
        asks who does."""
        if self._stream is None:
            self._stream = self.stub.StreamChannel(iter(self._requests.get, None))
            self._receiver.start()
        wish: dict[str, Any] = {"device_id": self.device_id}
        if self.election_id is not None:
            high, low = self.election_id
            wish["election_id"] = {"high": high, "low": low}
        self._requests.put(p4runtime_pb2.StreamMessageRequest(arbitration=wish))

    def _answer(self) -> tuple[int, ElectionId]:
        """Return the code of the next answer about who owns the switch, and the greatest election
        id that there was. Raises SwitchError if none comes."""
        answer = None
        with contextlib.suppress(queue.Empty):
            answer = self._answers.get(timeout=self._deadline_s)
        if answer is None:
            why = f"no answer to the arbitration within {self._deadline_s:g} s"
            if self._stream.done():
                why = f"the switch ended the stream: {_status(self._stream)}"
                self._answers.put(None)  # no more comes
            raise SwitchError(f"{self._where}: {why}")
        self._known = answer.status.code, (answer.election_id.high, answer.election_id.low)
        return self._known

    def tell(self, request: Any) -> None:
        """Send a message on the stream."""
        self._requests.put(request)

    def take_notices(self) -> list[Any]:
        """Return what the switch has told since the last call."""
        return [self._notices.popleft() for _ in range(len(self._notices))]

    def tear_down(self) -> None:
        """End the stream and close the channel.

        The switch ends the stream once it has let this client go: then whoever comes next may have
        the same election id. If the switch does not do so in time, the client leaves all the same.
        """
        if self._stream is not None:
            self._requests.put(None)
            self._receiver.join(LEAVE_DEADLINE_S)
            self._stream.cancel()
            self._receiver.join()
        self._channel.close()


class Session:
    """A controller's ownership of one switch, from ``connect`` to ``close``.

    Two threads must not use a session at once, except that any thread may call ``close``. All
    methods raise SwitchError.
    """

    def __init__(
        self,
        name: str,
        device_id: int,
        address: Address,
        *,
        election_id: ElectionId | None = ELECTION_ID,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        """Prepare a session; nothing is sent before ``connect``.

        Without an election id it takes the least that serves. ``deadline_s`` is how long the switch
        may take to listen, and to answer each request.
        """
        self.name = name
        self._deadline_s = deadline_s
        place = "in this process" if isinstance(address, LocalSwitch) else address
        self.where = f"{name} (device {device_id}, {place})"
        self.client: Any = client_at(self.where, device_id, address, election_id, deadline_s)
        self._program: LoadableProgram | None = None
        self._digests: set[int] = set()
        """The ids of the program's digests that are switched on."""
        self._closed = False

    def connect(self, *, over: bool = False) -> None:
        """Wait until the switch listens, and become the primary; with ``over`` in place of another
        one that is there. A session that cannot is closed."""
        with contextlib.ExitStack() as if_it_fails:
            if_it_fails.callback(self.close)
            with self._attempt(f"connect within {self._deadline_s:g} s"):
                try:
                    # A request without effect: gRPC retries the connection until the deadline.
                    self.client.stub.Capabilities(
                        p4runtime_pb2.CapabilitiesRequest(),
                        wait_for_ready=True,
                        timeout=self._deadline_s,
                    )
                except grpc.RpcError as error:
                    if error.code() != grpc.StatusCode.UNIMPLEMENTED:  # as before version 1.1
                        raise
            with self._attempt("become the primary"):
                self.client.become_primary(over=over)
            if_it_fails.pop_all()

    def take_over(self) -> None:
        """Become the primary, whoever is so now."""
        with self._attempt("become the primary"):
            self.client.become_primary(over=True)

    def close(self) -> None:
        """End the session and, in other threads, its requests; the switch keeps its entries."""
        if not self._closed:
            self._closed = True
            self.client.tear_down()

    def push_program(
        self,
        program: LoadableProgram,
        deadline_s: float = PROGRAM_DEADLINE_S,
        *,
        keep: bool = False,
    ) -> None:
        """Make the switch run a program, with empty tables; or, with ``keep``, with those of its
        entries that fit the program, if the switch can do that (RECONCILE_AND_COMMIT)."""
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(
            config=program.config,
            action="RECONCILE_AND_COMMIT" if keep else "VERIFY_AND_COMMIT",
        )
        self._identify(request)
        with self._attempt("load the program"):
            self.client.stub.SetForwardingPipelineConfig(request, timeout=deadline_s)
        self._program = program
        self._digests = set()

    def want_digests(self) -> None:
        """Let the switch send all digests of the program, each at once; `take_notices` returns
        them, and they are to be acknowledged."""
        config = {"max_list_size": 1, "ack_timeout_ns": DIGEST_ACK_TIMEOUT_NS}
        ids = {one.preamble.id for one in self.program.config.p4info.digests}
        for number in sorted(ids - self._digests):
            entity = p4runtime_pb2.Entity(digest_entry={"digest_id": number, "config": config})
            self.send("insert", [entity], "switch digests on")
            self._digests.add(number)

    def write(self, updates: Sequence[Update]) -> None:
        """Send one batch of updates. Raises WriteError if the switch refused some of them."""
        request = p4runtime_pb2.WriteRequest()
        self._identify(request)
        messages = self.program.messages
        for update in updates:
            messages.fill(request.updates.add(type=_KINDS[update.kind]).entity, update.entity)
        what = str(updates[0]) if len(updates) == 1 else f"write {len(updates)} updates"
        with self._attempt(what):
            try:
                self.client.stub.Write(request, timeout=self._deadline_s)
            except grpc.RpcError as error:
                failures, tried = _failures(error, updates)
                if not failures:
                    raise
                summary = f"{len(failures)} of {len(updates)} updates failed"
                if tried < len(updates):  # a switch may tell no more than gRPC's clients take
                    summary = error.details()
                raise WriteError(self.where, failures, summary) from None

    def send(self, kind: str, entities: Sequence[Any], what: str) -> None:
        """Have ``p4.v1.Entity`` messages, such as cells of a register, inserted, modified or
        deleted, as ``kind`` says; ``what`` says in errors what that is for."""
        request = p4runtime_pb2.WriteRequest()
        self._identify(request)
        for entity in entities:
            request.updates.add(type=_KINDS[kind], entity=entity)
        with self._attempt(what):
            try:
                self.client.stub.Write(request, timeout=self._deadline_s)
            except grpc.RpcError as error:
                failures, _ = _failures(error, [what] * len(entities))
                if not failures:
                    raise
                raise SwitchError(f"{self.where}: could not {failures[0]}") from None

    def tell(self, request: Any) -> None:
        """Send a ``StreamMessageRequest``, such as a packet, on the session's stream."""
        self.client.tell(request)

    def take_notices(self) -> list[Any]:
        """Return what has come on the stream since the last call, but for arbitration:
        ``StreamMessageResponse`` messages with packets, digests, idle entries and errors."""
        return list(self.client.take_notices())

    def read(self, entities: Sequence[Any]) -> list[Any]:
        """Return the ``p4.v1.Entity`` messages that the queries select; queries are messages of the
        same kind."""
        request = p4runtime_pb2.ReadRequest(device_id=self.client.device_id)
        request.entities.extend(entities)
        with self._attempt(f"read {len(entities)} queries"):
            responses = list(self.client.stub.Read(request, timeout=self._deadline_s))
        return [entity for response in responses for entity in response.entities]

    def read_counters(self, cells: Sequence[tuple[str, int]]) -> list[tuple[int, int]]:
        """Return the packets and bytes of cells of indirect counters, each given by the counter's
        name and an index."""
        messages = self.program.messages
        wanted = [(messages.counter_id(counter), index) for counter, index in cells]
        queries = [
            p4runtime_pb2.Entity(counter_entry={"counter_id": counter, "index": {"index": index}})
            for counter, index in wanted
        ]
        found = {
            (cell.counter_id, cell.index.index): (cell.data.packet_count, cell.data.byte_count)
            for cell in (entity.counter_entry for entity in self.read(queries))
        }
        try:
            return [found[cell] for cell in wanted]
        except KeyError as error:
            raise SwitchError(f"{self.where}: no answer for counter cell {error}") from None

    @property
    def program(self) -> LoadableProgram:
        """The program that the switch was given in this session. Raises SwitchError if there is
        none."""
        if self._program is None:
            raise SwitchError(f"{self.where}: no program was pushed in this session")
        return self._program

    def _identify(self, request: Any) -> None:
        request.device_id = self.client.device_id
        request.election_id.high, request.election_id.low = self.client.election_id

    @contextlib.contextmanager
    def _attempt(self, what: str) -> Iterator[None]:
        """Name the switch in the errors of a block, and say in gRPC's errors what was attempted."""
        try:
            yield
        except grpc.RpcError as error:
            raise SwitchError(f"{self.where}: could not {what}: {_status(error)}") from None


def _shown(election_id: ElectionId) -> str:
    """Return an election id as the number that it is."""
    high, low = election_id
    return str(high << 64 | low)


def _status(call: Any) -> str:
    return f"{call.code().name}: {call.details()}"


def _failures(error: Any, updates: Sequence[Update | str]) -> tuple[list[Failure], int]:
    """Return the updates that failed, and how many of the first updates the details of a Write's
    status tell about.

    Without details both are empty: no updates, and 0.
    """
    details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
    if error.code() != grpc.StatusCode.UNKNOWN or not isinstance(details, bytes):
        return [], 0
    status = status_pb2.Status.FromString(details)
    failures = []
    for update, packed in zip(updates, status.details, strict=False):
        one = p4runtime_pb2.Error()
        if packed.Unpack(one) and one.canonical_code != code_pb2.OK:
            failures.append(Failure(update, code_pb2.Code.Name(one.canonical_code), one.message))
    return failures, len(status.details)


class LocalClient:
    """One controller's end of a `LocalSwitch`, with those methods of a `RemoteClient` that a
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


def client_at(
    where: str,
    device_id: int,
    address: Address,
    election_id: ElectionId | None = ELECTION_ID,
    deadline_s: float = DEADLINE_S,
) -> RemoteClient | LocalClient:
    """Return a client of the switch at an address, which `where` names in errors."""
    if isinstance(address, LocalSwitch):
        return LocalClient(address, device_id, election_id or ELECTION_ID)
    return RemoteClient(where, device_id, address, election_id, deadline_s)
