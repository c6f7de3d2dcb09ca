"""Events of the trace event format, which Perfetto and chrome://tracing show; times in us."""

from collections.abc import Callable, Iterator
from typing import Any

from weft.experiments.results.results import Run


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


def flow_events(
    process: int, run: Run, thread_of: Callable[[int], int]
) -> Iterator[dict[str, Any]]:
    """Yield a run's flows between ranks, from their beginning to their arrival, as a thread for
    each rank that sends any.

    Args:
        thread_of: the number of the thread, by the rank.
    """
    flows = run.flows
    if flows is None:
        return
    for source, destination, size_bytes, begun_ns, received_ns in zip(
        flows.source, flows.destination, flows.size_bytes, flows.begun_ns, flows.received_ns,
        strict=True,
    ):  # fmt: skip
        if begun_ns is not None and received_ns is not None:
            name = f"rank {source} to {destination}, {size_bytes} B"
            yield complete(name, "flow", process, thread_of(source), begun_ns, received_ns)
    for source in sorted({*flows.source}):
        yield named("thread_name", process, thread_of(source), f"flows of rank {source}")
