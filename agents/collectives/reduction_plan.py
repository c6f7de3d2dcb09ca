"""Who adds what: how an operation is cut into chunks, and which servers have them.

Optcast's rule: a request is cut into `split` pieces, and piece i goes to server (cursor + i) mod S;
the cursor moves by `split` a request. A piece is a range of each *shard*: an Allreduce has one, the
whole vector; a Reduce-Scatter has one for each rank, which owns its sum. Pieces are whole packets
and consist of chunks, each of one shard. All members number chunks alike: chunk by chunk over the
pieces, and over the owners, so that every server and every owner has something to do all the time.

With `fan_in` F ranks are in groups of F, in order, and each group has servers of its own: server s
is of group s G / S. A piece has one server in each group, its group's ranks' own; up to F groups
form a group of the next level, and one of their servers takes the others' partial results; so on to
a single root, which changes from piece to piece.
"""

import struct
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from weft.agents.collectives.names import MAX_SPLIT, OPS, REDUCING
from weft.agents.collectives.sums import DTYPES, ReductionKind
from weft.base.errors import InputError, ProtocolError, refuse
from weft.base.jit import Words

MAX_CHUNKS = 1 << 20
MAX_ELEMENTS = 1 << 48
WINDOW_BYTES = 32 * 1024
"""Under way from a contributor to a server, at least, where the number of slots allows it."""
QUEUE_BYTES = 160 * 1024
"""What ranks that are more than servers may have under way beyond what a server's link takes: at
first all of them send at full rate, and a switch's queue has to hold it."""
FEWEST_SLOTS, MOST_SLOTS = 4, 32
LARGEST_BLOCK_BYTES = 64 * 1024
BLOCKS_PER_PIECE = 64
"""How many chunks a piece has by default: only its first and its last chunks do not overlap with
others."""

_HEAD = struct.Struct("!BBBBIIIIIII")


