"""A queue of a switch's port as a script handles it: its bounds, its share, pauses, its counts."""

from typing import Any

from weft.base.errors import refuse
from weft.controller.handles.access import SwitchAccess


class QueueHandle:
    """A handle on the queue of a priority: ``leaf.queue(2, 1).set(weight=3)``. BMv2 has no calls
    for its queues in P4Runtime."""

    def __init__(self, switch: SwitchAccess, port: int, priority: int) -> None:
        self._switch = switch
        self.port = port
        """The number of the port."""
        self.priority = priority
        """The priority of the packets in the queue."""

    def _call(self, name: str, **arguments: Any) -> None:
        self._switch.session.own_call(name, port=self.port, priority=self.priority, **arguments)

    def set(
        self, *, packets: int | None = None, rate_pps: int | None = None, weight: int | None = None
    ) -> None:
        """Let it hold so many packets at most, let so many a second leave it (0: as many as the
        link takes), and give it a weight among the queues that have one (0: it has none, and comes
        before those)."""
        self._call("set_queue", packets=packets, rate_pps=rate_pps, weight=weight)

    def pause(self, seconds: float | None = None) -> None:
        """Let its port's link take nothing from it for so long, or until `resume`."""
        refuse(seconds is not None and seconds < 0, f"a pause of {seconds} s: a time is 0 or more")
        self._call("pause_queue", time_us=None if seconds is None else round(seconds * 1e6))

    def resume(self) -> None:
        """End a pause."""
        self._call("pause_queue", time_us=0)

    def read(self) -> dict[str, int]:
        """Return what holds for it, what waits in it (``packets``, ``bytes``), and what it has
        counted: ``taken_packets`` and ``taken_bytes``, which the link has taken from it, ``drops``,
        ``drop_bytes``, ``peak_packets`` and ``peak_bytes``."""
        found: list[dict[str, int]] = self._switch.session.own_call(
            "queues", port=self.port, priority=self.priority
        )
        return found[0]
