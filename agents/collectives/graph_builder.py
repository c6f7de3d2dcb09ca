"""A graph of flows, put together flow by flow."""

from collections.abc import Iterable, Mapping, Sequence

from weft.agents.collectives.flow_columns import NONE, FlowPlace, FlowPlaces, Sum
from weft.agents.collectives.flow_graph import DONE, FlowGraph


class GraphBuilder:
    """A builder makes a `FlowGraph` task by task. Events are (task, `DONE` or `RECEIVED`)."""

    def __init__(self) -> None:
        self._tasks: list[tuple[int, int, int, int, int]] = []
        self._edges: list[tuple[int, int, int]] = []
        self._follows: list[int] = []
        self._multicast: list[int] = []
        self._places: list[FlowPlace] = []
        self._multicasts = 0
        self._sums: list[Sum] = []
        self._pool: list[int] = []
        self.pools: list[int] = []
        """How many workgroups of each pool a rank has."""

    @property
    def flows(self) -> int:
        """Return how many flows were added so far."""
        return sum(task[0] != task[1] for task in self._tasks)

    def flow(
        self, source: int, destination: int, size_bytes: int,
        after: Iterable[tuple[int, int]] = (), delay_ns: int = 0, *,
        place: FlowPlace | None = None, follows: int = NONE,
    ) -> int:  # fmt: skip
        """Add a flow that waits for all of some events, and return its number.

        Args:
            place: where its bytes are; of all flows, or of none.
            follows: the flow whose bytes it sends on.
        """
        task = (source, destination, size_bytes, delay_ns)
        return self._add(task, after, None, place, follows)

    def multicast(
        self, source: int, targets: Mapping[int, int], size_bytes: int, memory: int, offset: int,
        after: Iterable[tuple[int, int]] = (),
    ) -> list[int]:  # fmt: skip
        """Add a multicast that waits for all of some events, and return its flows, in order.

        Args:
            targets: by destination, where its bytes go in the output there.
            memory, offset: where the source reads them; see `FlowPlaces`.
        """
        begin = ((self.wait(source, after=after), DONE),)
        number, self._multicasts = self._multicasts, self._multicasts + 1
        return [
            self._add(
                (source, destination, size_bytes, 0), begin, None,
                FlowPlace(memory, offset, target), multicast=number,
            )
            for destination, target in targets.items()
        ]  # fmt: skip

    def wait(
        self, rank: int, delay_ns: int = 0, after: Iterable[tuple[int, int]] = (),
        needed: int | None = None, *, pool: int = NONE,
    ) -> int:  # fmt: skip
        """Add a wait for some events, or for so many of them, and return its number.

        Args:
            pool: the pool of workgroups that it needs one of.
        """
        return self._add((rank, rank, 0, delay_ns), after, needed, pool=pool)

    def add(self, added: Sum) -> None:
        """Add that waits are one sum; all ranks contribute in the order of these calls."""
        self._sums.append(added)

    def build(
        self, buffer_bytes: Sequence[int] | None = None, output_bytes: Sequence[int] = ()
    ) -> FlowGraph:
        """Return the graph; raises InputError as `FlowGraph` does.

        Args:
            buffer_bytes, output_bytes: of each rank, where flows have places.
        """
        source, destination, size, delay, needed = list(zip(*self._tasks, strict=True)) or [()] * 5
        cause, event, waiting = list(zip(*self._edges, strict=True)) or [()] * 3
        columns = source, destination, size, delay, needed, cause, event, waiting
        if buffer_bytes is None:
            if not self.pools:
                return FlowGraph(*columns)
            return FlowGraph(*columns, pool=(*self._pool,), pools=(*self.pools,))
        memory, offset, target = list(zip(*self._places, strict=True)) or [()] * 3
        places = FlowPlaces(memory, offset, target, tuple(buffer_bytes), tuple(output_bytes))
        follows, multicast = (*self._follows,), (*self._multicast,)
        return FlowGraph(
            *columns, follows, multicast, places, (*self._sums,), (*self._pool,), (*self.pools,)
        )

    def _add(
        self, task: tuple[int, int, int, int], after: Iterable[tuple[int, int]],
        needed: int | None, place: FlowPlace | None = None, follows: int = NONE,
        multicast: int = NONE, pool: int = NONE,
    ) -> int:  # fmt: skip
        number = len(self._tasks)
        self._pool.append(pool)
        self._places.append(place or FlowPlace(0, 0, 0))
        self._follows.append(follows)
        self._multicast.append(multicast)
        events = dict.fromkeys(after)
        self._edges += [(*event, number) for event in events]
        self._tasks.append((*task, len(events) if needed is None else needed))
        return number
