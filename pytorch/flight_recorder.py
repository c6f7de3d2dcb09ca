"""The flight recorder: the last operations of this process's groups, in torch's own format.

Torch's recorder can be fed by back ends in C++ alone. So what it is asked for by
`torch._C._distributed_c10d._dump_fr_trace` gets what is recorded here added to it.
"""

import functools
import json
import pickle
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
import torch._C._distributed_c10d as c10d

SIZE = "TORCH_FR_BUFFER_SIZE"
"""The environment variable by which torch is told how many operations to keep; 0: none."""
DEFAULT_SIZE = 2000
OWN_FOLDER = str(Path(__file__).parent)
RUNS_PROGRAMS = str(Path(__file__).with_name("launch.py"))
"""The module that runs programs: what has called it is none of theirs."""
NAMES = {
    "allreduce": "all_reduce", "allreduce_coalesced": "all_reduce", "allgather": "all_gather",
    "allgather_coalesced": "all_gather", "alltoall": "all_to_all",
    "all_to_all_single": "all_to_all", "reduce_scatter_single": "reduce_scatter",
    "reduce_scatter_single_coalesced": "reduce_scatter", "all_gather_single": "all_gather",
    "all_gather_single_coalesced": "all_gather", "recv_anysource": "recv",
}  # fmt: skip
"""What torch's tools call operations, where that is not what a group's method is called."""
TYPES = {
    torch.float64: "Double", torch.float32: "Float", torch.float16: "Half",
    torch.bfloat16: "BFloat16", torch.int64: "Long", torch.int32: "Int", torch.int16: "Short",
    torch.int8: "Char", torch.uint8: "Byte", torch.bool: "Bool",
    torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble",
}  # fmt: skip
"""What torch's recorder calls types of elements."""

Shapes = Sequence[tuple[Sequence[int], torch.dtype]]


def shown_as(what: str) -> str:
    """Return what torch's tools call an operation."""
    return f"weft:{NAMES.get(what, what)}"


@dataclass
class RecordedGroup:
    """A group as the recorder knows it, and how far it has come."""

    number: int
    name: str
    ranks: Sequence[int]
    """Of the run."""
    description: str = "undefined"
    begun: int = 0
    """How many operations of all kinds there were,"""
    collectives: int = 0
    messages: int = 0
    completed: int = -1
    """and the last one that has ended well."""


@dataclass
class Entry:
    """An operation of a group."""

    group: RecordedGroup
    name: str
    number: int
    """Its place among all operations of the group,"""
    collective: int
    """and how many collectives there were until then,"""
    message: int
    """and messages."""
    is_message: bool
    inputs: Shapes
    outputs: Shapes
    timeout: timedelta
    created_ns: int
    """Times are those of CLOCK_REALTIME."""
    thread: str
    thread_id: int
    frames: Sequence[tuple[CodeType, int]]
    """Who has called it, the innermost first: code and line."""
    completed_ns: int | None = None
    over: bool = False
    """Whether it has ended, well or not."""

    def ended(self, error: str) -> None:
        """Take note of its end."""
        self.over = True
        if not error:
            self.completed_ns = time.time_ns()
            self.group.completed = max(self.group.completed, self.number)


class FlightRecorder:
    """A flight recorder keeps the last operations of all groups of this process.

    Args:
        size: how many it keeps.
    """

    def __init__(self, size: int) -> None:
        self._entries: deque[Entry] = deque(maxlen=size)
        self._groups: list[RecordedGroup] = []
        self._lock = threading.Lock()
        self._recorded = 0

    def group(self, name: str, ranks: Sequence[int]) -> RecordedGroup:
        """Return a new group."""
        with self._lock:
            self._groups.append(RecordedGroup(len(self._groups), name, list(ranks)))
            return self._groups[-1]

    def begun(
        self,
        group: RecordedGroup,
        what: str,
        between: str,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        timeout: timedelta,
    ) -> Entry:
        """Take note of an operation that begins.

        Args:
            between: the ranks between which a message goes, as ``0->1``; empty: a collective.
        """
        thread = threading.current_thread()
        frames = [(frame.f_code, frame.f_lineno) for frame in _callers(sys._getframe(1))]
        with self._lock:
            group.begun += 1
            group.messages += bool(between)
            group.collectives += not between
            entry = Entry(
                group, f"{shown_as(what)} {between}".strip(), group.begun, group.collectives,
                group.messages, bool(between), _shapes(inputs), _shapes(outputs), timeout,
                time.time_ns(), thread.name, thread.ident or 0, frames,
            )  # fmt: skip
            self._entries.append(entry)
            self._recorded += 1
        return entry

    def dump(
        self, collectives: bool = True, stacks: bool = True, only_active: bool = False
    ) -> dict[str, Any]:
        """Return what there is, as torch's recorder has it in version 2.10 of its format."""
        with self._lock:
            entries, first = list(self._entries), self._recorded - len(self._entries)
            groups = list(self._groups)
        found: dict[str, Any] = {
            "pg_config": {
                group.name: {
                    "name": group.name, "desc": group.description,
                    "ranks": json.dumps(list(group.ranks)),
                }
                for group in groups
            },
            "pg_status": {
                str(group.number): {
                    "last_enqueued_collective": group.begun, "last_started_collective": -1,
                    "last_completed_collective": group.completed,
                }
                for group in groups if group.begun
            },
        }  # fmt: skip
        if collectives:
            found["entries"] = [
                _as_torch_has_it(entry, number, stacks)
                for number, entry in enumerate(entries, first)
                if not (only_active and entry.over)
            ]
        return found


