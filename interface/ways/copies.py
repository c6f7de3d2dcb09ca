"""A copy of a switch that is up, for the interpreter: its program and its tables, over P4Runtime.

Reading needs no ownership of the switch, so it disturbs nobody.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import grpc

from weft.controller.remote import DEADLINE_S, Address, SwitchError, client_at
from weft.switch.engine.program.algorithms import CrcParameters
from weft.switch.engine.switches import Dataplane, Queue
from weft.switch.interpreter.interpreter import Interpreter
from weft.switch.interpreter.memory import Memory, Overlay
from weft.switch.interpreter.surroundings import Surroundings
from weft.switch.messages import own_call, p4runtime_pb2
from weft.switch.p4runtime.local import LocalSwitch

Update = p4runtime_pb2.Update

UNSUPPORTED = ("UNIMPLEMENTED", "NOT_FOUND", "INVALID_ARGUMENT")
"""What BMv2 says of entities that its P4Runtime does not serve."""


IDENTITY = frozenset((
    "table_id", "match", "priority", "is_default_action", "action_profile_id", "member_id",
    "group_id", "value_set_id", "multicast_group_id", "session_id",
))  # fmt: skip
"""The fields that say which entity one is."""

CONTENT = IDENTITY | {
    "action", "members", "max_size", "replicas", "class_of_service", "packet_length_bytes",
}  # fmt: skip
"""The fields that decide where packets go, too."""


class SwitchCopy:
    """A switch's program and tables as they were when it was read; registers are read where a
    packet asks for a cell, and are 0 where the switch does not tell them."""

    def __init__(self, name: str, device_id: int, address: Address) -> None:
        """Read the switch. Raises SwitchError if it is not there, or runs no program."""
        self.name, self._device_id = name, device_id
        self._client = client_at(name, device_id, address)
        try:
            self._config = self._program()
            self._p4info = self._config.p4info
            self.unread: list[str] = []
            """What the switch does not tell."""
            self._entities = list(self._all(self._read, tolerant=True))
            self._crcs = self._custom_crcs()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the connection; registers are read no more."""
        self._client.tear_down()

    def _program(self) -> Any:
        request = p4runtime_pb2.GetForwardingPipelineConfigRequest(
            device_id=self._device_id, response_type="ALL"
        )
        try:
            answer = self._client.stub.GetForwardingPipelineConfig(request, timeout=DEADLINE_S)
        except grpc.RpcError as error:
            raise self._error("tell its program", error) from None
        return answer.config

    def _error(self, what: str, error: Any) -> SwitchError:
        return SwitchError(f"{self.name} could not {what}: {error.code().name}: {error.details()}")

    def _read(self, entity: Any) -> Iterator[Any]:
        request = p4runtime_pb2.ReadRequest(device_id=self._device_id, entities=[entity])
        for response in self._client.stub.Read(request, timeout=DEADLINE_S):
            yield from response.entities

    def _all(self, read: Any, *, tolerant: bool) -> Iterator[Any]:
        """Yield all entities that decide where packets go, in an order in which they can be
        written."""
        for query in self._queries():
            try:
                yield from read(query)
            except grpc.RpcError as error:
                code: Any = error
                if not tolerant or code.code().name not in UNSUPPORTED:
                    raise self._error("be read", error) from None
                self.unread.append(str(query.WhichOneof("entity")))

    def _custom_crcs(self) -> dict[str, CrcParameters]:
        """Return what has been set of custom CRCs; nothing where the switch has no such call."""
        with suppress(grpc.RpcError):
            crcs = own_call(self._client.stub, "crcs", {}, DEADLINE_S)
            return {name: CrcParameters(**one) for name, one in crcs.items()}
        return {}

    def _queries(self) -> Iterator[Any]:
        entity = p4runtime_pb2.Entity
        if self._p4info.action_profiles:
            yield entity(action_profile_member={})
            yield entity(action_profile_group={})
        engine = "packet_replication_engine_entry"
        yield entity(**{engine: {"multicast_group_entry": {}}})
        yield entity(**{engine: {"clone_session_entry": {}}})
        for value_set in self._p4info.value_sets:
            yield entity(value_set_entry={"value_set_id": value_set.preamble.id})
        for table in self._p4info.tables:
            one = {"table_id": table.preamble.id}
            yield entity(table_entry=one)
            yield entity(table_entry={**one, "is_default_action": True})

    def interpreter(
        self, ports: Iterable[int], down: Iterable[int], priority_queues: int
    ) -> Interpreter:
        """Return an interpreter of what the switch runs, with its ports; ``down`` are those whose
        link has failed."""
        numbers = sorted(ports)
        dataplane = Dataplane(1, numbers[-1] + 1, packets=8, plain=True)
        for port in numbers:
            dataplane.set_port(0, port, Queue())
        control = dataplane.control(0, self.name)
        copy = LocalSwitch(control, self._device_id)
        client, _ = copy.arbitrate((0, 1))
        election = {"low": 1}
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(
            device_id=self._device_id, election_id=election, action="VERIFY_AND_COMMIT",
            config=self._config,
        )  # fmt: skip
        try:
            copy.stub.SetForwardingPipelineConfig(request)
            self._write(copy, election)
        except grpc.RpcError as error:
            raise self._error("be copied", error) from None
        finally:
            copy.leave(client)
        contents = control.contents()
        contents.ports_down.update(down)
        program = control.pipelines[0].program
        memory = Memory.of(program)
        memory.crcs.update(self._crcs)
        for one in self._p4info.registers:
            name = one.preamble.name
            if name in memory.registers:
                size = program.registers[name].size
                memory.registers[name] = Overlay(size, self._cell_reader(one.preamble.id))
        return Interpreter(
            program, contents, memory, Surroundings(has_port=set(numbers).__contains__)
        )

    def _write(self, copy: LocalSwitch, election: Any) -> None:
        """Bring the copy to what the switch has: what its program gives may have been changed."""

        def read_copy(query: Any) -> Iterator[Any]:
            request = p4runtime_pb2.ReadRequest(device_id=self._device_id, entities=[query])
            for response in copy.stub.Read(request):
                yield from response.entities

        own = {_identity(one): _only(one, CONTENT) for one in self._all(read_copy, tolerant=False)}
        updates = []
        for entity in (_only(one, CONTENT) for one in self._entities):
            before = own.pop(_identity(entity), None)
            says_nothing = _is_default(entity) and not entity.table_entry.HasField("action")
            if before != entity and not says_nothing:
                new = before is None and not _is_default(entity)
                updates.append(Update(type=Update.INSERT if new else Update.MODIFY, entity=entity))
        updates += [
            Update(type=Update.DELETE, entity=one) for one in own.values() if not _is_default(one)
        ]
        request = p4runtime_pb2.WriteRequest(
            device_id=self._device_id, election_id=election, updates=updates
        )
        if updates:
            copy.stub.Write(request)

    def _cell_reader(self, register: int) -> Any:
        def read(index: int) -> int:
            cell = {"register_id": register, "index": {"index": index}}
            try:
                found = list(self._read(p4runtime_pb2.Entity(register_entry=cell)))
            except grpc.RpcError:
                self.unread.append("register_entry")
                return 0
            return int.from_bytes(found[0].register_entry.data.bitstring, "big") if found else 0

        return read


def _only(entity: Any, names: frozenset[str]) -> Any:
    """Return an entity with these of its fields alone."""
    copy = type(entity)()
    copy.CopyFrom(entity)
    one = getattr(copy, copy.WhichOneof("entity"))
    if copy.WhichOneof("entity") == "packet_replication_engine_entry":
        one = getattr(one, one.WhichOneof("type"))
    for field, _ in one.ListFields():
        if field.name not in names:
            one.ClearField(field.name)
    return copy


def _identity(entity: Any) -> bytes:
    """Return what makes two entities the same, whatever they say."""
    return bytes(_only(entity, IDENTITY).SerializeToString(deterministic=True))


def _is_default(entity: Any) -> bool:
    return bool(entity.table_entry.is_default_action)
