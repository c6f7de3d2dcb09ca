"""One call of a fused operator on one rank, for the thread that computes: it gives away slices as
they are computed, and takes those of others as they come (`weft.agents.fused.exchange`)."""

import contextlib
import queue
import time
from collections.abc import Iterator, Sequence

import torch
from torch.distributed import distributed_c10d

from weft.agents.fused.exchange import Arrived, CallEnded, Event, Failed
from weft.pytorch import tensors as memory_of
from weft.pytorch.errors import BadCallError
from weft.pytorch.process_group import WeftProcessGroup
from weft.pytorch.timeline import RecordedOperation


def group_of(name: str, group_name: str) -> WeftProcessGroup:
    """Return the process group of a name.

    Raises:
        BadCallError: there is none, or it is not one of the backend weft.
    """
    try:
        group = distributed_c10d._resolve_process_group(group_name)
    except RuntimeError:
        raise BadCallError(
            f"{name}: there is no process group of the name {group_name!r}; give the `group_name` "
            "of one, like torch.distributed.group.WORLD.group_name"
        ) from None
    return weft_group(name, group)


def weft_group(name: str, group: object) -> WeftProcessGroup:
    """Return the process group if it is one of the backend weft.

    Raises:
        BadCallError: it is not.
    """
    if not isinstance(group, WeftProcessGroup):
        raise BadCallError(
            f"{name}: group {getattr(group, 'group_name', group)!r} is of another backend than "
            "weft; start the program by 'weft torch run' and init_process_group() without a "
            "backend, or use the layers with fused=False"
        )
    return group


@contextlib.contextmanager
def refusing(group: WeftProcessGroup, name: str) -> Iterator[None]:
    """Let the other ranks know if the arguments of a call make no sense, so that they do not wait
    for this one.

    Raises:
        BadCallError: what was raised inside, with the operator's name before it.
    """
    try:
        yield
    except BadCallError as error:
        text = f"{name}: {error}"
        group.network.in_exchange(lambda exchange: exchange.refuse(text))
        raise BadCallError(text) from None


class Call:
    """A call is a context: inside it slices are given and taken, and its end waits until all that
    was given is in its receivers' memory and all ranks have begun the call.

    Args:
        group: whose ranks call the same.
        name: the operator's.
        text: what must be the same on all ranks, beside the sizes.
        sends: the sizes in bytes of the slices for each rank; none for this one.
        expects: the sizes of the slices that each rank sends to this one.
        algorithm: what the table of collectives says of it; empty: nothing.

    Raises:
        RuntimeError: a rank is gone, or the ranks do not call the same; the group is of no use any
            more.
    """

    def __init__(
        self,
        group: WeftProcessGroup,
        name: str,
        text: str,
        sends: Sequence[Sequence[int]],
        expects: Sequence[Sequence[int]],
        algorithm: str,
    ) -> None:
        self._group = group
        self._name = name
        self._algorithm = algorithm
        self._left = sum(map(len, expects))
        self._size_bytes = sum(map(sum, sends))
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._begun_ns = 0
        self._text, self._sends, self._expects = f"{name} {text}", sends, expects
        self._given: list[torch.Tensor] = []
        """What must stay as it is until the call has ended."""

    def __enter__(self) -> "Call":
        self._group.fused_calls.acquire()
        self._begun_ns = time.monotonic_ns()
        if self._group.size() > 1:
            self._group.network.begin_fused(
                self._text, self._sends, self._expects, self._events.put
            )
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        failure = ""
        try:
            if error is None and self._group.size() > 1:
                self._group.network.in_exchange(lambda exchange: exchange.finish())
                for _ in self.arrivals():
                    pass
                while not isinstance(self._next(), CallEnded):
                    pass
        except RuntimeError as raised:
            failure = str(raised)
            raise
        finally:
            if error is not None:
                failure = f"{type(error).__name__}: {error}"
                self._group.network.give_up(f"{self._where()}: {failure}")
            if self._algorithm:
                self._group.timeline.ended(
                    RecordedOperation(
                        self._name, self._algorithm, self._group.network.name, self._size_bytes,
                        self._begun_ns, time.monotonic_ns(), failure,
                    )
                )  # fmt: skip
            self._given.clear()
            self._group.fused_calls.release()

    def give(self, peer: int, index: int, tensor: torch.Tensor) -> None:
        """Send a slice. The tensor is contiguous, and stays as it is until the call has ended."""
        if not self._given:
            self._begun_ns = time.monotonic_ns()  # nothing was under way before
        self._given.append(tensor)
        memory = memory_of.bytes_of(tensor)
        self._group.network.in_exchange(lambda exchange: exchange.give(peer, index, memory))

    def arrivals(self) -> Iterator[tuple[int, int]]:
        """Return source and index of each slice that is expected, once, as they come."""
        while self._left:
            event = self._next()
            if isinstance(event, Arrived):
                self._left -= 1
                yield event.source, event.index

    def arrived(self) -> Iterator[tuple[int, int]]:
        """Return source and index of each slice that has come, and that nobody was told of."""
        while self._left and not self._events.empty():
            event = self._next()
            if isinstance(event, Arrived):
                self._left -= 1
                yield event.source, event.index

    def received(
        self, source: int, index: int, dtype: torch.dtype, shape: Sequence[int]
    ) -> torch.Tensor:
        """Return a slice that has come, in memory that the next call uses again."""
        memory = self._group.network.received(source, index)
        if not len(memory):
            return torch.empty(tuple(shape), dtype=dtype)
        found: torch.Tensor = torch.from_numpy(memory).view(dtype).view(tuple(shape))
        return found

    def _next(self) -> Event:
        """Wait for the next event. Raises RuntimeError for a failure, or when time is over."""
        try:
            event = self._events.get_nowait()
        except queue.Empty:
            begun_ns = time.monotonic_ns()
            try:
                event = self._events.get(timeout=self._group.timeout_s)
            except queue.Empty:
                why = f"{self._where()}: no end within {self._group.timeout_s:g} s"
                self._group.network.give_up(why)
                raise RuntimeError(why) from None
            finally:
                self._group.timeline.waited(begun_ns)
        if isinstance(event, Failed):
            raise RuntimeError(f"{self._where()}: {event.error}")
        return event

    def _where(self) -> str:
        return f"{self._name} on rank {self._group.rank()} of group {self._group.network.name!r}"
