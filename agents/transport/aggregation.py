"""The aggregation queue pair as its user sees it: reductions are posted here, switches add them up.

A reduction is cut into blocks of V values. Block by block the values of all ranks of a job are
added by the switches of its tree; `kernels.aggregation` has what happens per packet.
"""

import enum
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.agents.datagrams import Datagrams, ipv4_text
from weft.agents.transport import aggregation_layout as at_job
from weft.agents.transport import layout as at
from weft.agents.transport.kernels.aggregation import EPOCH_OFFSET
from weft.agents.transport.payload_layout import weight_of
from weft.agents.transport.posting import LENGTH, Completion, Owner, Posting, Work, check_word
from weft.agents.transport.types import AggregationStatistics, CompletionKind, TransportMisuse
from weft.base.errors import refuse
from weft.base.jit import words_in, words_of

Array = npt.NDArray[np.generic]

MOST_SLOTS = 1 << 14
MOST_RANKS = 1 << 16
_FIRST_RING = 4
_LEAST_REORDERING, _MOST_REORDERING = 4, 32


class DataKind(enum.IntEnum):
    """A kind says what the values of a reduction are; bfloat16 may come as uint16 words."""

    FLOAT32 = at_job.FLOAT32
    FLOAT16 = at_job.FLOAT16
    BFLOAT16 = at_job.BFLOAT16
    INT32 = at_job.INT32

    @property
    def item_bytes(self) -> int:
        """Return the size of one value."""
        return 2 if self in (DataKind.FLOAT16, DataKind.BFLOAT16) else 4


@dataclass(frozen=True)
class _Job:
    """The arrays of a job that compiled code works on."""

    state: at_job.JobState
    slots: npt.NDArray[np.void]
    tables: tuple[npt.NDArray[np.generic], ...]


