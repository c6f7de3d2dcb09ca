"""What flows add to a run's result: when each of them was under way."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from weft.experiments.scenario.part import Part, Run


class FlowTimes(Part, frozen=True):
    """The times of the flows of a workload in order, as a list for each property.

    Times are in ns from the common start, and null for what did not happen.
    """

    key: ClassVar = "flows"
    is_always_written: ClassVar = True
    table: ClassVar = "flows"
    columns: ClassVar = (
        "flow", "source", "destination", "size_bytes", "begun_ns", "received_ns", "acknowledged_ns",
    )  # fmt: skip

    source: list[int]
    """The rank that sends each flow."""
    destination: list[int]
    size_bytes: list[int]
    begun_ns: list[int | None]
    """When its first byte could be sent."""
    received_ns: list[int | None]
    """When its destination had received all of it."""
    acknowledged_ns: list[int | None]
    """When its source knew that."""

    def completions_ns(self) -> list[int]:
        """Return how long each flow that has arrived took from its begin on, in ns, sorted."""
        pairs = zip(self.begun_ns, self.received_ns, strict=True)
        return sorted(end - begun for begun, end in pairs if begun is not None and end is not None)

    @classmethod
    def remark(cls, algorithm: str, runs: Sequence[Run]) -> str:
        """Say how long the flows took."""
        from weft.experiments.results.summary import short_duration

        times_ns = sorted(time for run in runs for time in run.part(cls).completions_ns())
        if not times_ns:
            return ""
        half, most = times_ns[len(times_ns) // 2], times_ns[-(-99 * len(times_ns) // 100) - 1]
        return (
            f"{len(times_ns)} flows by {algorithm}"
            f"{f' in {len(runs)} runs' if len(runs) > 1 else ''}: "
            f"median {short_duration(half)}, "
            f"99 % within {short_duration(most)}, the longest {short_duration(times_ns[-1])}"
        )

    def events(self, process: int, thread_of: Callable[[int], int]) -> Iterator[dict[str, Any]]:
        """Yield the flows between ranks, from their beginning to their arrival, as trace events: a
        thread for each rank that sends any.

        Args:
            thread_of: the number of the thread, by the rank.
        """
        from weft.experiments.plots.trace import complete, named

        for row in self.rows():
            thread, times_ns = thread_of(row["source"]), (row["begun_ns"], row["received_ns"])
            if None not in times_ns:
                name = f"rank {row['source']} to {row['destination']}, {row['size_bytes']} B"
                yield complete(name, "flow", process, thread, *times_ns)
        for source in sorted({*self.source}):
            yield named("thread_name", process, thread_of(source), f"flows of rank {source}")