@dataclass(frozen=True)
class Terms:
    """What all members of an operation must say alike; they are the body of OPEN."""

    collective: str
    op: str
    dtype: str
    """One of `DTYPES`."""
    counts: tuple[int, ...]
    """Elements of each shard: of the vector, or of each rank's part."""
    size: int
    """P."""
    servers: int
    """S."""
    split: int
    fan_in: int
    """Up to P: no tree where it is P."""
    block_bytes: int
    cursor: int
    """Modulo 2^32."""
    packet_bytes: int

    def encode(self) -> bytes:
        """Return the terms as bytes for `decode`."""
        head = _HEAD.pack(
            REDUCING.index(self.collective), OPS.index(self.op), DTYPES.index(self.dtype), 0,
            self.size, self.servers, self.split, self.fan_in, self.block_bytes, self.cursor,
            self.packet_bytes,
        )  # fmt: skip
        return head + np.array(self.counts, ">u8").tobytes()

    @staticmethod
    def decode(data: bytes) -> "Terms":
        """Make the terms of bytes that a peer has sent.

        Raises:
            ProtocolError: the bytes encode no terms, or terms that no operation can have.
        """
        refuse(
            len(data) < _HEAD.size or (len(data) - _HEAD.size) % 8,
            f"OPEN with terms of {len(data)} bytes",
            ProtocolError,
        )
        collective, op, dtype, _, size, servers, *numbers = _HEAD.unpack_from(data)
        refuse(
            collective >= len(REDUCING) or op >= len(OPS) or dtype >= len(DTYPES),
            f"OPEN for collective {collective}, op {op}, dtype {dtype}, which do not exist",
            ProtocolError,
        )
        counts = tuple(np.frombuffer(data, ">u8", offset=_HEAD.size).tolist())
        terms = Terms(REDUCING[collective], OPS[op], DTYPES[dtype], counts, size, servers, *numbers)
        problem = terms.problem()
        refuse(problem, f"OPEN with {problem}", ProtocolError)
        return terms

    def problem(self) -> str:
        """Return the first thing that is wrong with the numbers, or nothing."""
        shards = 1 if self.collective == "allreduce" else self.size
        elements = sum(self.counts)
        total = elements * ReductionKind(self.dtype, self.op).item_bytes
        block, packet = self.block_bytes, self.packet_bytes
        chunks = total // max(1, block) + 2 * shards * self.split
        groups = -(-self.size // max(1, self.fan_in))
        wrong = {
            f"{len(self.counts)} counts for {self.size} ranks on {self.servers} servers": (
                self.size < 1 or self.servers < 1 or len(self.counts) != shards
            ),
            f"{elements} elements": elements > MAX_ELEMENTS,
            f"split {self.split}: it is 1 to {MAX_SPLIT}": not 1 <= self.split <= MAX_SPLIT,
            f"blocks of {block} bytes, packets of {packet}": (
                packet < 1 or block < packet or block % packet or packet % 8
            ),
            f"{total} bytes in blocks of {block} and {self.split} pieces": chunks > MAX_CHUNKS,
            f"fan-in {self.fan_in}: it is at least 2": (
                self.fan_in < 1 or (self.fan_in == 1 < self.size)
            ),
            f"fan-in {self.fan_in}: {self.size} ranks in groups of {self.fan_in} need "
            f"{groups} servers; there are {self.servers}": groups > self.servers,
        }
        return next((what for what, is_so in wrong.items() if is_so), "")


def terms_of(
    collective: str,
    op: str,
    dtype: str,
    counts: tuple[int, ...],
    size: int,
    servers: int,
    *,
    split: int,
    fan_in: int,
    block_bytes: int,
    cursor: int,
    packet_bytes: int,
) -> Terms:
    """Return terms with defaults filled in: a zero `split`, `fan_in` or `block_bytes` leaves the
    choice.

    Raises:
        InputError: there is no such operation.
    """
    reduction = ReductionKind(dtype, op)
    if not servers:
        raise InputError(
            f"{collective} by optcast needs reduction servers; the communicator has none"
        )
    pieces = split or min(servers, MAX_SPLIT)
    total = sum(counts) * reduction.item_bytes
    if not block_bytes:
        block_bytes = min(LARGEST_BLOCK_BYTES, total // pieces // BLOCKS_PER_PIECE)
        if servers < size:
            block_bytes = min(block_bytes, QUEUE_BYTES // (size - servers) // FEWEST_SLOTS)
    fewest = -(-2 * total // MAX_CHUNKS)
    blocks = max(1, -(-max(block_bytes, fewest) // packet_bytes))
    terms = Terms(
        collective, op, reduction.dtype, counts, size, servers, pieces, min(fan_in or size, size),
        blocks * packet_bytes, cursor % (1 << 32), packet_bytes,
    )  # fmt: skip
    problem = terms.problem()
    refuse(problem, f"{collective} by optcast with {problem}")
    return terms


@dataclass(frozen=True, slots=True)
class Contributor:
    """A contributor sends something to a server: it is a rank, or a server with the partial result
    of some ranks."""

    member: int
    first: int
    end: int
    """The ranks whose elements it brings."""


@dataclass(frozen=True, slots=True)
class Role:
    """A role is a server's part in a piece."""

    levels: tuple[tuple[Contributor, ...], ...]
    """What it combines: its own group's ranks; then, on each level where it takes others' partial
    results, those of the level in order, its own among them."""
    parent: int | None
    """The member that takes its result. None means that this server is the root."""

    def others(self, own: int) -> list[Contributor]:
        """Return all that send something."""
        return [each for level in self.levels for each in level if each.member != own]


@dataclass(frozen=True, slots=True)
class Share:
    """A share lists what a server has to do in an operation; chunks are in the order in which they
    are sent."""

    roles: dict[int, Role]
    """The server's part in each piece."""
    incoming: dict[int, list[int]]
    """Chunks that a member sends to it."""
    outgoing: dict[int, list[int]]
    """Chunks that it sends to a parent, by member."""
    chunks: int
    """How many it has."""


class ReductionPlan:
    """A plan cuts an operation into chunks and says which server has each; members are ranks and
    then servers."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.reduction = ReductionKind(terms.dtype, terms.op)
        window = min(WINDOW_BYTES, QUEUE_BYTES // max(1, terms.size - terms.servers))
        fewest = FEWEST_SLOTS * (2 if terms.fan_in < terms.size else 1)  # partial results take time
        self.slots = min(MOST_SLOTS, max(fewest, window // terms.block_bytes))
        """Chunks under way from a contributor to a server."""
        self._shares: dict[int, Share] = {}
        item_bytes = self.reduction.item_bytes
        shards = [count * item_bytes for count in terms.counts]
        self.shard_offsets = np.concatenate([[0], np.cumsum(shards)]).astype(np.int64)
        self._cut(shards)

    def _cut(self, shards: list[int]) -> None:
        """Cut all shards; number the chunks."""
        terms = self.terms
        parts: list[Words] = [np.zeros((5, 0), np.int64)]
        for owner, size_bytes in enumerate(shards):
            packets = -(-size_bytes // terms.packet_bytes)
            for part in range(terms.split):
                first = packets * part // terms.split * terms.packet_bytes
                end = packets * (part + 1) // terms.split * terms.packet_bytes
                if first == end:
                    continue
                starts = np.arange(first, end, terms.block_bytes, dtype=np.int64)
                piece = (part + owner) % terms.split
                turn = (owner - piece * len(shards) // terms.split) % len(shards)
                turns = np.arange(len(starts), dtype=np.int64) * len(shards) + turn
                ends = np.minimum(starts + terms.block_bytes, min(end, size_bytes))
                columns = np.broadcast_arrays(turns, piece, owner, starts, ends)
                parts.append(np.array(columns, np.int64))
        turns, pieces, owners, starts, ends = np.concatenate(parts, axis=1)
        order = np.lexsort((pieces, turns))
        self.pieces = pieces[order]
        self.owners = owners[order]
        """The rank that gets the sum of each chunk in a Reduce-Scatter."""
        self.targets = starts[order]
        """Offsets in the owner's result, in bytes; of an Allreduce, in everybody's."""
        self.lengths = (ends - starts)[order]
        self.offsets = self.targets + self.shard_offsets[self.owners]
        """Offsets in the contributors' vectors, in bytes."""

    @property
    def chunks(self) -> int:
        """Return how many chunks there are."""
        return len(self.pieces)

    @cached_property
    def groups(self) -> int:
        """Return the number of groups of ranks, G."""
        return -(-self.terms.size // self.terms.fan_in)

    def group_of(self, server: int) -> int:
        """Return the group of ranks that a server belongs to."""
        return server * self.groups // self.terms.servers

    def server_of(self, group: int, piece: int) -> int:
        """Return the server that takes a group's elements of a piece."""
        servers = self.terms.servers
        first = -(-group * servers // self.groups)
        end = -(-(group + 1) * servers // self.groups)
        return first + (self.terms.cursor + piece) % (end - first)

    def servers_of(self, group: int) -> Words:
        """Return int64[chunks]: the server that takes a group's elements, by chunk."""
        table = [self.server_of(group, piece) for piece in range(self.terms.split)]
        found: Words = np.array(table, np.int64)[self.pieces]
        return found

    def gets(self, chunk: int, first: int, end: int) -> bool:
        """Return whether any of the ranks from `first` to before `end` gets the result of a
        chunk."""
        return self.terms.collective == "allreduce" or first <= int(self.owners[chunk]) < end

    def share(self, server: int) -> Share:
        """Return what a server has to do."""
        if server not in self._shares:
            roles: dict[int, Role] = {}
            incoming: dict[int, list[int]] = {}
            outgoing: dict[int, list[int]] = {}
            mine = np.flatnonzero(self.servers_of(self.group_of(server)) == server)
            for chunk, piece in zip(mine.tolist(), self.pieces[mine].tolist(), strict=True):
                if piece not in roles:
                    roles[piece] = self.role(server, piece)
                role = roles[piece]
                for each in role.others(self.terms.size + server):
                    incoming.setdefault(each.member, []).append(chunk)
                if role.parent is not None:
                    outgoing.setdefault(role.parent, []).append(chunk)
            self._shares[server] = Share(roles, incoming, outgoing, len(mine))
        return self._shares[server]

    def role(self, server: int, piece: int) -> Role:
        """Return a server's part in a piece that its group's ranks send it."""
        terms, size = self.terms, self.terms.size
        group = self.group_of(server)
        width = terms.fan_in
        ranks = range(group * width, min((group + 1) * width, size))
        levels = [tuple(Contributor(rank, rank, rank + 1) for rank in ranks)]
        place, nodes = group, list(range(self.groups))
        # The servers of a group, and so its roots, take turns once all of its pieces have been.
        turn = (terms.cursor + piece) // -(-terms.servers // self.groups)
        while len(nodes) > 1:
            parts = [nodes[at : at + terms.fan_in] for at in range(0, len(nodes), terms.fan_in)]
            mine = parts[place // terms.fan_in]
            root = mine[turn % len(mine)]
            if root != group:
                return Role(tuple(levels), size + self.server_of(root, piece))
            levels.append(
                tuple(
                    Contributor(
                        size + self.server_of(node, piece),
                        first * width,
                        min((first + 1) * width, size),
                    )
                    for first, node in enumerate(mine, place // terms.fan_in * terms.fan_in)
                )
            )
            nodes = [part[turn % len(part)] for part in parts]
            place //= terms.fan_in
            width *= terms.fan_in
            turn //= terms.fan_in
        return Role(tuple(levels), None)


@lru_cache(maxsize=64)
def plan_of(terms: Terms) -> ReductionPlan:
    """Return the plan of an operation, which may be that of many members."""
    return ReductionPlan(terms)