def make_job(
    address: int, epoch: int, slots: int, values: int, ranks: int, rank: int, path_mtu: int,
    silence_ns: int, may_move: bool,
) -> _Job:  # fmt: skip
    """Return the arrays of a new job of an endpoint. Raises TransportMisuse for values that make
    no sense."""
    if address >> 28 != 14:
        raise TransportMisuse(
            f"{ipv4_text(address)} is no multicast address: 224.0.0.0 to 239.255.255.255"
        )
    _check_epoch(epoch)
    refuse(
        slots < 1 or slots > MOST_SLOTS or slots & slots - 1,
        f"{slots} slots: a power of 2 is needed, at most {MOST_SLOTS}",
        TransportMisuse,
    )
    if not 1 <= values <= path_mtu // 4:
        raise TransportMisuse(
            f"{values} values a packet: 1 to {path_mtu // 4}, the path MTU is {path_mtu} bytes"
        )
    if not (1 <= ranks <= MOST_RANKS and 0 <= rank < ranks):
        raise TransportMisuse(f"rank {rank} of {ranks}: 0 to {ranks - 1} of at most {MOST_RANKS}")
    table = np.zeros(slots, at_job.Slot.dtype)
    table["round"] = np.arange(slots)
    queue = np.zeros(slots, np.int64)
    scratch = np.zeros((2, values), np.int32)
    orders = np.zeros(2 * slots, np.int64)
    keep_bytes = at_job.KEPT_HEADER_BYTES + (
        EPOCH_OFFSET + at_job.HEADER_BYTES + 4 * values + 7 & -8
    )
    kept = np.zeros(2 * slots * keep_bytes if may_move else 0, np.uint8)
    state = at_job.JobState.zeroed(
        epoch=epoch,
        slots=slots,
        values=values,
        ranks=ranks,
        rank=rank,
        headroom_bits=30 - (ranks - 1).bit_length(),
        silence=silence_ns,
        slot_table=table.ctypes.data,
        queue_table=queue.ctypes.data,
        scratch_table=scratch.ctypes.data,
        order_table=orders.ctypes.data,
        highest_order=-1,
        keep_table=kept.ctypes.data if may_move else 0,
        keep_bytes=keep_bytes,
        reordering=max(_LEAST_REORDERING, min(_MOST_REORDERING, slots // 4)),
    )
    return _Job(state, table, (queue, scratch, orders, kept))


def _check_epoch(epoch: int) -> None:
    if not 1 <= epoch < 1 << 32:
        raise TransportMisuse(f"epoch {epoch}: it is 1 to {(1 << 32) - 1}")


@dataclass(eq=False)
class Reduction:
    """A posted reduction knows how far it is, and how it ended."""

    state: at_job.AggregationOperation
    _arrays: tuple[Array, ...]
    """Compiled code has their addresses."""
    done: bool = False
    error: str = ""
    """Why it failed, or empty."""

    @property
    def rounds(self) -> int:
        """Return how many rounds it takes: one for each block, and those that only agree on
        exponents."""
        return self.state.blocks + self.state.headers

    @property
    def remaining(self) -> int:
        """Return how many rounds there are whose results have not come."""
        return self.state.remaining

    @property
    def saturated_blocks(self) -> int:
        """Return in how many blocks of this rank's result a sum left the range of int32 and stays
        at its end."""
        return self.state.saturated

    @property
    def fixed_blocks(self) -> int:
        """Return how many blocks go in fixed point: none of integers."""
        return 0 if self.state.data_kind == at_job.INT32 else self.state.blocks

    @property
    def lossy_blocks(self) -> int:
        """Return in how many blocks so far a value of this rank that is not 0 became 0 in fixed
        point, beside one that is much larger."""
        return self.state.lossy

    @property
    def not_finite_blocks(self) -> int:
        """Return how many blocks so far are NaN, since some rank has a NaN or an infinity there."""
        return self.state.not_finite


class AggregationQueuePair(Posting):
    """An aggregation queue pair is a host's end of an aggregation job;
    `Endpoint.create_aggregation` makes it.

    All ranks of the job post the same reductions in the same order. They are carried out one after
    the other, without a pause, and complete in order as `reduced`. A job that failed (`error` is
    set) completes everything posted to it with an error.
    """

    __slots__ = ("_job", "address", "epoch", "error")

    def __init__(
        self, endpoint: Owner, index: int, number: int, address: int, epoch: int, made: _Job
    ) -> None:
        super().__init__(endpoint, index, number)
        self._job = made
        self.address = address
        self.epoch = epoch
        self.error = ""
        """Why the job failed, or empty."""
        self._ring = np.zeros((_FIRST_RING, words_in(at.WorkRequest)), np.int64)

    def set_row(self, row: at.PairState) -> None:
        """Fill in what a new row of the endpoint's table has of the job."""
        assert self._ring is not None
        row.fill(
            state=at.READY,
            peer_address=self.address,
            qkey=at_job.AGGREGATION_QKEY,
            work_ring=self._ring.ctypes.data,
            work_room=_FIRST_RING,
            job=self._job.state.location,
        )

    @property
    def statistics(self) -> AggregationStatistics:
        """Return a copy of the counters."""
        return AggregationStatistics(*words_of(self._job.state.statistics).tolist())

    @property
    def oldest_round(self) -> int | None:
        """Return the first round of those that were sent and whose results have not come; None if
        there is none."""
        if self.error or not self._job.state.outstanding:
            return None
        slots = self._job.slots
        waits = np.isin(slots["state"], (at_job.SENT, at_job.TO_REPEAT))
        return int(slots["round"][waits].min()) if waits.any() else None

    def move(self, epoch: int) -> None:
        """Go on, as other switches add from now on, or the same ones in another tree; the job was
        made so that it may move. They know of nothing that was sent, and the job's epoch is another
        for them. All workers do so, each when it hears of it, and once more, with the same epoch,
        where a result does not come for long: what a worker repeats that waits for nothing itself
        may be lost.

        Raises:
            TransportMisuse: the epoch makes no sense, or the job may not move.
        """
        _check_epoch(epoch)
        if not self._job.state.keep_table:
            raise TransportMisuse("the job may not move")
        if self.error:
            return
        self.epoch = self._job.state.epoch = epoch
        self._job.state.is_moved = 1
        self._endpoint.changed(self._index)

    def post_reduction(
        self,
        values: Array,
        result: Array,
        kind: DataKind,
        number: int,
        *,
        shards: Sequence[int] | None = None,
        contributors: Collection[int] | None = None,
        average: bool = False,
        context: object = None,
    ) -> Reduction:
        """Add up the values of all ranks into `result`; completes as `reduced`.

        `values` and `result` are C-contiguous arrays of `kind`'s item size, which are read and
        written until then and may not overlap. `number` (32 bits) is the operation's. Without
        `shards` every rank gets all sums; `shards` says how many elements each rank owns, in order
        of ranks, and a rank gets its own (Reduce-Scatter). `contributors` are the ranks that have
        anything to add, all if it is None; the values of others are zeros, and their packets have
        headers only. `average`: sums divided by the number of ranks, integers toward zero.
        TransportMisuse for arrays that do not fit, or contributors that there are not.

        Floats: with e the smallest integer for which all values of a block, on all ranks, are below
        2**e, and L = ceil(log2 P), a sum is off by at most P * 2**(e + L - 31) (an average by a
        P-th of that) and half a unit in the last place.
        """
        check_word("operation", number)
        ranks, rank = self._job.state.ranks, self._job.state.rank
        count = _items(values, kind, "values")
        mine = count
        if shards is not None:
            if not (len(shards) == ranks and min(shards) >= 0 and (sum(shards) == count)):
                raise TransportMisuse(f"{count} values are no {ranks} shards of {list(shards)}")
            mine = shards[rank]
        if _items(result, kind, "result") != mine or not result.flags.writeable:
            raise TransportMisuse(
                f"a result of {result.size} values, writeable: {result.flags.writeable}; it needs"
                f" {mine} that may be written"
            )
        refuse(np.may_share_memory(values, result), "values and result overlap", TransportMisuse)
        adding = set(range(ranks) if contributors is None else contributors)
        if not adding <= set(range(ranks)) or not (adding or shards is not None):
            raise TransportMisuse(
                f"contributors {sorted(adding)} of {ranks} ranks: choose from 0 to {ranks - 1}, "
                "one at least where all ranks get the sums"
            )
        state = at_job.AggregationOperation.zeroed()
        arrays: list[Array] = [values, result]
        size, slots = self._job.state.values, self._job.state.slots
        blocks = -(-count // size)
        if shards is not None:
            ends = np.cumsum(np.asarray(shards, np.int64))
            owners, firsts = scatter_order(shards, size)
            blocks = len(owners)
            arrays += [owners, firsts, ends]
            state.fill(
                owners=owners.ctypes.data,
                firsts=firsts.ctypes.data,
                ends=ends.ctypes.data,
                shard_first=int(ends[rank]) - mine,
            )
        headers = 0 if kind is DataKind.INT32 else min(slots, blocks)
        exponents = np.full(headers, at_job.UNKNOWN, np.int64)
        state.fill(
            first_exponents=exponents.ctypes.data,
            number=number,
            data_kind=kind,
            input=values.ctypes.data,
            output=result.ctypes.data,
            count=count,
            headers=headers,
            blocks=blocks,
            remaining=headers + blocks,
            divisor=ranks if average else 0,
            silent=rank not in adding,
            unaided=adding <= {rank},
            weight=weight_of(rank, ranks) if self._endpoint.state.landings else 0,
        )
        reduction = Reduction(state, (*arrays, exponents))
        if self.error:
            self._end(reduction, context, mine, CompletionKind.ERROR)
        else:
            work = (0, state.location, headers + blocks, 0, 0, 0)
            self._post(CompletionKind.REDUCED, context, mine, reduction, work)
        return reduction

    def stop(self, why: str) -> None:
        """Take part no more, as after a failure; what is posted completes no more."""
        if not self.error:
            self.error = why
        self._waiting = None
        row = self._endpoint.row_of(self._index)
        row.state = at.FAILED
        row.timer = 0
        row.first_work = row.next_work
        self._posted.clear()
        self._endpoint.changed(self._index)

    def _place(self, row: at.PairState, work: Work) -> Work:
        first = row.posted_end
        row.posted_end = first + work[LENGTH]
        return (*work, first, row.posted_end, 0, 0)

    def _end(
        self, reduction: Reduction, context: object, length: int, kind: CompletionKind
    ) -> None:
        reduction.done = kind is CompletionKind.REDUCED
        reduction.error = self.error
        self._endpoint.complete(
            Completion(kind, self, context=context, length=length, error=self.error)
        )

    def take_event(self, event: at.Event, batch: Datagrams) -> None:
        """Take what compiled code found, a row of `layout`'s event table; the endpoint calls it."""
        if event.kind == at.EVENT_WORK_DONE:
            ended = self._posted[: event.value]
            del self._posted[: event.value]
            for kind, context, length, reduction in ended:
                assert isinstance(reduction, Reduction)
                self._end(reduction, context, length, kind)
            self._fill()
        elif event.kind == at.EVENT_FAILED:
            self._fail()

    def _fail(self) -> None:
        row = self._endpoint.row_of(self._index)
        seconds = self._job.state.silence / 1e9
        self.error = (
            f"nothing came from the switches of aggregation job {ipv4_text(self.address)}"
            f" (epoch {self.epoch}) for {seconds:g} s: they have no entries for it, or a worker"
            " sent nothing for so long"
        )
        self._waiting = None
        row.first_work = row.next_work
        ended, self._posted = self._posted, []
        for _, context, length, memory in ended:
            assert isinstance(memory, Reduction)
            self._end(memory, context, length, CompletionKind.ERROR)


def scatter_order(
    shards: Sequence[int], values: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return the blocks of a Reduce-Scatter, round robin over their owners, so that no rank's link
    is idle while its own shard is summed: int32[blocks] owners, int64[blocks] first elements."""
    counts = np.asarray(shards, np.int64)
    blocks = -(-counts // values)
    owners = np.repeat(np.arange(len(counts)), blocks)
    places = np.arange(len(owners)) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    firsts = (np.cumsum(counts) - counts)[owners] + places * values
    order = np.argsort(places, kind="stable")
    return owners[order].astype(np.int32), firsts[order]


def _items(array: Array, kind: DataKind, what: str) -> int:
    refuse(
        array.dtype.itemsize != kind.item_bytes or not array.flags.c_contiguous,
        f"{what} of {array.dtype}, contiguous: {array.flags.c_contiguous}; {kind.name} needs"
        f" contiguous ones of {kind.item_bytes} bytes",
        TransportMisuse,
    )
    return int(array.size)
