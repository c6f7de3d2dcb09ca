"""How ranks compare what they call: each with the rank before it, so all around all call the same.
Who sees a difference tells all others."""

from collections.abc import Callable

import numpy as np

from weft.agents.collectives.mailbox import Bytes
from weft.pytorch.group_agents import GroupAgents

CALL_BYTES = 192
CALL_TAG = -(1 << 31)
"""The size and the tag of the messages by which ranks compare what they call. Bytes that a call
sends along come behind."""
MOST_ALONG = 2048
"""The most of these."""
NOTHING = np.empty(0, np.uint8)


class Comparing:
    """Compares the calls of one rank of a group.

    Args:
        fail: called with what differs: nothing can be done in the group any more.
        failure: returns why that is so already, or an empty text.
    """

    def __init__(
        self, agents: GroupAgents, fail: Callable[[str], None], failure: Callable[[], str]
    ) -> None:
        self._agents = agents
        self._fail = fail
        self._failure = failure

    def compare(
        self,
        number: int,
        call: str,
        compared: Callable[[str], None],
        own_along: Bytes = NOTHING,
        their_along: Bytes = NOTHING,
    ) -> None:
        """Compare a collective with what the rank before this one calls in its place, and let the
        rank behind this one do so, too.

        Args:
            number: of the collective.
            compared: told an empty text if the two are the same, and why not otherwise.
            own_along: bytes that go to the rank behind with the call.
            their_along: where those of the rank before go, as many if the calls are the same.
        """
        rank, size = self._agents.rank, self._agents.size
        if size == 1:
            compared("")
            return
        text = call.encode()[:CALL_BYTES]
        own = np.zeros(CALL_BYTES + len(own_along), np.uint8)
        own[: len(text)] = np.frombuffer(text, np.uint8)
        own[CALL_BYTES:] = own_along
        theirs = np.zeros(CALL_BYTES + MOST_ALONG, np.uint8)
        before, behind = (rank - 1) % size, (rank + 1) % size

        def told(error: str, _source: int) -> None:
            said = theirs[:CALL_BYTES].tobytes()
            if not error and not self._failure() and own[:CALL_BYTES].tobytes() != said:
                error = (
                    f"the ranks do not call the same: as collective {number} of the group, rank "
                    f"{rank} calls {text.decode(errors='replace')}, and rank {before} "
                    + said.rstrip(b"\0").decode(errors="replace")
                )
                self._agents.exchange_of_all().disagree(error)  # ranks may wait for this one there
                self._agents.mailbox.disagree(error)
            if error:
                self._fail(error)
            else:
                their_along[:] = theirs[CALL_BYTES : CALL_BYTES + len(their_along)]
            compared(error or self._failure())

        self._agents.receive(before, CALL_TAG, theirs, told, at_most=True)
        self._agents.send(behind, CALL_TAG, own, lambda *_: None)
