"""Digests as entities and stream messages (specification section "DigestEntry")."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from google.rpc import code_pb2

from weft.switch.messages import p4runtime_pb2
from weft.switch.p4runtime.data_values import encode_data
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.digests import Limits
from weft.switch.p4runtime.refusals import Refusal, invalid, not_found

_log = logging.getLogger(__name__)

INSERT = p4runtime_pb2.Update.INSERT
DELETE = p4runtime_pb2.Update.DELETE


def write_digest(device: Device, kind: int, message: Any) -> None:
    """Switch a digest on (INSERT), off (DELETE), or change its limits (MODIFY)."""
    digest = device.info.digest(message.digest_id)
    learners = device.notes.digests.learners
    if kind == INSERT and digest.name in learners:
        raise Refusal(code_pb2.ALREADY_EXISTS, f"digest {digest.name} is switched on already")
    if kind != INSERT and digest.name not in learners:
        raise not_found(f"digest {digest.name} is not switched on; INSERT it first")
    if kind == DELETE:
        del learners[digest.name]
        return
    config = message.config
    limits = Limits(config.max_timeout_ns, config.max_list_size, config.ack_timeout_ns)
    if min(limits.max_timeout_ns, limits.max_list_size, limits.ack_timeout_ns) < 0:
        raise invalid(f"digest {digest.name}: a negative limit in {limits}")
    device.notes.digests.configure(digest.name, limits)


def read_digests(device: Device, query: Any) -> Iterator[Any]:
    """One digest's limits, or (id 0) those of all that are switched on."""
    info = device.info
    digests = [info.digest(query.digest_id)] if query.digest_id else info.digests.values()
    for digest in digests:
        learner = device.notes.digests.learners.get(digest.name)
        if learner is not None:
            entity = p4runtime_pb2.Entity()
            message = entity.digest_entry
            message.digest_id = digest.id
            message.config.SetInParent()
            message.config.max_timeout_ns = learner.limits.max_timeout_ns
            message.config.max_list_size = learner.limits.max_list_size
            message.config.ack_timeout_ns = learner.limits.ack_timeout_ns
            yield entity


def acknowledge(device: Device, message: Any) -> None:
    """Take a ``DigestListAck``; INVALID_ARGUMENT for an unknown digest."""
    digest = device.running_info.digest(message.digest_id)
    learner = device.running_notes.digests.learners.get(digest.name)
    if learner is not None:
        learner.acknowledge(message.list_id)


def digest_lists(device: Device, now_ns: int, epoch_ns: int) -> Iterator[tuple[str, Any]]:
    """``StreamMessageResponse`` messages that are due, each with the role of its digest."""
    info = device.running_info
    for name, list_id, messages in device.running_notes.digests.lists(now_ns):
        digest = info.digests_by_name[name]
        response = p4runtime_pb2.StreamMessageResponse()
        response.digest.digest_id = digest.id
        response.digest.list_id = list_id
        response.digest.timestamp = epoch_ns
        try:
            for values in messages:
                data = response.digest.data.add()
                encode_data(digest.type_spec, info.message.type_info, iter(values), data)
        except (Refusal, StopIteration) as error:
            _log.error("digest %s does not fit its P4Info: %s", name, error)
            continue
        yield digest.role, response
