"""For the tests of the P4Runtime server and the controller: programs, switches, a bare client."""

from __future__ import annotations

import queue
import shutil
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import text_format
from google.rpc import code_pb2, status_pb2

from weft.base.cache import CHECKOUT
from weft.switch.compiler import compile_cached
from weft.switch.engine.switches import Dataplane, Queue
from weft.switch.messages import p4info_pb2, p4runtime_pb2, stub_of
from weft.switch.p4runtime.streams import ClientOutbox

EVERY_ENTITY = CHECKOUT / "tests" / "programs" / "every_entity.p4"
EVERY_NOTICE = CHECKOUT / "tests" / "programs" / "every_notice.p4"
FABRIC = CHECKOUT / "p4" / "fabric.p4"

INSERT = p4runtime_pb2.Update.INSERT
MODIFY = p4runtime_pb2.Update.MODIFY
DELETE = p4runtime_pb2.Update.DELETE

PORTS = range(1, 9)


@dataclass(frozen=True)
class Files:
    """A compiled program."""

    json: Path
    p4info: Path


def compile_with_p4c(source: Path, folder: Path) -> Files:
    """Compile with the reference compiler; skips the test where it is not installed."""
    if shutil.which("p4c-bm2-ss") is None:
        pytest.skip("p4c-bm2-ss (p4lang's compiler) is not on PATH")
    files = Files(folder / f"{source.stem}.json", folder / f"{source.stem}.p4info.txtpb")
    command = ["p4c-bm2-ss", "--p4v", "16", "--p4runtime-files", str(files.p4info)]
    subprocess.run([*command, "-o", str(files.json), str(source)], check=True, capture_output=True)
    return files


def compiled(source: Path) -> Files:
    """Compile with Weft's own compiler."""
    found = compile_cached(source)
    return Files(found.json, found.p4info)


def make_dataplane(switches: int = 1, priority_queues: int = 1) -> Dataplane:
    """Switches with ports 1 to 8, running programs uncompiled."""
    dataplane = Dataplane(switches, PORTS.stop, plain=True, priority_queues=priority_queues)
    for switch in range(switches):
        for port in PORTS:
            dataplane.set_port(switch, port, Queue())
    return dataplane


class Refused(Exception):
    """An RPC that failed: its code, its message, and the (code, message) of each update."""

    def __init__(self, error: Any) -> None:
        self.code = error.code().name
        self.details = error.details()
        self.updates: list[tuple[str, str]] = []
        packed = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
        if packed is not None:
            status = status_pb2.Status.FromString(packed)
            assert status.code == error.code().value[0]
            assert status.message == self.details
            for detail in status.details:
                one = p4runtime_pb2.Error()
                assert detail.Unpack(one)
                self.updates.append((code_pb2.Code.Name(one.canonical_code), one.message))
        super().__init__(f"{self.code}: {self.details} {self.updates}")


def config_request(files: Files, action: str = "VERIFY_AND_COMMIT", cookie: int = 0) -> Any:
    """A request to load a program, to no device in particular."""
    request = p4runtime_pb2.SetForwardingPipelineConfigRequest()
    request.action = request.Action.Value(action)
    if action != "COMMIT":
        text_format.Merge(files.p4info.read_text(), request.config.p4info)
        request.config.p4_device_config = files.json.read_bytes()
        request.config.cookie.cookie = cookie
    return request


KINDS = (
    "tables", "actions", "action_profiles", "counters", "meters", "registers", "value_sets",
    "digests",
)  # fmt: skip


def ids_of(info: Any) -> dict[str, int]:
    """Ids of a P4Info's objects by alias."""
    return {one.preamble.alias: one.preamble.id for kind in KINDS for one in getattr(info, kind)}


def substituted(text: str, ids: dict[str, int]) -> str:
    """Replace ``@alias`` by ids."""
    for alias in sorted(ids, key=len, reverse=True):
        text = text.replace(f"@{alias}", str(ids[alias]))
    return text


