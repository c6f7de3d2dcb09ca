"""What Write and Read do to a device, without gRPC; the caller holds ``device.lock``."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from google.rpc import code_pb2

from weft.base.errors import refuse
from weft.switch.messages import DELETE, INSERT, MODIFY, p4runtime_pb2
from weft.switch.p4runtime import arrays, groups, keys, notifications, tables
from weft.switch.p4runtime.arbitration import FULL, RoleScope
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.outcomes import Outcomes
from weft.switch.p4runtime.received import Elements, Malformed, RequestBatch
from weft.switch.p4runtime.refusals import (
    Refusal,
    as_refusal,
    exhausted,
    invalid,
    not_found,
    unimplemented,
)

API_VERSION = "1.4.1"

ENTITIES_PER_RESPONSE = 512
"""How many entities one message of an answer has; the answer is a stream of messages."""

MOST_ANSWER_BYTES = 1 << 28
"""The size of one read's answer, which is kept until the client has taken it; the query that goes
beyond it is the last that is answered."""

UPDATES_AT_ONCE = 1024
"""How many updates of a batch that goes on after errors are applied before others have their
turn."""

MOST_STAGED_BYTES = 1 << 28
"""The most bytes of the updates that COMMIT is to carry out again."""

Writer = Callable[[Device, int, Any], None]
Reader = Callable[[Device, Any], Iterator[Any]]

WRITERS: dict[str, Writer] = {
    "table_entry": tables.write_table_entry,
    "direct_counter_entry": tables.write_direct_counter,
    "direct_meter_entry": tables.write_direct_meter,
    "action_profile_member": groups.write_member,
    "action_profile_group": groups.write_group,
    "packet_replication_engine_entry": groups.write_replication,
    "counter_entry": arrays.write_counter,
    "meter_entry": arrays.write_meter,
    "register_entry": arrays.write_register,
    "value_set_entry": keys.write_value_set,
    "digest_entry": notifications.write_digest,
}

READERS: dict[str, Reader] = {
    "table_entry": tables.read_table_entries,
    "direct_counter_entry": tables.read_direct_counters,
    "direct_meter_entry": tables.read_direct_meters,
    "action_profile_member": groups.read_members,
    "action_profile_group": groups.read_groups,
    "packet_replication_engine_entry": groups.read_replication,
    "counter_entry": arrays.read_counters,
    "meter_entry": arrays.read_meters,
    "register_entry": arrays.read_registers,
    "value_set_entry": keys.read_value_sets,
    "digest_entry": notifications.read_digests,
}

KINDS = {INSERT, MODIFY, DELETE}

_WRITE = p4runtime_pb2.WriteRequest


@dataclass(frozen=True)
class BatchPart:
    """A part has some updates of a Write, to be applied while the lock is held."""

    atomicity: int
    updates: Elements


def parts(batch: RequestBatch) -> Iterator[BatchPart]:
    """Yield a Write in parts; others may have their turn between these."""
    updates = batch.elements
    if batch.head.atomicity != _WRITE.CONTINUE_ON_ERROR or len(updates) <= UPDATES_AT_ONCE:
        yield BatchPart(batch.head.atomicity, updates)
        return
    left = iter(updates)
    while some := list(islice(left, UPDATES_AT_ONCE)):
        yield BatchPart(batch.head.atomicity, some)


def write(device: Device, request: Any, role: RoleScope = FULL) -> Outcomes:
    """Apply the updates of a `BatchPart`, or of a WriteRequest, in order, publish them as one
    version, and return one outcome per update.

    With ROLLBACK_ON_ERROR and DATAPLANE_ATOMIC all updates take effect or none, packets see all at
    once, and where one fails the others are ABORTED. Raises Refusal where not even the first update
    can be tried.
    """
    device.info  # noqa: B018 - a program must run
    staged = device.staged
    refuse(
        staged is not None and staged.updates_bytes > MOST_STAGED_BYTES,
        f"more than {MOST_STAGED_BYTES} bytes of updates wait for COMMIT; call it first",
        exhausted,
    )
    done: list[bytes] = []
    match request.atomicity:
        case _WRITE.CONTINUE_ON_ERROR:
            outcomes = Outcomes()
            for update in request.updates:
                outcomes.add(_outcome(device, update, role, done))
            device.control.publish()
        case _WRITE.ROLLBACK_ON_ERROR | _WRITE.DATAPLANE_ATOMIC:
            outcomes = _write_all_or_none(device, request.updates, role, done)
        case _:
            raise invalid(f"atomicity {request.atomicity} is none of the three")
    if staged is not None:
        staged.keep(done)
    return outcomes


def _write_all_or_none(
    device: Device, updates: Elements, role: RoleScope, done: list[bytes]
) -> Outcomes:
    control = device.control
    snapshot, notes = control.snapshot(), device.notes.copy()
    device.begin()
    outcomes = Outcomes()
    for number, update in enumerate(updates):
        outcome = _outcome(device, update, role, done)
        if outcome is not None:
            control.restore(snapshot)
            device.notes = notes
            device.give_up()
            done.clear()
            aborted = Refusal(
                code_pb2.ABORTED, f"update {number + 1} of the batch failed: none took effect"
            )
            outcomes = Outcomes()
            after = len(updates) - number - 1
            for refusal, times in ((aborted, number), (outcome, 1), (aborted, after)):
                outcomes.add(refusal, times)
            return outcomes
        outcomes.add(None)
    control.publish(device.take_deferred())
    return outcomes


def _outcome(device: Device, update: Any, role: RoleScope, done: list[bytes]) -> Refusal | None:
    """Apply an update, and return why it failed, or None.

    An update that COMMIT is to carry out again is added to ``done``.
    """
    try:
        if isinstance(update, Malformed):
            raise update.refusal()
        write_one(device, update, role)
        if device.staged is not None:
            done.append(update.SerializeToString())
    except Exception as error:
        return as_refusal(error)
    return None


def write_one(device: Device, update: Any, role: RoleScope = FULL) -> None:
    """Apply one update without publishing it. Raises Refusal or the engine's errors."""
    kind = update.entity.WhichOneof("entity")
    message = getattr(update.entity, kind) if kind else None
    role.check_write(device.info, kind or "", message)
    refuse(
        update.type not in KINDS,
        f"update type {update.type} is none of INSERT, MODIFY, DELETE",
        invalid,
    )
    if kind is None:
        raise invalid("an update without entity")
    if kind not in WRITERS:
        raise unimplemented(f"{kind}: no extern of v1model has entries of this kind")
    WRITERS[kind](device, update.type, message)


