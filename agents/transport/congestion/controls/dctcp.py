"""DCTCP (RFC 8257): the window follows the part of packets that are marked."""

from weft.agents.transport import layout as at
from weft.agents.transport.congestion.control import CongestionControl

ALPHA = 0
"""The word of a connection that has the part of packets that are marked, smoothed."""
ONE = 1 << 16
"""All packets."""


class Dctcp(CongestionControl):
    """After each round the window is cut by half of the part of packets that are marked. Losses do
    what they do elsewhere."""

    name = "dctcp"
    about = "marks"
    reacts_to_marks = True

    def first_window(self, endpoint: at.EndpointState, pair: at.PairState) -> int:
        """See `CongestionControl.first_window`."""
        pair.control[ALPHA] = ONE
        return super().first_window(endpoint, pair)

    @staticmethod
    def after_round(endpoint: at.EndpointState, pair: at.PairState) -> int:
        """See `CongestionControl.after_round` (RFC 8257, 3.3)."""
        before = int(pair.control[ALPHA])
        alpha = before + (pair.marked * ONE // pair.acked - before) // 16
        pair.control[ALPHA] = alpha
        if pair.marked:
            return pair.window - pair.window * alpha // (2 * ONE)
        return pair.window


CONTROLS = (Dctcp(),)
