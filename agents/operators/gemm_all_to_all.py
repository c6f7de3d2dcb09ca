"""The experts of a mixture of experts, and the All-to-All that brings what they make of a token to
the rank that the token is of ("combine" of GShard, arXiv 2006.16668).

Experts lie on different ranks, and tokens, too. A token goes to some experts; each multiplies it
with its matrix, and the token's owner adds what it gets. If it is asked for, tokens are first
brought to their experts ("dispatch"): to each host that has one of them once, by unicast, or
replicated by the switches.
"""

from collections import Counter, defaultdict
from itertools import zip_longest

import numpy as np
import numpy.typing as npt

from weft.agents.operators.operator import (
    ITEM_BYTES,
    Floats,
    Input,
    Operator,
    Sizes,
    Tile,
    divided,
    flat,
    remembered,
)
from weft.agents.operators.tasks import cut
from weft.base.errors import InputError, refuse

TILE_ROWS = 4
MOST_GATES = 1 << 26
"""The most that tokens times experts may be: a number is drawn for each, on each rank."""
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
    defaults = Sizes(batch_size=2048, width=2048, inner=256, experts=16, top_k=2)

    def __init__(self, sizes: Sizes, ranks: int, seed: int) -> None:
        super().__init__(sizes, ranks, seed)
        self._places: dict[tuple[int, int], tuple[int, int]] = {}
        """By expert's rank and token, the input that has the token, and the place of its first byte
        in what the rank gathers."""
        self._packed: list[IntArray] = [np.zeros(0, np.int64)] * ranks
        """The tokens in the order in which each rank has packed them."""
        self._gathered = [0] * ranks
        self._known: dict[int, list[tuple[Tile, tuple[int, ...], IntArray]]] = {}
        if sizes.dispatch:
            self.inputs = self._dispatched()
        self.adds = sizes.combines

    def check(self) -> None:
        sizes, ranks = self.sizes, self.ranks
        self._own_experts = divided(sizes.experts, ranks, "experts", "ranks")
        self._own_tokens = divided(sizes.batch_size, ranks, "batch-size", "ranks")
        divided(sizes.width, 1, "width", "operation")
        divided(sizes.inner, 1, "inner", "operation")
        if not 1 <= sizes.top_k <= sizes.experts:
            raise InputError(f"top-k {sizes.top_k}: a token goes to 1 to {sizes.experts} experts")
        refuse(
            sizes.batch_size * sizes.experts > MOST_GATES,
            f"batch-size {sizes.batch_size} and experts {sizes.experts}: each token is weighed for "
            f"each expert, {MOST_GATES} times at most in all; choose fewer of either",
        )
        random = np.random.default_rng([self.seed, _ROUTES])
        wanted = -sizes.imbalance * np.log(np.arange(1, sizes.experts + 1))
        drawn = wanted + random.gumbel(size=(sizes.batch_size, sizes.experts))
        chosen = np.argsort(-drawn, axis=1, kind="stable")[:, : sizes.top_k]
        self._routes: IntArray = np.sort(chosen, axis=1)
        """The experts of each token, int64 [batch, top_k], ascending."""
        self._weights = remembered(self._make_weights)
        self._tokens = remembered(self._make_tokens)
        self._gates = self.numbers(_GATES, shape=(sizes.batch_size, sizes.experts), most=1) + 2
        self._loads: list[int] = np.bincount(
            self._routes.reshape(-1), minlength=sizes.experts
        ).tolist()
        """The tokens of each expert."""
        self._routed = remembered(self._find_routed)
        self._runs = remembered(self._find_runs)

    def _find_routed(self, owner: int, expert: int) -> IntArray:
        """Return the tokens of an owner that go to an expert, ascending."""
        first = owner * self._own_tokens
        routes = self._routes[first : first + self._own_tokens]
        return first + np.flatnonzero((routes == expert).any(axis=1))

    def _experts(self, rank: int) -> range:
        return range(rank * self._own_experts, (rank + 1) * self._own_experts)

    def _find_runs(self, owner: int) -> list[tuple[tuple[int, ...], IntArray]]:
        """Return an owner's tokens in runs as long as a tile, each with the ranks that have an
        expert of its tokens."""
        first = owner * self._own_tokens
        by_ranks: dict[tuple[int, ...], list[tuple[list[int], int]]] = defaultdict(list)
        for place, experts in enumerate(self._routes[first : first + self._own_tokens].tolist()):
            ranks = tuple(sorted({expert // self._own_experts for expert in experts}))
            by_ranks[ranks].append((experts, first + place))
        runs = []
        for ranks, tokens in by_ranks.items():
            alike = np.array([token for _, token in sorted(tokens)], np.int64)
            spans = cut(len(alike), self.sizes.tile_rows or TILE_ROWS)
            runs.append([(ranks, alike[span.first : span.first + span.size]) for span in spans])
        # Sets of ranks come by turns: what ranks add at a time, all of them have a part in.
        return [run for turn in zip_longest(*runs) for run in turn if run is not None]

    def _wanted(self, tokens: IntArray, expert: int) -> npt.NDArray[np.bool_]:
        """Return which of some tokens go to an expert."""
        wanted: npt.NDArray[np.bool_] = (self._routes[tokens] == expert).any(axis=1)
        return wanted

    def _tiles(self, rank: int) -> tuple[Tile, ...]:
        return tuple(tile for tile, _, _ in self._made_once(rank))

    def _made_to_add(self, rank: int) -> list[tuple[Tile, tuple[int, ...], IntArray]]:
        """Return a rank's tiles where they are added on their way: of each token what all experts
        of the rank make of it."""
        width, inner = self.sizes.width, self.sizes.inner
        found: list[tuple[Tile, tuple[int, ...], IntArray]] = []
        for owner in range(self.ranks):
            place = 0
            for ranks, tokens in self._runs(owner):
                products = [int(self._wanted(tokens, each).sum()) for each in self._experts(rank)]
                moved = len(tokens) * width * (rank in ranks)
                for expert, count in zip(self._experts(rank), products, strict=True):
                    moved += count * inner + self._read_of(expert, count)
                tile = Tile(
                    owner, place * width * ITEM_BYTES, len(tokens) * width * ITEM_BYTES,
                    2 * sum(products) * inner * width, moved * ITEM_BYTES,
                    self._needs(rank, tokens), owner, ranks,
                )  # fmt: skip
                found.append((tile, tuple(self._experts(rank)), tokens))
                place += len(tokens)
        return found

    def _read_of(self, expert: int, tokens: int) -> int:
        """Return how many of an expert's weights a tile reads: the share of its tokens."""
        return self.sizes.inner * self.sizes.width * tokens // max(1, self._loads[expert])

    def _needs(self, rank: int, tokens: IntArray) -> tuple[int, ...]:
        """Return the inputs that a rank needs for some tokens."""
        places = (self._places.get((rank, token)) for token in tokens.tolist())
        return tuple(sorted({place[0] for place in places if place is not None}))

    def _made(self, rank: int) -> list[tuple[Tile, tuple[int, ...], IntArray]]:
        """Return a rank's tiles, each with its experts and its tokens."""
        if self.sizes.combines:
            return self._made_to_add(rank)
        width, inner = self.sizes.width, self.sizes.inner
        found: list[tuple[Tile, tuple[int, ...], IntArray]] = []
        for owner in range(self.ranks):
            place = sum(len(self._routed(owner, each)) for each in range(self._experts(rank)[0]))
            for expert in self._experts(rank):
                tokens = self._routed(owner, expert)
                for rows in cut(len(tokens), self.sizes.tile_rows or TILE_ROWS):
                    own = tokens[rows.first : rows.first + rows.size]
                    moved = rows.size * (inner + width) + self._read_of(expert, rows.size)
                    tile = Tile(
                        owner, (place + rows.first) * width * ITEM_BYTES,
                        rows.size * width * ITEM_BYTES, 2 * rows.size * inner * width,
                        moved * ITEM_BYTES, self._needs(rank, own), owner,
                    )  # fmt: skip
                    found.append((tile, (expert,), own))
                place += len(tokens)
        return found

    def landing_bytes(self, rank: int) -> int:
        copies = 1 if self.sizes.combines else self.sizes.top_k
        return self._own_tokens * copies * self.sizes.width * ITEM_BYTES

    def most_tiles(self) -> int:
        sizes, rows = self.sizes, self.sizes.tile_rows or TILE_ROWS
        if sizes.combines:
            return self.ranks * sizes.batch_size
        return sizes.batch_size * sizes.top_k // rows + self.ranks * sizes.experts

    def kept_numbers(self) -> int:
        sizes = self.sizes
        weights = sizes.experts * sizes.inner * sizes.width
        return weights + sizes.batch_size * (sizes.inner + 4 * sizes.experts)

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
        made, experts, tokens = self._made_once(rank)[tile]
        result = np.zeros((len(tokens), self.sizes.width), np.float32)
        for expert in experts:
            wanted = self._wanted(tokens, expert)
            if not wanted.any():
                continue
            mine = tokens[wanted]
            if made.needs:
                inner = self.sizes.inner
                places = [self._places[rank, token][1] // ITEM_BYTES for token in mine.tolist()]
                rows = np.stack([gathered[place : place + inner] for place in places])
            else:
                rows = self._tokens(made.owner, number)[mine - made.owner * self._own_tokens]
            gates = self._gates[mine, expert][:, None]
            result[wanted] += np.matmul(rows, self._weights(expert)) * gates
        return flat(result)

    def finish(self, rank: int, number: int, landed: Floats) -> Floats:
        result = np.zeros((self._own_tokens, self.sizes.width), np.float32)
        rows = landed.reshape(-1, self.sizes.width)
        if self.sizes.combines:
            order = np.concatenate([tokens for _, tokens in self._runs(rank)])
            result[order - rank * self._own_tokens] = rows
            return result.reshape(-1)
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
            routed = (self._routes[first : first + self._own_tokens] == expert).any(axis=1)
            gates = self._gates[first : first + self._own_tokens, expert][routed]
            found[routed] += np.matmul(tokens[routed] * gates[:, None], self._weights(expert))
        return found.reshape(-1)

    def _made_once(self, rank: int) -> list[tuple[Tile, tuple[int, ...], IntArray]]:
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
