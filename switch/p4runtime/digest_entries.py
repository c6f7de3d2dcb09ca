"""Digests as entities and stream messages (specification section "DigestEntry")."""

import logging
from collections.abc import Iterator
from dataclasses import asdict, astuple, fields
from typing import Any

from weft.base.errors import refuse
from weft.switch.messages import DELETE, INSERT, p4runtime_pb2
from weft.switch.p4runtime.data_values import encode_data
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.digests import Limits
from weft.switch.p4runtime.refusals import Refusal, already_exists, invalid, not_found

_log = logging.getLogger(__name__)


def write_digest(device: Device, kind: int, message: Any) -> None:
    """Switch a digest on (INSERT), off (DELETE), or change its limits (MODIFY)."""
    digest = device.info.digests.find(message.digest_id)
    learners = device.notes.digests.learners
    refuse(
        kind == INSERT and digest.name in learners,
        f"digest {digest.name} is switched on already",
        already_exists,
    )
    refuse(
        kind != INSERT and digest.name not in learners,
        f"digest {digest.name} is not switched on; INSERT it first",
        not_found,
    )
    if kind == DELETE:
        del learners[digest.name]
        return
    limits = Limits(*(getattr(message.config, one.name) for one in fields(Limits)))
    refuse(min(astuple(limits)) < 0, f"digest {digest.name}: a negative limit in {limits}", invalid)
    device.notes.digests.configure(digest.name, limits)


def read_digests(device: Device, query: Any) -> Iterator[Any]:
    """Yield one digest's limits, or (id 0) those of all digests that are switched on."""
    for digest in device.info.digests.chosen(query.digest_id):
        learner = device.notes.digests.learners.get(digest.name)
        if learner is not None:
            config = p4runtime_pb2.DigestEntry.Config(**asdict(learner.limits))
            yield p4runtime_pb2.DigestEntry(digest_id=digest.id, config=config)


def acknowledge(device: Device, message: Any) -> None:
    """Take a ``DigestListAck``; INVALID_ARGUMENT for an unknown digest."""
    digest = device.running_info.digests.find(message.digest_id)
    learner = device.running_notes.digests.learners.get(digest.name)
    if learner is not None:
        learner.acknowledge(message.list_id)


def digest_lists(device: Device, now_ns: int, epoch_ns: int) -> Iterator[tuple[str, Any]]:
    """Yield the ``StreamMessageResponse`` messages that are due, each with the role of its
    digest."""
    info = device.running_info
    for name, list_id, messages in device.running_notes.digests.lists(now_ns):
        digest = info.digests.by_name[name]
        told = p4runtime_pb2.DigestList(digest_id=digest.id, list_id=list_id, timestamp=epoch_ns)
        try:
            for values in messages:
                encode_data(digest.type_spec, info.message.type_info, iter(values), told.data.add())
        except (Refusal, StopIteration) as error:
            _log.error("digest %s does not fit its P4Info: %s", name, error)
            continue
        yield digest.role, p4runtime_pb2.StreamMessageResponse(digest=told)
