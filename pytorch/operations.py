"""What all operations of a process group have in common: how one begins, and how it ends."""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import torch

from weft.agents.collectives.dtypes import Array
from weft.agents.collectives.mailbox import Bytes
from weft.agents.collectives.requests import Request
from weft.pytorch import tensors as memory_of
from weft.pytorch.callbacks import Callbacks
from weft.pytorch.dispatcher import profile
from weft.pytorch.groups import CallPlace, Group
from weft.pytorch.lanes import Lanes
from weft.pytorch.reductions import Reduction
from weft.pytorch.session import Session
from weft.pytorch.timeline import RecordedOperation
from weft.pytorch.work import Countdown, WeftWork

AT_ONCE_BYTES = 32 * 1024
"""Results of up to so many bytes are brought to where they belong in the network's thread."""
TOGETHER = "coalesced operations"
"""What several operations are called that end together."""


class Operations:
    """The operations of the ranks of a process group.

    Args:
        lanes: the communicators that they go by.
        shared: what the groups of this process share.
        rank, size: of this process in the group.
        name: of the group.
        timeout: of operations that are not told another.
    """

    def __init__(
        self, lanes: Lanes, shared: Session, rank: int, size: int, name: str, timeout: timedelta
    ) -> None:
        self.lanes = lanes
        self.shared = shared
        self.rank = rank
        self.size = size
        self.name = name
        self.timeout = timeout
        self._gathered: list[WeftWork] | None = None
        """What has been called since `start_coalescing`."""
        self._callbacks = Callbacks(shared.callback_threads)
        self.recorded = shared.recorder.group(name, lanes.own.network.members)
        """The group as the flight recorder has it."""

    def begin(
        self,
        what: str,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        opts: Any = None,
        between: str = "",
    ) -> WeftWork:
        """Begin an operation that ends with its outputs.

        Args:
            between: the ranks between which a message goes, as ``0->1``.

        Raises:
            BadCallError: a tensor is no dense tensor on the CPU.
        """
        self.shared.timeline.computed()
        memory_of.check(what, [*inputs, *outputs])
        timeout = self.timeout_of(opts)
        work = WeftWork(
            f"{what} on rank {self.rank} of group {self.name!r}",
            timeout, outputs, self.shared.timeline, self._callbacks,
        )  # fmt: skip
        if what != TOGETHER:
            work.entry = self.shared.recorder.begun(
                self.recorded, what, between, inputs, outputs, timeout
            )
            profile(what, outputs if between and not inputs else inputs)
        if self._gathered is not None:
            self._gathered.append(work)
        return work

    def timeout_of(self, opts: Any) -> timedelta:
        """Return the timeout that an operation was told, or else the group's."""
        given = getattr(opts, "timeout", None)
        if isinstance(given, timedelta) and given.total_seconds() > 0:
            return given
        return self.timeout

    def request(
        self,
        collective: str,
        algorithm: str,
        counts: int | tuple[int, ...],
        opts: Any,
        reduction: Reduction | None = None,
        root: int = 0,
    ) -> Request:
        """Return what the network is asked for. Without a reduction, elements are bytes."""
        dtype, op = (reduction.dtype, reduction.op) if reduction else ("uint8", "sum")
        return Request(
            0, collective, algorithm, counts, dtype, op, root,
            pace_bps=self.shared.settings.pace_bps,
            timeout_ns=int(self.timeout_of(opts).total_seconds() * 1e9),
        )  # fmt: skip

    def is_trivial(
        self, work: WeftWork, group: Group, text: str, moves: bool, changes_one: bool = False
    ) -> bool:
        """Return whether there is nothing to be moved, and let the work end then: at once in a
        group of one rank, and else when the ranks were seen to call the same."""
        if self.size == 1 and not (moves and changes_one):
            self.end(work)
            return True
        if not moves:
            self.in_order(work, group, lambda: group.agree(
                text, lambda error, _source: self.later(lambda: self.end(work, error))
            ))  # fmt: skip
        return not moves

    def start(
        self,
        work: WeftWork,
        group: Group,
        text: str,
        request: Request,
        buffer: Array,
        output: Array | None,
        finish: Callable[[], None] = lambda: None,
    ) -> None:
        """Let the network do a collective, and then finish it in a thread of the pool."""

        def ended(error: str) -> None:
            if not error:
                try:
                    finish()
                except Exception as failure:
                    error = f"{type(failure).__name__}: {failure}"
            self.end(work, error)

        def done(error: str, _source: int) -> None:
            self.later(
                lambda: ended(error), max(buffer.nbytes, 0 if output is None else output.nbytes)
            )

        self.in_order(work, group, lambda: group.collective(text, request, buffer, output, done))
        work.ends_itself = True

    def gather(
        self, work: WeftWork, group: Group, text: str, own: Bytes, opts: Any,
        finish: Callable[[Bytes], None],
    ) -> None:  # fmt: skip
        """Let the network gather few bytes of all ranks, and finish with them, uint8[P, m]."""
        gathered = np.empty((self.size, len(own)), np.uint8)

        def done(error: str, _source: int) -> None:
            if not error:
                try:
                    finish(gathered)
                except Exception as failure:
                    error = f"{type(failure).__name__}: {failure}"
            self.end(work, error)

        timeout_ns = int(self.timeout_of(opts).total_seconds() * 1e9)
        self.in_order(work, group, lambda: group.gather(text, own, gathered, timeout_ns, done))
        work.ends_itself = True

    def in_order(self, work: WeftWork, group: Group, begin: Callable[[], CallPlace]) -> None:
        """Begin what has its place among the collectives of a group."""
        self._callbacks.begun(work)
        work.missing = partial(group.who_is_late, begin())

    def note(self, work: WeftWork, error: str) -> None:
        """Record an operation that has ended."""
        if work.entry is not None:
            work.entry.ended(error)
        self.shared.timeline.ended(
            RecordedOperation(
                work.what.partition(" ")[0], work.algorithm, self.name, work.size_bytes,
                work.begun_ns, time.monotonic_ns(), error,
            )
        )  # fmt: skip

    def end(self, work: WeftWork, error: str = "", source: int = -1) -> None:
        """Let an operation end, with an error if there is one."""
        self.note(work, error)
        work.end(error, source)

    def later(self, do: Callable[[], None], size_bytes: int = 0) -> None:
        """Do something in a thread of the pool, or at once if it does so to few bytes only: another
        thread comes to it later than that takes."""
        if size_bytes <= AT_ONCE_BYTES:
            do()
            return
        try:
            self.shared.finishers.submit(do)
        except RuntimeError:  # the interpreter is about to end
            do()

    def start_coalescing(self) -> None:
        """Gather what is called from now on."""
        self._gathered = []

    def end_coalescing(self) -> WeftWork:
        """Return a work that ends when all has that was called since `start_coalescing`."""
        gathered, self._gathered = self._gathered or [], None
        work = self.begin(TOGETHER, [], [])
        waits = Countdown(len(gathered) + 1, work.end)
        for each in gathered:
            each.when_over(waits.one)
        waits.one("")
        return work
