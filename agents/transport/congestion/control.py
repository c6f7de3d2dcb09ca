"""What a congestion control is: it governs the window of a connection, by functions that are
compiled into the transport."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from weft.agents.congestion import CONTROLS
from weft.agents.transport import layout as at
from weft.agents.transport.types import TransportMisuse
from weft.base.registry import NoOptions


class CongestionControl:
    """A congestion control; by default the window grows by a packet a window, and losses halve it.

    Another package brings an instance by an entry point in the group ``weft.congestion_controls``.

    The functions whose names begin with ``after`` are compiled (`weft.base.jit`), so they are
    static, and what they call in turn is `weft.agents.wire.compiled.internal`. They are handed the
    endpoint and the row of the connection, and return its window from then on, in 1/256 packets.
    It is kept between one packet and the most that an endpoint has under way
    (``maximum_window``).
    """

    name: str
    about = ""
    """What help says that senders react to, in a word or two."""
    reacts_to_marks = False
    """Whether data are ECN-capable, and acknowledgements tell of marks. Then queues are taken to be
    in use on every path, so control messages are not repeated early."""
    options: type[Any] = NoOptions
    """Options of its own, as those of `weft.agents.collectives.algorithm.Algorithm`."""

    def words(self, own: Any) -> Sequence[int]:
        """Return what compiled code is told of the options (``endpoint.control_options``), an
        instance of `options`: whole numbers."""
        return [int(getattr(own, each.name)) for each in fields(own)]

    def first_window(self, endpoint: at.EndpointState, pair: at.PairState) -> int:
        """Return the window that a connection begins with, in 1/256 packets. What the control keeps
        of a connection (``pair.control``, words that are 0) may be set here."""
        return 256 * endpoint.maximum_window

    @staticmethod
    def after_acknowledgement(
        endpoint: at.EndpointState, pair: at.PairState, packets: int, now: int
    ) -> int:
        """Return the window once so many more packets are acknowledged, at a time in ns."""
        return pair.window + packets * 65536 // pair.window

    @staticmethod
    def after_loss(endpoint: at.EndpointState, pair: at.PairState) -> int:
        """Return the window once something is lost, or nothing was acknowledged for too long
        (``pair.probing``). This is asked once a window."""
        return min(pair.window, max(4 * 256, pair.window // 2))

    @staticmethod
    def after_rash_timeout(endpoint: at.EndpointState, pair: at.PairState) -> int:
        """Return the window once it is known that a timeout was rash: nothing was lost."""
        return 2 * pair.window

    @staticmethod
    def after_round(endpoint: at.EndpointState, pair: at.PairState) -> int:
        """Return the window after a round, in which a window was acknowledged: ``pair.marked`` of
        ``pair.acked`` packets with a mark. There are rounds only where acknowledgements tell of
        marks."""
        return pair.window


def control_of(name: str) -> CongestionControl:
    """Return the congestion control of a name. Raises TransportMisuse for an unknown one."""
    if name not in CONTROLS:
        raise TransportMisuse(f"congestion {name!r}: it is {' or '.join(CONTROLS)}")
    control: CongestionControl = CONTROLS[name]
    return control


def set_options(
    endpoint: at.EndpointState, control: CongestionControl, asked: Mapping[str, Any]
) -> None:
    """Tell compiled code what is asked of a control's own options. Raises TransportMisuse if that
    is more than there is room for."""
    words, room = control.words(control.options(**asked)), endpoint.control_options
    if len(words) > len(room):
        raise TransportMisuse(
            f"congestion {control.name!r} has {len(words)} words of options: {len(room)} at most"
        )
    room[: len(words)] = words
