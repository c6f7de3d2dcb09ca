"""What switches report of themselves, as far as a run uses it."""

import msgspec


class QueueStatistics(msgspec.Struct, frozen=True):
    """What the queue of a priority has counted since its switch started."""

    priority: int
    taken_packets: int
    """Packets that the link has taken from it."""
    taken_bytes: int
    drops: int
    """Packets that it had no room for."""
    peak_bytes: int
    """The most that waited in it."""


class PortStatistics(msgspec.Struct, frozen=True):
    """What a port has counted since its switch started. BMv2's ports only know their drops."""

    port: int
    queue_drops: int
    """Packets that the port's queue had no room for."""
    queue_peak_bytes: int = 0
    """The most that waited in the queue."""
    queue_depths: list[tuple[int, int]] = []
    """How full the queue was when packets came to it: bytes, and how many packets found them."""
    load_bytes: list[int] = []
    """What the port put on its link, in each bin of time."""
    arrived_load_bytes: list[int] = []
    """What came over its link, in each bin of time."""
    kernel_drops: int = 0
    """Frames that the kernel dropped because nobody had read the earlier ones."""
    send_errors: int = 0
    """Frames that the kernel refused to send."""
    queues: list[QueueStatistics] = []
    """Its queues by priority, if it has several."""


class SwitchStatistics(msgspec.Struct, frozen=True):
    """What a switch has counted."""

    name: str
    ports: list[PortStatistics]
    drops: dict[str, int] = {}
    """Packets that the switch dropped, by reason."""
    form: str | None = None
    """How its program runs: ``compiled``, or ``plain`` until it has been compiled. None: BMv2, or
    no program."""
    plain_packets: int = 0
    """How often packets have gone through the ingress of its program in the plain form."""


class SwitchProcessStatistics(msgspec.Struct, frozen=True):
    """What the switches of a world tell of themselves: of its document what runs read."""

    switches: list[SwitchStatistics]
    cpu_seconds: float
    """Processor time that switching took."""
    load_bin_ns: int = 0
    """How long the bins of time of `PortStatistics.load_bytes` are; 0 where none were counted."""
    no_buffer_drops: int = 0
    """Packets for which the switches had no buffer left."""
    lateness_ns: dict[str, int] = {}
    """How late packets left the switches, by quantile; empty where that is not known."""
    burst_ns: dict[str, int] = {}
    """How far ahead of their links packets came, by quantile."""
