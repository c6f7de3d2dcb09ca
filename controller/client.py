"""A P4Runtime session with one switch, built-in or BMv2.

A `Session` is what the controller uses to talk to a switch; its errors say what was attempted. It
uses a client: `RemoteClient` for a switch behind gRPC, or for one in this process `LocalClient`
(`weft.switch.p4runtime.local`).
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import grpc
from google.protobuf import text_format
from google.rpc import code_pb2, status_pb2

from weft.base.errors import InputError
from weft.controller.entities import PlannedEntry
from weft.controller.features.registry import FEATURES
from weft.controller.messages import EntityMessages
from weft.controller.plan import Update
from weft.controller.program_names import ProgramNames
from weft.controller.remote import (
    DEADLINE_S,
    ELECTION_ID,
    Address,
    ElectionId,
    RemoteClient,
    SwitchError,
    client_at,
    status_text,
)
from weft.switch.messages import own_call, p4info_pb2, p4runtime_pb2

PROGRAM_DEADLINE_S = 120.0
"""How long a switch may take to load a program, which it may have to compile."""

DIGEST_ACK_TIMEOUT_NS = 1_000_000_000
"""After so long a digest counts as acknowledged, and the same one is sent again."""
_KINDS = {
    "insert": p4runtime_pb2.Update.INSERT,
    "modify": p4runtime_pb2.Update.MODIFY,
    "delete": p4runtime_pb2.Update.DELETE,
}


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
        self.request = p4runtime_pb2.SetForwardingPipelineConfigRequest()
        """What switches of this process are asked, one after the other."""
        self.config = self.request.config
        self.config.p4info.CopyFrom(p4info)
        self.config.p4_device_config = device_config

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
        place = address if isinstance(address, str) else "in this process"
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
        kinds = p4runtime_pb2.SetForwardingPipelineConfigRequest
        action = kinds.RECONCILE_AND_COMMIT if keep else kinds.VERIFY_AND_COMMIT
        if isinstance(self.client, RemoteClient):
            request = kinds(config=program.config)
        else:  # which keeps the message, and all switches can keep the same one
            request = program.request
        request.action = action
        self._identify(request)
        with self._attempt("load the program"):
            self.client.stub.SetForwardingPipelineConfig(request, timeout=deadline_s)
        self._program = program
        self._digests = set()

    def learn_program(self) -> LoadableProgram:
        """Return the program that the switch runs, as the switch itself tells it, and take it for
        this session's."""
        request = p4runtime_pb2.GetForwardingPipelineConfigRequest(
            device_id=self.client.device_id, response_type="ALL"
        )
        with self._attempt("read the program"):
            answer = self.client.stub.GetForwardingPipelineConfig(request, timeout=self._deadline_s)
        config = answer.config
        self._program = LoadableProgram(config.p4info, config.p4_device_config)
        return self._program

    def own_call(self, name: str, **arguments: Any) -> Any:
        """Return the answer to a call that P4Runtime does not have and Weft's switch does
        (`weft.switch.p4runtime.own_calls`). ``code`` of the error is UNIMPLEMENTED if the switch is
        another one."""
        with self._attempt(f"answer {name!r}"):
            return own_call(self.client.stub, name, arguments, self._deadline_s)

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
        entries = self._new_entries(updates)
        for update in updates if entries is None else ():
            messages.fill(request.updates.add(type=_KINDS[update.kind]).entity, update.entity)
        what = str(updates[0]) if len(updates) == 1 else f"write {len(updates)} updates"
        with self._attempt(what):
            try:
                if entries is not None:
                    self.client.insert(request, entries, messages)
                else:
                    self.client.stub.Write(request, timeout=self._deadline_s)
            except grpc.RpcError as error:
                failures, tried = _failures(error, updates)
                if not failures:
                    raise
                summary = f"{len(failures)} of {len(updates)} updates failed"
                if tried < len(updates):  # a switch may tell no more than gRPC's clients take
                    summary = error.details()
                raise WriteError(self.where, failures, summary) from None

    def _new_entries(self, updates: Sequence[Update]) -> list[PlannedEntry] | None:
        """Return the entries if a switch of this process is to insert some and nothing else."""
        if isinstance(self.client, RemoteClient) or not self.client.takes_entries:
            return None
        found = [
            update.entity
            for update in updates
            if update.kind == "insert" and isinstance(update.entity, PlannedEntry)
        ]
        return found if len(found) == len(updates) else None

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
                raise SwitchError(
                    f"{self.where}: could not {failures[0]}", failures[0].code
                ) from None

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
        name and an index. A switch in this process is asked without messages."""
        messages = self.program.messages
        ids = {counter: messages.counter_id(counter) for counter in {name for name, _ in cells}}
        wanted = [(ids[counter], index) for counter, index in cells]
        if not isinstance(self.client, RemoteClient):
            with self._attempt(f"read {len(cells)} counter cells"):
                found_here: list[tuple[int, int]] = self.client.counted(wanted)
                return found_here
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
            raise SwitchError(
                f"{self.where}: could not {what}: {status_text(error)}", error.code().name
            ) from None


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