class BareClient:
    """A P4Runtime client with nothing between a test and the protobufs."""

    def __init__(self, address: str, device_id: int = 1, election_id: int | None = 1) -> None:
        options = [
            ("grpc.max_metadata_size", 1 << 20),
            ("grpc.absolute_max_metadata_size", 1 << 20),
        ]
        self.channel = grpc.insecure_channel(address, options=options)
        self.stub = stub_of(self.channel)
        self.device_id = device_id
        self.election_id = election_id
        self.role = ""
        self.info: Any = None
        self._stream: Any = None

    def close(self) -> None:
        if self._stream is not None:
            self._stream.cancel()
        self.channel.close()

    # -- the stream

    def open_stream(self) -> None:
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._responses: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._stream = self.stub.StreamChannel(iter(self._requests.get, None))

        def receive() -> None:
            try:
                for response in self._stream:
                    self._responses.put(response)
            except grpc.RpcError as error:
                self._responses.put(error)

        self._receiver = threading.Thread(target=receive, daemon=True)
        self._receiver.start()

    def send(self, request: Any) -> None:
        if self._stream is None:
            self.open_stream()
        self._requests.put(request)

    def receive(self) -> Any:
        """The next message on the stream; raises Refused if it has ended with an error."""
        response = self._responses.get(timeout=120)
        if isinstance(response, grpc.RpcError):
            raise Refused(response)
        return response

    def nothing_received(self) -> bool:
        return self._responses.empty()

    def arbitrate(self, election_id: int | None = None, role: str = "") -> Any:
        """Send an arbitration update; the answer's ``arbitration``."""
        if election_id is not None:
            self.election_id = election_id
        self.role = role
        request = p4runtime_pb2.StreamMessageRequest()
        request.arbitration.device_id = self.device_id
        if self.election_id is not None:
            self._identify_election(request.arbitration.election_id)
        if role:
            request.arbitration.role.name = role
        self.send(request)
        return self.receive().arbitration

    def half_close(self) -> None:
        self._requests.put(None)

    def leave(self) -> None:
        """Half-close the stream and wait for its end: the server has let the client go by then."""
        self.half_close()
        self._receiver.join(120)
        assert not self._receiver.is_alive()

    # -- unary

    def _identify_election(self, message: Any) -> None:
        assert self.election_id is not None
        message.high = self.election_id >> 64
        message.low = self.election_id & (1 << 64) - 1

    def _identify(self, request: Any) -> None:
        request.device_id = self.device_id
        request.role = self.role
        if self.election_id is not None:
            request.election_id.SetInParent()
            self._identify_election(request.election_id)

    def push(self, files: Files, action: str = "VERIFY_AND_COMMIT", cookie: int = 0) -> None:
        request = config_request(files, action, cookie)
        self._identify(request)
        self.set_config(request)
        self.info = p4info_pb2.P4Info()
        text_format.Merge(files.p4info.read_text(), self.info)

    def set_config(self, request: Any) -> None:
        try:
            self.stub.SetForwardingPipelineConfig(request, timeout=120)
        except grpc.RpcError as error:
            raise Refused(error) from None

    def get_config(self, response_type: str = "ALL") -> Any:
        request = p4runtime_pb2.GetForwardingPipelineConfigRequest(device_id=self.device_id)
        request.response_type = request.ResponseType.Value(response_type)
        try:
            return self.stub.GetForwardingPipelineConfig(request, timeout=120)
        except grpc.RpcError as error:
            raise Refused(error) from None

    def write(self, *updates: tuple[int, str], atomicity: int = 0) -> None:
        """Write entities, each an update type and an ``Entity`` in protobuf's text format."""
        request = p4runtime_pb2.WriteRequest(atomicity=atomicity)
        self._identify(request)
        for kind, text in updates:
            update = request.updates.add(type=kind)
            text_format.Merge(self.by_id(text), update.entity)
        self.write_request(request)

    def write_request(self, request: Any) -> None:
        try:
            self.stub.Write(request, timeout=120)
        except grpc.RpcError as error:
            raise Refused(error) from None

    def read(self, *queries: str) -> list[Any]:
        """The entities that queries, each an ``Entity`` in text format, select."""
        request = p4runtime_pb2.ReadRequest(device_id=self.device_id)
        for text in queries:
            text_format.Merge(self.by_id(text), request.entities.add())
        try:
            responses = list(self.stub.Read(request, timeout=120))
        except grpc.RpcError as error:
            raise Refused(error) from None
        return [entity for response in responses for entity in response.entities]

    def entity(self, text: str) -> Any:
        return text_format.Merge(self.by_id(text), p4runtime_pb2.Entity())

    def by_id(self, text: str) -> str:
        """Replace ``@name`` by the id that the P4Info has for the object of that alias."""
        return text if self.info is None else substituted(text, ids_of(self.info))


Connect = Callable[..., BareClient]


# -- entities of every_entity.p4 in protobuf's text format, to be formatted -----------------------

SEND = r"""table_entry {{ table_id: @exact_table
    match {{ field_id: 1 exact {{ value: "\x0{a}" }} }}
    match {{ field_id: 2 exact {{ value: "\x01\x02" }} }}
    action {{ action {{ action_id: @send params {{ param_id: 1 value: "\x05" }} }} }} }}"""

ROUTE = r"""table_entry {{ table_id: @lpm_table
    match {{ field_id: 1 lpm {{ value: "{value}" prefix_len: {length} }} }}
    action {{ action {{ action_id: @send params {{ param_id: 1 value: "\x05" }} }} }} }}"""

TERNARY = r"""table_entry {{ table_id: @priority_table priority: {priority}
    {match} match {{ field_id: 4 exact {{ value: "\x01" }} }}
    action {{ action {{ action_id: @mark params {{ param_id: 1 value: "\x05" }} }} }} }}"""

GROUP = r"""packet_replication_engine_entry {{ multicast_group_entry {{ multicast_group_id: {id}
    replicas {{ port: "\x02" instance: 1 }} replicas {{ port: "\x03" instance: 1 }} }} }}"""


def taken(outbox: ClientOutbox) -> list[Any]:
    """Take all messages that wait in an outbox, and return them."""
    return [outbox.get() for _ in range(len(outbox._waiting))]
