"""What theory says of an operation on reduction servers: who sends how many bytes to whom.

Optcast (Tateiwa, NTT; github.com/osrg/optcast): piece i of a request goes to server (cursor + i)
mod S, and the cursor moves by the number of pieces a request. Every rank sends a piece to its
server, which sends the sum to every rank, or of a Reduce-Scatter's shard to its owner. A vector
passes each rank's link once up and once down.

Members are ranks 0 to P - 1 and servers P to P + S - 1. With a fan-in F, F ranks in order are a
group with servers of its own; a piece has one server a group, which sends the group's sum to that
of one of F groups, and so on to a root.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from weft.agents.collectives.transfers import (
    IntArray,
    Sizing,
    Transfers,
    fullest_link_bytes,
    payload,
    placed,
)

Edge = tuple[int, int]
"""From a server to the one that takes its sum."""


@dataclass(frozen=True)
class Optcast:
    """How ranks use servers."""

    servers: int
    split: int = 0
    """Pieces a request; 0: as many as servers."""
    fan_in: int = 0
    """F; 0: every server takes all ranks' contributions."""
    packet_bytes: int = 4096
    """Pieces are whole packets, but for the last."""
    partial_ratio: int = 1
    """Bytes of a partial sum to those of a sum: 2 for half types, which servers pass on as
    float32."""

    @property
    def pieces(self) -> int:
        """How many there are of a request."""
        return self.split or self.servers

    def parts(self, collective: str, shards: Sequence[int]) -> IntArray:
        """Return the bytes of each piece of each shard, int64 [shards, pieces].

        An Allreduce's vector is one shard. Piece i of a Reduce-Scatter's shard r is dealt as piece
        i + r, so that short shards go to different servers.
        """
        sizes = np.asarray(shards, np.int64)
        if collective != "reduce-scatter":
            sizes = sizes.sum(keepdims=True)
        packets = -(-sizes // self.packet_bytes)
        ends = packets[:, None] * np.arange(self.pieces + 1) // self.pieces * self.packet_bytes
        cut = np.diff(np.minimum(ends, sizes[:, None]), axis=1)
        return np.stack([np.roll(row, shard) for shard, row in enumerate(cut)])

    def groups(self, ranks: int) -> int:
        """Return G, the number of groups of ranks."""
        return -(-ranks // (self.fan_in or ranks))

    def levels(self, ranks: int) -> int:
        """Return how many servers are between a rank and the root, the root included."""
        levels, nodes = 1, self.groups(ranks)
        while nodes > 1:
            levels, nodes = levels + 1, -(-nodes // self.fan_in)
        return levels

    def servers_of(self, ranks: int, turn: int | IntArray) -> IntArray:
        """Return the member that takes each group's contributions, int64 [..., G]; ``turn`` is
        cursor plus piece."""
        groups = self.groups(ranks)
        firsts = -(-np.arange(groups + 1, dtype=np.int64) * self.servers // groups)
        turns = np.asarray(turn, np.int64)[..., None]
        found: IntArray = ranks + firsts[:-1] + turns % np.diff(firsts)
        return found

    def tree(self, ranks: int, turn: int) -> tuple[list[list[Edge]], list[int]]:
        """Return (edges between a piece's servers by level, its server in each group).

        Which of F groups is the root of them changes once all servers of a group have had a turn.
        """
        groups = self.groups(ranks)
        servers = self.servers_of(ranks, turn).tolist()
        nodes, levels = servers, []
        turn //= -(-self.servers // groups)
        while len(nodes) > 1:
            joined = [nodes[i : i + self.fan_in] for i in range(0, len(nodes), self.fan_in)]
            roots = [part[turn % len(part)] for part in joined]
            levels.append(
                [
                    (node, root)
                    for part, root in zip(joined, roots, strict=True)
                    for node in part
                    if node != root
                ]
            )
            nodes = roots
            turn //= self.fan_in
        return levels, servers


def contributions(
    collective: str,
    shards: Sequence[int],
    optcast: Optcast,
    *,
    cursor: int = 0,
    sizing: Sizing = payload,
) -> Transfers:
    """Return what ranks send to servers in one operation."""
    pieces = sizing(optcast.parts(collective, shards)).sum(axis=0)
    rank, server = _with_servers(len(shards), optcast, cursor)
    return Transfers(rank.ravel(), server.ravel(), np.tile(pieces, len(shards)))


def optcast_rounds(
    collective: str,
    shards: Sequence[int],
    optcast: Optcast,
    *,
    operations: int = 1,
    sizing: Sizing = payload,
) -> Iterator[Transfers]:
    """Return all messages of operations, one after the other.

    ``shards``: bytes of every rank's part of the result; of Allreduce, parts of the vector.
    """
    for operation in range(operations):
        cursor = operation * optcast.pieces
        yield contributions(collective, shards, optcast, cursor=cursor, sizing=sizing)
        yield from _between_servers(collective, shards, optcast, cursor, sizing)
        yield _results(collective, shards, optcast, cursor, sizing)


def optcast_bound_bytes(
    collective: str,
    shards: Sequence[int],
    optcast: Optcast,
    *,
    hosts: Sequence[int] = (),
    block_bytes: int = 0,
    operations: int = 1,
    sizing: Sizing = payload,
) -> int:
    """Return the least completion time on reduction servers, in bytes that one link could carry
    meanwhile.

    What the fullest host link carries. And after the last contribution, the last block's way to the
    root of its tree and down to the ranks.

    Args:
        shards: bytes of every rank's part of the result; of Allreduce, parts of the vector.
        hosts: the host, by number, of every rank and then of every server; by default each is on
            its own.
        block_bytes: of a chunk that is summed up and sent on by itself; 0: one packet.
    """
    if len(shards) == 1:
        return 0  # its sum is what it has
    hosts = hosts or range(len(shards) + optcast.servers)
    number = max(hosts) + 1
    rounds = list(optcast_rounds(collective, shards, optcast, operations=operations, sizing=sizing))
    fullest = fullest_link_bytes(number, placed(rounds, hosts))
    if not fullest:
        return 0
    brought = [
        contributions(collective, shards, optcast, cursor=done * optcast.pieces, sizing=sizing)
        for done in range(operations)
    ]
    gathered = fullest_link_bytes(number, placed(brought, hosts))
    block = block_bytes or optcast.packet_bytes
    parts = optcast.parts(collective, shards)
    last = sizing(np.array([((parts[parts > 0] - 1) % block + 1).min()]))
    hops = 2 * optcast.levels(len(shards)) - 1
    return max(fullest, gathered + hops * int(last[0]))


def _between_servers(
    collective: str, shards: Sequence[int], optcast: Optcast, cursor: int, sizing: Sizing
) -> Iterator[Transfers]:
    """Partial sums up the trees of all pieces, and results down."""
    ranks = len(shards)
    parts = optcast.parts(collective, shards)
    partial = sizing(parts * optcast.partial_ratio).sum(axis=0)
    results = sizing(parts)
    up: list[tuple[int, int, int]] = []
    down: list[tuple[int, int, int]] = []
    for piece in range(optcast.pieces):
        levels, servers = optcast.tree(ranks, cursor + piece)
        above = dict(edge for level in levels for edge in level)
        up += [(server, parent, int(partial[piece])) for server, parent in above.items()]
        if collective != "reduce-scatter":
            down += [(parent, one, int(results[0, piece])) for one, parent in above.items()]
            continue
        for owner in range(ranks):
            here = servers[owner // (optcast.fan_in or ranks)]
            while here in above:
                down.append((above[here], here, int(results[owner, piece])))
                here = above[here]
    for found in (up, down):
        yield Transfers(*np.array(found, np.int64).reshape(-1, 3).T)


def _results(
    collective: str, shards: Sequence[int], optcast: Optcast, cursor: int, sizing: Sizing
) -> Transfers:
    """Return what servers send to ranks."""
    if collective != "reduce-scatter":
        rank, server, size_bytes = contributions(
            collective, shards, optcast, cursor=cursor, sizing=sizing
        )
        return Transfers(server, rank, size_bytes)
    owner, server = _with_servers(len(shards), optcast, cursor)
    parts = sizing(optcast.parts(collective, shards))
    return Transfers(server.ravel(), owner.ravel(), parts.ravel())


def _with_servers(ranks: int, optcast: Optcast, cursor: int) -> tuple[IntArray, IntArray]:
    """Rank and its server, by rank and piece, int64 [P, pieces]."""
    rank = np.broadcast_to(np.arange(ranks, dtype=np.int64)[:, None], (ranks, optcast.pieces))
    turns = cursor + np.arange(optcast.pieces, dtype=np.int64)
    return rank, optcast.servers_of(ranks, turns).T[rank[:, 0] // (optcast.fan_in or ranks)]
