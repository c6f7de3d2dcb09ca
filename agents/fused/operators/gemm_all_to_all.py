"""The experts of a mixture of experts, and the All-to-All that brings what they make of a token to
the rank that the token is of ("combine" of GShard, arXiv 2006.16668).

Experts lie on different ranks, and tokens, too. A token goes to some experts; each multiplies it
with its matrix, and the token's owner adds what it gets. If it is asked for, tokens are first
brought to their experts ("dispatch"): to each host that has one of them once, by unicast, or
replicated by the switches.
"""

from collections import Counter, defaultdict
from functools import cache

import numpy as np
import numpy.typing as npt

from weft.agents.fused.operator import (
    ITEM_BYTES,
    Floats,
    Input,
    Operator,
    Sizes,
    Tile,
    divided,
    flat,
)
from weft.agents.fused.tasks import cut
from weft.base.errors import refuse

TILE_ROWS = 4
INPUT_BYTES = 16 * 1024
"""Tokens are dispatched in pieces of so many bytes at most, or of one token."""
MOST_JOINED = 16
"""The most multicast groups of a host; a Linux socket may join 20
(net.ipv4.igmp_max_memberships)."""
_TOKENS, _WEIGHTS, _ROUTES, _GATES = range(4)

IntArray = npt.NDArray[np.int64]


