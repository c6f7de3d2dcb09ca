"""One switch as the server sees it: its control, its program, and what only P4Runtime knows."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from google.rpc import code_pb2

from switch.engine.control import Key, SwitchControl
from switch.p4runtime.p4info import ProgramInfo
from switch.p4runtime.refusals import Refusal

EntryId = tuple[str, tuple[Key, ...] | None, int]
"""Table, key and priority of an entry; key None stands for the default entry."""


@dataclass(frozen=True)
class Opaque:
    """What a client attaches to a table entry and gets back, unread by the switch."""

    controller_metadata: int = 0
    metadata: bytes = b""


@dataclass(frozen=True)
class GroupForm:
    """How a client wrote a multicast group or clone session, so that it reads back the same."""

    ports_as_bytes: bool
    metadata: bytes = b""
    class_of_service: int = 0


@dataclass
class Notes:
    """What the server keeps beside the switch's own tables."""

    entries: dict[EntryId, Opaque] = field(default_factory=dict)
    one_shots: dict[str, set[EntryId]] = field(default_factory=dict)
    """Entries with a one-shot action set, by action profile."""
    multicast: dict[int, GroupForm] = field(default_factory=dict)
    clones: dict[int, GroupForm] = field(default_factory=dict)


@dataclass(frozen=True)
class Config:
    """A forwarding pipeline config: the message as it came, and its P4Info looked through."""

    message: Any
    info: ProgramInfo


class Device:
    """State of one switch; all use of it happens with ``lock`` held."""

    def __init__(self, control: SwitchControl, device_id: int) -> None:
        self.control = control
        self.device_id = device_id
        self.lock = threading.Lock()
        self.running: Config | None = None
        self.saved: Config | None = None
        self.notes = Notes()

    @property
    def info(self) -> ProgramInfo:
        """The program that entities refer to; FAILED_PRECONDITION if there is none."""
        if self.saved is not None:
            raise Refusal(
                code_pb2.UNIMPLEMENTED,
                f"{self.control.name}: a saved pipeline waits for COMMIT; entities of a pipeline "
                "that does not run yet can be neither written nor read",
            )
        if self.running is None:
            raise Refusal(
                code_pb2.FAILED_PRECONDITION,
                f"{self.control.name}: no forwarding pipeline; call SetForwardingPipelineConfig",
            )
        return self.running.info
