"""Events of the trace event format, which Perfetto and chrome://tracing show; times in us."""

from typing import Any


def named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    """Return the event that names a process or a thread: ``process_name`` or ``thread_name``."""
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def complete(
    name: str, category: str, process: int, thread: int, begin_ns: int, end_ns: int
) -> dict[str, Any]:
    """Return the event of something that has a beginning and an end, in ns."""
    return {
        "ph": "X", "name": name, "cat": category, "pid": process, "tid": thread,
        "ts": begin_ns / 1000, "dur": (end_ns - begin_ns) / 1000,
    }  # fmt: skip