class GemmAllToAll(Operator):
    """A rank's result is float32 [batch / ranks, width]: for each of its tokens, the sum over the
    token's experts of gate * (token [inner] times the expert's [inner, width])."""

    name = "gemm-all-to-all"
    about = "experts' products, to the owners of the tokens, which add them"
    finishes = True
    defaults = Sizes(batch=2048, width=2048, inner=256, experts=16, top_k=2)

    def __init__(self, sizes: Sizes, ranks: int, seed: int) -> None:
        super().__init__(sizes, ranks, seed)
        self._places: dict[tuple[int, int], tuple[int, int]] = {}
        """By expert's rank and token, the input that has the token, and the place of its first byte
        in what the rank gathers."""
        self._packed: list[IntArray] = [np.zeros(0, np.int64)] * ranks
        """The tokens in the order in which each rank has packed them."""
        self._gathered = [0] * ranks
        self._known: dict[int, list[tuple[Tile, int, IntArray]]] = {}
        if sizes.dispatch:
            self.inputs = self._dispatched()

    def check(self) -> None:
        sizes, ranks = self.sizes, self.ranks
        self._own_experts = divided(sizes.experts, ranks, "experts", "ranks")
        self._own_tokens = divided(sizes.batch, ranks, "batch", "ranks")
        divided(sizes.width, 1, "width", "operation")
        divided(sizes.inner, 1, "inner", "operation")
        refuse(
            not 1 <= sizes.top_k <= sizes.experts,
            f"top-k {sizes.top_k}: a token goes to 1 to {sizes.experts} experts",
        )
        random = np.random.default_rng([self.seed, _ROUTES])
        wanted = -sizes.imbalance * np.log(np.arange(1, sizes.experts + 1))
        drawn = wanted + random.gumbel(size=(sizes.batch, sizes.experts))
        chosen = np.argsort(-drawn, axis=1, kind="stable")[:, : sizes.top_k]
        self._routes: IntArray = np.sort(chosen, axis=1)
        """The experts of each token, int64 [batch, top_k], ascending."""
        self._weights = cache(self._make_weights)
        self._tokens = cache(self._make_tokens)
        self._gates = self.numbers(_GATES, shape=(sizes.batch, sizes.experts), most=1) + 2
        self._routed = cache(self._find_routed)

    def _find_routed(self, owner: int, expert: int) -> IntArray:
        """Return the tokens of an owner that go to an expert, ascending."""
        first = owner * self._own_tokens
        routes = self._routes[first : first + self._own_tokens]
        return first + np.flatnonzero((routes == expert).any(axis=1))

    def _experts(self, rank: int) -> range:
        return range(rank * self._own_experts, (rank + 1) * self._own_experts)

    def _tiles(self, rank: int) -> tuple[Tile, ...]:
        return tuple(tile for tile, _, _ in self._made_once(rank))

    def _made(self, rank: int) -> list[tuple[Tile, int, IntArray]]:
        """Return a rank's tiles, each with its expert and its tokens."""
        width, inner = self.sizes.width, self.sizes.inner
        found = []
        for owner in range(self.ranks):
            place = sum(len(self._routed(owner, each)) for each in range(self._experts(rank)[0]))
            for expert in self._experts(rank):
                tokens = self._routed(owner, expert)
                for rows in cut(len(tokens), self.sizes.tile_rows or TILE_ROWS):
                    own = tokens[rows.first : rows.first + rows.size]
                    needs = {
                        self._places[rank, token][0]
                        for token in own.tolist()
                        if (rank, token) in self._places
                    }
                    moved = rows.size * inner + inner * width + rows.size * width
                    tile = Tile(
                        owner, (place + rows.first) * width * ITEM_BYTES,
                        rows.size * width * ITEM_BYTES, 2 * rows.size * inner * width,
                        moved * ITEM_BYTES, tuple(sorted(needs)), owner,
                    )  # fmt: skip
                    found.append((tile, expert, own))
                place += len(tokens)
        return found

    def landing_bytes(self, rank: int) -> int:
        return self._own_tokens * self.sizes.top_k * self.sizes.width * ITEM_BYTES

    def result_bytes(self, rank: int) -> int:
        return self._own_tokens * self.sizes.width * ITEM_BYTES

    def input_bytes(self, rank: int) -> int:
        return len(self._packed[rank]) * self.sizes.inner * ITEM_BYTES

    def gathered_bytes(self, rank: int) -> int:
        return self._gathered[rank]

    def own_inputs(self, rank: int, number: int) -> Floats:
        first = rank * self._own_tokens
        return self._tokens(rank, number)[self._packed[rank] - first].reshape(-1)

    def _make_tokens(self, rank: int, number: int) -> Floats:
        return self.numbers(_TOKENS, rank, number, shape=(self._own_tokens, self.sizes.inner))

    def _make_weights(self, expert: int) -> Floats:
        return self.numbers(_WEIGHTS, expert, shape=(self.sizes.inner, self.sizes.width))

    def compute(self, rank: int, number: int, tile: int, own: Floats, gathered: Floats) -> Floats:
        made, expert, tokens = self._made_once(rank)[tile]
        if made.needs:
            inner = self.sizes.inner
            places = [self._places[rank, token][1] // ITEM_BYTES for token in tokens.tolist()]
            rows = np.stack([gathered[place : place + inner] for place in places])
        else:
            rows = self._tokens(made.owner, number)[tokens - made.owner * self._own_tokens]
        gates = self._gates[tokens, expert][:, None]
        return flat(np.matmul(rows, self._weights(expert)) * gates)

    def finish(self, rank: int, number: int, landed: Floats) -> Floats:
        result = np.zeros((self._own_tokens, self.sizes.width), np.float32)
        rows = landed.reshape(-1, self.sizes.width)
        place = 0
        for expert in range(self.sizes.experts):
            tokens = self._routed(rank, expert) - rank * self._own_tokens
            result[tokens] += rows[place : place + len(tokens)]
            place += len(tokens)
        return result.reshape(-1)

    def expected(self, rank: int, number: int) -> Floats:
        found = np.zeros((self._own_tokens, self.sizes.width), np.float32)
        tokens = self._tokens(rank, number)
        first = rank * self._own_tokens
        for expert in range(self.sizes.experts):
            gates = np.zeros((self._own_tokens, 1), np.float32)
            routed = (self._routes[first : first + self._own_tokens] == expert).any(axis=1)
            gates[routed, 0] = self._gates[first : first + self._own_tokens, expert][routed]
            found += np.matmul(tokens * gates, self._weights(expert))
        return found.reshape(-1)

    def _made_once(self, rank: int) -> list[tuple[Tile, int, IntArray]]:
        if rank not in self._known:
            self._known[rank] = self._made(rank)
        return self._known[rank]

    # -- dispatch

    def _dispatched(self) -> tuple[Input, ...]:
        """Return the pieces in which tokens are brought to the hosts of their experts."""
        pieces = self._pieces()
        row_bytes = self.sizes.inner * ITEM_BYTES
        packed: dict[int, list[int]] = defaultdict(list)
        inputs: list[Input] = []
        for source, destinations, tokens in pieces:
            for rows in cut(len(tokens), max(1, INPUT_BYTES // row_bytes)):
                size_bytes = rows.size * row_bytes
                own = tokens[rows.first : rows.first + rows.size]
                first = len(packed[source]) * row_bytes
                packed[source] += own
                targets = tuple(self._gathered[each] for each in destinations)
                for destination in destinations:
                    base = self._gathered[destination]
                    for place, token in enumerate(own):
                        at = base + place * row_bytes
                        self._places[destination, token] = len(inputs), at
                    self._gathered[destination] += size_bytes
                inputs.append(Input(source, destinations, first, targets, size_bytes))
        for source, order in packed.items():
            self._packed[source] = np.array(order, np.int64)
        return tuple(inputs)

    def _pieces(self) -> list[tuple[int, tuple[int, ...], list[int]]]:
        """Return (source, destinations, tokens), where those of a source come by turns from the
        rank after it on."""
        by_hosts: dict[tuple[int, tuple[int, ...]], list[int]] = defaultdict(list)
        for token, experts in enumerate(self._routes.tolist()):
            source = token // self._own_tokens
            others = sorted({expert // self._own_experts for expert in experts} - {source})
            if others:
                by_hosts[source, tuple(others)].append(token)
        groups = self._groups(by_hosts) if self.sizes.dispatch == "multicast" else set()
        found: dict[tuple[int, tuple[int, ...]], list[int]] = defaultdict(list)
        for (source, hosts), tokens in by_hosts.items():
            if (source, hosts) in groups:
                found[source, hosts] += tokens
                continue
            for host in hosts:
                found[source, (host,)] += tokens
        return [
            (source, hosts, sorted(tokens))
            for (source, hosts), tokens in sorted(
                found.items(), key=lambda each: (each[0][0], (each[0][1][0] - each[0][0]) %
                                                 self.ranks, each[0][1])
            )
        ]  # fmt: skip

    def _groups(
        self, by_hosts: dict[tuple[int, tuple[int, ...]], list[int]]
    ) -> set[tuple[int, tuple[int, ...]]]:
        """Return which (source, destinations) have a multicast group: those that save most, as long
        as no host joins more than it may."""
        saved = {key: (len(key[1]) - 1) * len(tokens) for key, tokens in by_hosts.items()}
        ranked = sorted(saved, key=lambda key: (-saved[key], key))
        joined: Counter[int] = Counter()
        found = set()
        for key in ranked:
            members = (key[0], *key[1])
            if saved[key] and all(joined[member] < MOST_JOINED for member in members):
                joined.update(members)
                found.add(key)
        return found
