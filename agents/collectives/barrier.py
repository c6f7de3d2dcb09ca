"""The dissemination barrier: who must be told, and who must be heard, before a rank goes on.

Hensgen, Finkel, Manber: "Two algorithms for barrier synchronization", 1988. In round k of ceil(log2
P) rank r tells r + 2^k and hears from r - 2^k (modulo P). It works for any P.
"""


def barrier_peers(rank: int, size: int) -> set[int]:
    """Return the ranks with which this one exchanges tokens."""
    distances = [1 << k for k in range(rounds(size))]
    return {(rank + d) % size for d in distances} | {(rank - d) % size for d in distances}


def rounds(size: int) -> int:
    """Return ceil(log2 P)."""
    return (size - 1).bit_length()


class DisseminationBarrier:
    """A barrier object serves one use of the barrier by one rank. Tokens may come before it is
    entered, and out of order of rounds."""

    def __init__(self, rank: int, size: int) -> None:
        self._rank = rank
        self._size = size
        self._round = 0
        self.entered = False
        self._heard: set[int] = set()

    def enter(self) -> list[tuple[int, int]]:
        """Begin, and return the tokens to send now, as (peer, round)."""
        self.entered = True
        return [] if self.done else [self._token(), *self._proceed()]

    def hear(self, round_: int) -> list[tuple[int, int]]:
        """Take a token of that round that has come; return the tokens to send now."""
        self._heard.add(round_)
        return self._proceed()

    @property
    def done(self) -> bool:
        """Whether every rank has entered the barrier."""
        return self.entered and self._round >= rounds(self._size)

    @property
    def waiting_for(self) -> int:
        """Return the rank whose token is next."""
        return (self._rank - (1 << self._round)) % self._size

    def _proceed(self) -> list[tuple[int, int]]:
        tokens = []
        while self.entered and not self.done and self._round in self._heard:
            self._round += 1
            if not self.done:
                tokens.append(self._token())
        return tokens

    def _token(self) -> tuple[int, int]:
        return (self._rank + (1 << self._round)) % self._size, self._round
