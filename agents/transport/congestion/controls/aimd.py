"""Additive increase, multiplicative decrease: the window follows losses alone."""

from weft.agents.transport.congestion.control import CongestionControl


class Window(CongestionControl):
    """Losses halve the window, which grows back by a packet a window (RFC 5681, 3.1)."""

    name = "window"
    about = "losses"


CONTROLS = (Window(),)