def size_of(environment: Mapping[str, str]) -> int:
    """Return how many operations are to be kept."""
    given = environment.get(SIZE, "")
    return int(given) if given.isdecimal() else DEFAULT_SIZE


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of a program from one of them outwards, but for those of Weft and of the
    compiler."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name == RUNS_PROGRAMS:
            return
        if not name.startswith((OWN_FOLDER, "<frozen runpy>")) and "_dynamo" not in name:
            yield frame
        frame = frame.f_back


def _shapes(tensors: Sequence[torch.Tensor]) -> Shapes:
    return [(tuple(tensor.shape), tensor.dtype) for tensor in tensors]


def _as_torch_has_it(entry: Entry, number: int, stacks: bool) -> dict[str, Any]:
    group = entry.group
    frames = [
        {"name": code.co_name, "filename": code.co_filename, "line": line}
        for code, line in entry.frames
    ]

    def types(shapes: Shapes) -> list[str]:
        return [TYPES.get(dtype, str(dtype)) for _, dtype in shapes]

    return {
        **({"frames": frames} if stacks else {}),
        "record_id": number, "pg_id": group.number,
        "process_group": (group.name, group.description), "thread_name": entry.thread,
        "thread_id": str(entry.thread_id), "collective_seq_id": entry.collective,
        "p2p_seq_id": entry.message, "op_id": entry.number, "profiling_name": entry.name,
        "time_created_ns": entry.created_ns,
        "input_sizes": [[*shape] for shape, _ in entry.inputs],
        "input_dtypes": types(entry.inputs),
        "output_sizes": [[*shape] for shape, _ in entry.outputs],
        "output_dtypes": types(entry.outputs),
        "state": "scheduled" if entry.completed_ns is None else "completed",
        "time_discovered_started_ns": None, "time_discovered_completed_ns": entry.completed_ns,
        "retired": entry.over, "timeout_ms": int(entry.timeout.total_seconds() * 1000),
        "is_p2p": entry.is_message,
    }  # fmt: skip


def add_to_torchs(find: Callable[[], FlightRecorder | None]) -> None:
    """Let what torch's own recorder is asked for have the entries of another one, too.

    Args:
        find: returns that, if there is one.
    """

    def merged(theirs: dict[str, Any], *asked: bool | None) -> dict[str, Any]:
        recorder = find()
        if recorder is None:
            return theirs
        collectives, stacks, only_active = asked
        ours = recorder.dump(collectives is not False, stacks is not False, bool(only_active))
        for key in ("pg_config", "pg_status"):
            theirs.setdefault(key, {}).update(ours[key])
        if "entries" in ours:
            theirs["entries"] = [*theirs.get("entries", []), *ours["entries"]]
        return theirs

    as_pickle: Callable[..., bytes] = c10d._dump_fr_trace
    as_json: Callable[..., bytes] = c10d._dump_fr_trace_json

    @functools.wraps(as_pickle)
    def dump(
        includeCollectives: bool | None = None,
        includeStackTraces: bool | None = None,
        onlyActive: bool | None = None,
    ) -> bytes:
        asked = (includeCollectives, includeStackTraces, onlyActive)
        return pickle.dumps(merged(pickle.loads(as_pickle(*asked)), *asked))

    @functools.wraps(as_json)
    def dump_json(
        includeCollectives: bool | None = None,
        onlyActive: bool | None = None,
    ) -> bytes:
        theirs = json.loads(as_json(includeCollectives, onlyActive))
        return json.dumps(merged(theirs, includeCollectives, False, onlyActive)).encode()

    c10d._dump_fr_trace = dump
    c10d._dump_fr_trace_json = dump_json
