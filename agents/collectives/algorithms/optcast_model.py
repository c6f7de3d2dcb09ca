"""What theory says of an operation on reduction servers: who sends how many bytes to whom.

Optcast (Tateiwa, NTT; github.com/osrg/optcast): piece i of a request goes to server (cursor + i)
mod S, and the cursor moves by the number of pieces a request. Every rank sends a piece to its
server, which sends the sum to every rank, or of a Reduce-Scatter's shard to its owner. A vector
passes each rank's link once up and once down.

Members are ranks 0 to P - 1 and servers P to P + S - 1. With a fan-in F, F ranks in order are a
group with servers of its own; a piece has one server a group, which sends the group's sum to that
of one of F groups, and so on to a root.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from weft.agents.collectives.algorithms.optcast_options import OptcastOptions
from weft.agents.collectives.dtypes import HALF_TYPES
from weft.agents.collectives.places import Places
from weft.agents.collectives.task import Task
from weft.agents.collectives.transfers import IntArray, Transfers, fullest_link_bytes, placed

Edge = tuple[int, int]
"""From a server to the one that takes its sum."""


@dataclass(frozen=True, eq=False)
class Optcast:
    """The model says which servers the ranks of a task use, and for how many bytes."""

    task: Task
    own: OptcastOptions

    @property
    def servers(self) -> int:
        """Return how many servers there are, S."""
        return self.own.servers or 0

    @property
    def members(self) -> Places:
        """Return where the ranks, and behind them the servers, are."""
        return self.task.places or Places.apart(self.task.ranks + self.servers)

    @property
    def pieces(self) -> int:
        """Return how many pieces a request is cut into."""
        return self.own.split or self.servers

    @property
    def _scatters(self) -> bool:
        return self.task.collective == "reduce-scatter"

    @cached_property
    def _parts(self) -> IntArray:
        """Return the bytes of each piece of each shard, int64 [shards, pieces].

        An Allreduce's vector is one shard. Piece i of a Reduce-Scatter's shard r is dealt as piece
        i + r, so that short shards go to different servers.
        """
        shards = self.task.shards
        sizes = shards if self._scatters else shards.sum(keepdims=True)
        packet_bytes = self.task.packet_bytes
        packets = -(-sizes // packet_bytes)
        ends = packets[:, None] * np.arange(self.pieces + 1) // self.pieces * packet_bytes
        cut = np.diff(np.minimum(ends, sizes[:, None]), axis=1)
        return np.stack([np.roll(row, shard) for shard, row in enumerate(cut)])

    @property
    def _group(self) -> int:
        """Return how many ranks a group has: F, or all ranks."""
        return self.own.fan_in or self.task.ranks

    @property
    def _groups(self) -> int:
        """Return the number of groups of ranks, G."""
        return -(-self.task.ranks // self._group)

    @property
    def levels(self) -> int:
        """Return how many servers are between a rank and the root, the root included."""
        levels, nodes = 1, self._groups
        while nodes > 1:
            levels, nodes = levels + 1, -(-nodes // self._group)
        return levels

    def servers_of(self, turn: int | IntArray) -> IntArray:
        """Return the member that takes each group's contributions, int64 [..., G]; ``turn`` is
        cursor plus piece."""
        groups = self._groups
        firsts = -(-np.arange(groups + 1, dtype=np.int64) * self.servers // groups)
        turns = np.asarray(turn, np.int64)[..., None]
        found: IntArray = self.task.ranks + firsts[:-1] + turns % np.diff(firsts)
        return found

    def tree(self, turn: int) -> tuple[list[list[Edge]], list[int]]:
        """Return (edges between a piece's servers by level, its server in each group).

        Which of F groups is the root of them changes once all servers of a group have had a turn.
        """
        fan_in = self._group
        servers = self.servers_of(turn).tolist()
        nodes, levels = servers, []
        turn //= -(-self.servers // self._groups)
        while len(nodes) > 1:
            joined = [nodes[i : i + fan_in] for i in range(0, len(nodes), fan_in)]
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
            turn //= fan_in
        return levels, servers

    def rounds(self) -> Iterator[Transfers]:
        """Yield all messages of all operations, one operation after the other."""
        for operation in range(self.task.operations):
            cursor = operation * self.pieces
            yield self._contributions(cursor)
            yield from self._between_servers(cursor)
            yield self._results(cursor)

    def bound_bytes(self) -> int:
        """Return the least completion time of all operations, in bytes that one link could carry
        meanwhile.

        What the fullest host link carries. And after the last contribution, the last block's way to
        the root of its tree and down to the ranks.
        """
        task, parts = self.task, self._parts
        if task.ranks == 1:
            return 0  # its sum is what it has
        hosts = self.members.host
        number = int(hosts.max()) + 1
        fullest = fullest_link_bytes(number, placed(self.rounds(), hosts))
        if not fullest:
            return 0
        brought = (self._contributions(done * self.pieces) for done in range(task.operations))
        gathered = fullest_link_bytes(number, placed(brought, hosts))
        block = self.own.block_bytes or task.packet_bytes
        last = task.sizing(np.array([((parts[parts > 0] - 1) % block + 1).min()]))
        hops = 2 * self.levels - 1
        return max(fullest, gathered + hops * int(last[0]))

    def _contributions(self, cursor: int) -> Transfers:
        """Return what ranks send to servers in one operation."""
        pieces = self.task.sizing(self._parts).sum(axis=0)
        rank, server = self._with_servers(cursor)
        return Transfers(rank.ravel(), server.ravel(), np.tile(pieces, self.task.ranks))

    def _between_servers(self, cursor: int) -> Iterator[Transfers]:
        """Yield partial sums up the trees of all pieces, and results down. Servers pass on partial
        sums of half types as float32, which has twice the bytes."""
        task = self.task
        ratio = 2 if task.dtype in HALF_TYPES else 1
        partial = task.sizing(self._parts * ratio).sum(axis=0)
        results = task.sizing(self._parts)
        up: list[tuple[int, int, int]] = []
        down: list[tuple[int, int, int]] = []
        for piece in range(self.pieces):
            levels, servers = self.tree(cursor + piece)
            above = dict(edge for level in levels for edge in level)
            up += [(server, parent, int(partial[piece])) for server, parent in above.items()]
            if not self._scatters:
                down += [(parent, one, int(results[0, piece])) for one, parent in above.items()]
                continue
            for owner in range(task.ranks):
                here = servers[owner // self._group]
                while here in above:
                    down.append((above[here], here, int(results[owner, piece])))
                    here = above[here]
        for found in (up, down):
            yield Transfers(*np.array(found, np.int64).reshape(-1, 3).T)

    def _results(self, cursor: int) -> Transfers:
        """Return what servers send to ranks."""
        if not self._scatters:
            rank, server, size_bytes = self._contributions(cursor)
            return Transfers(server, rank, size_bytes)
        owner, server = self._with_servers(cursor)
        return Transfers(server.ravel(), owner.ravel(), self.task.sizing(self._parts).ravel())

    def _with_servers(self, cursor: int) -> tuple[IntArray, IntArray]:
        """Return each rank and its server, by rank and piece, int64 [P, pieces]."""
        ranks = np.arange(self.task.ranks, dtype=np.int64)
        turns = cursor + np.arange(self.pieces, dtype=np.int64)
        rank = np.broadcast_to(ranks[:, None], (len(ranks), self.pieces))
        return rank, self.servers_of(turns).T[ranks // self._group]
