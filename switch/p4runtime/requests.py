"""What each unary RPC does to a device, without gRPC: the caller holds ``device.lock``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from switch.p4runtime import arrays, profiles, replication, tables
from switch.p4runtime.device import Config, Device, Notes
from switch.p4runtime.p4info import ProgramInfo, check_names
from switch.p4runtime.refusals import Refusal, as_refusal, invalid, not_found, unimplemented

API_VERSION = "1.4.1"

ENTITIES_PER_RESPONSE = 512
"""A read's answer is a stream of messages of so many entities."""

Writer = Callable[[Device, int, Any], None]
Reader = Callable[[Device, Any], Iterator[Any]]

WRITERS: dict[str, Writer] = {
    "table_entry": tables.write_table_entry,
    "direct_counter_entry": tables.write_direct_counter,
    "action_profile_member": profiles.write_member,
    "action_profile_group": profiles.write_group,
    "packet_replication_engine_entry": replication.write_replication,
    "counter_entry": arrays.write_counter,
    "register_entry": arrays.write_register,
}

READERS: dict[str, Reader] = {
    "table_entry": tables.read_table_entries,
    "direct_counter_entry": tables.read_direct_counters,
    "action_profile_member": profiles.read_members,
    "action_profile_group": profiles.read_groups,
    "packet_replication_engine_entry": replication.read_replication,
    "counter_entry": arrays.read_counters,
    "register_entry": arrays.read_registers,
}

KINDS = {p4runtime_pb2.Update.INSERT, p4runtime_pb2.Update.MODIFY, p4runtime_pb2.Update.DELETE}

_SET = p4runtime_pb2.SetForwardingPipelineConfigRequest
_GET = p4runtime_pb2.GetForwardingPipelineConfigRequest


def write(device: Device, request: Any) -> list[Refusal | None]:
    """Apply a batch in order and publish it as one version; one outcome per update.

    Raises Refusal where not even the first update can be tried.
    """
    device.info  # noqa: B018 - a program must run
    if request.atomicity != p4runtime_pb2.WriteRequest.CONTINUE_ON_ERROR:
        raise unimplemented("atomicity: only CONTINUE_ON_ERROR is supported")
    outcomes: list[Refusal | None] = []
    for update in request.updates:
        try:
            _write_one(device, update)
        except Exception as error:
            outcomes.append(as_refusal(error))
        else:
            outcomes.append(None)
    device.control.publish()
    return outcomes


def _write_one(device: Device, update: Any) -> None:
    if update.type not in KINDS:
        raise invalid(f"update type {update.type} is none of INSERT, MODIFY, DELETE")
    kind = update.entity.WhichOneof("entity")
    if kind is None:
        raise invalid("an update without entity")
    writer = WRITERS.get(kind)
    if writer is None:
        raise unimplemented(f"{kind}: not supported by this switch")
    writer(device, update.type, getattr(update.entity, kind))


def read(device: Device, request: Any) -> tuple[list[bytes], list[Refusal | None]]:
    """Serialised responses with what a request selects, and one outcome per query.

    Serialised at once, as a large counter's entities take fifty times the memory as messages.
    """
    device.info  # noqa: B018 - a program must run
    responses: list[bytes] = []
    response = p4runtime_pb2.ReadResponse()
    outcomes: list[Refusal | None] = []
    for query in request.entities:
        try:
            for entity in _read_one(device, query):
                response.entities.append(entity)
                if len(response.entities) == ENTITIES_PER_RESPONSE:
                    responses.append(response.SerializeToString())
                    response.Clear()
        except Exception as error:
            outcomes.append(as_refusal(error))
        else:
            outcomes.append(None)
    if response.entities:
        responses.append(response.SerializeToString())
    return responses, outcomes


def _read_one(device: Device, query: Any) -> Iterator[Any]:
    kind = query.WhichOneof("entity")
    if kind is None:
        raise invalid("a query without entity; ask for each kind of entity by itself")
    reader = READERS.get(kind)
    if reader is None:
        raise unimplemented(f"{kind}: not supported by this switch")
    return reader(device, getattr(query, kind))


def set_config(device: Device, request: Any) -> None:
    """Verify, save or commit a pipeline config; raises Refusal or the engine's errors."""
    action = request.action
    if action == _SET.COMMIT:
        if request.HasField("config"):
            raise invalid("COMMIT takes no config: it commits the one saved before")
        if device.saved is None:
            raise not_found("COMMIT: no config was saved before; use VERIFY_AND_SAVE first")
        device.control.commit_program()
        device.running, device.saved, device.notes = device.saved, None, Notes()
        return
    if action not in (
        _SET.VERIFY,
        _SET.VERIFY_AND_SAVE,
        _SET.VERIFY_AND_COMMIT,
        _SET.RECONCILE_AND_COMMIT,
    ):
        raise invalid(
            f"action {action} is none of VERIFY, VERIFY_AND_SAVE, VERIFY_AND_COMMIT, "
            "COMMIT, RECONCILE_AND_COMMIT"
        )
    if not request.HasField("config"):
        raise invalid(f"{_SET.Action.Name(action)} needs a config")
    config, text = _read_config(request.config)
    if action == _SET.VERIFY:
        device.control.load_program(text, load="verify")
        return
    device.control.load_program(text, load="save")
    if action == _SET.VERIFY_AND_SAVE:
        device.saved = config
        return
    reconcile = action == _SET.RECONCILE_AND_COMMIT
    device.control.commit_program(reconcile=reconcile)
    device.running, device.saved = config, None
    if not reconcile:
        device.notes = Notes()


def _read_config(message: Any) -> tuple[Config, str]:
    info = ProgramInfo(message.p4info)
    try:
        text, program = _read_program(message.p4_device_config)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise invalid(f"p4_device_config: not BMv2 JSON ({error})") from error
    if not isinstance(program, dict):
        raise invalid("p4_device_config: not BMv2 JSON, which is one object")
    check_names(info, program)
    return Config(message, info), text


@lru_cache(maxsize=1)
def _read_program(device_config: bytes) -> tuple[str, Any]:
    """A program as text and as JSON; every switch of a fabric is given the same one."""
    text = device_config.decode()
    return text, json.loads(text)


def get_config(device: Device, request: Any) -> Any:
    """The config that entities refer to, or the parts of it that are asked for."""
    response = p4runtime_pb2.GetForwardingPipelineConfigResponse()
    current = device.saved or device.running
    if current is None:
        return response
    kept = current.message
    config = response.config
    config.SetInParent()
    wanted = request.response_type
    if wanted in (_GET.ALL, _GET.P4INFO_AND_COOKIE):
        config.p4info.CopyFrom(kept.p4info)
    if wanted in (_GET.ALL, _GET.DEVICE_CONFIG_AND_COOKIE):
        config.p4_device_config = kept.p4_device_config
    if kept.HasField("cookie"):
        config.cookie.CopyFrom(kept.cookie)
    return response


def check_device(device: Device, device_id: int) -> None:
    """Raise NOT_FOUND unless a request means this device."""
    if device_id != device.device_id:
        raise Refusal(
            code_pb2.NOT_FOUND, f"no device {device_id} here; this is device {device.device_id}"
        )