def read(device: Device, queries: Elements, role: RoleScope = FULL) -> tuple[list[bytes], Outcomes]:
    """Return serialised responses with what queries select, and one outcome per query.

    Responses are serialised at once, as a large counter's entities take fifty times the memory as
    messages.
    """
    device.info  # noqa: B018 - a program must run
    responses: list[bytes] = []
    size_bytes = 0
    response = p4runtime_pb2.ReadResponse()
    outcomes = Outcomes()
    for query in queries:
        if size_bytes > MOST_ANSWER_BYTES:
            message = f"the answer has {size_bytes} bytes, {MOST_ANSWER_BYTES} is the limit"
            outcomes.add(
                exhausted(f"{message}; ask for less at a time"), len(queries) - len(outcomes)
            )
            break
        try:
            for kind, message in _read_one(device, query):
                if role.sees(device.info, kind, message):
                    response.entities.add(**{kind: message})
                    if len(response.entities) == ENTITIES_PER_RESPONSE:
                        responses.append(response.SerializeToString())
                        response.Clear()
                        size_bytes += len(responses[-1])
        except Exception as error:
            outcomes.add(as_refusal(error))
        else:
            outcomes.add(None)
    if response.entities:
        responses.append(response.SerializeToString())
    return responses, outcomes


def _read_one(device: Device, query: Any) -> Iterator[tuple[str, Any]]:
    """Return what a query selects: pairs of a kind of entity and the message of such an entity."""
    if isinstance(query, Malformed):
        raise query.refusal()
    kind = query.WhichOneof("entity")
    if kind is None:
        raise invalid("a query without entity; ask for each kind of entity by itself")
    if kind in READERS:
        return ((kind, message) for message in READERS[kind](device, getattr(query, kind)))
    refuse(
        query.extern_entry.extern_type_id or query.extern_entry.extern_id,
        f"no extern has type id {query.extern_entry.extern_type_id}; there are none",
        invalid,
    )
    return iter(())


def check_device(device: Device, device_id: int) -> None:
    """Raise NOT_FOUND unless a request names this device."""
    refuse(
        device_id != device.device_id,
        f"no device {device_id} here; this is device {device.device_id}",
        not_found,
    )
