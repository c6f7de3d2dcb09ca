"""The metrics of a link's direction."""

from weft.experiments.results.metric import BYTES, COUNT, Metric

METRICS = (
    Metric(
        name="link-packets", about="packets that a link transmitted", unit=COUNT,
        link=lambda link: link.tx_packets, column="tx_packets", label="packets",
        sections=("links",),
    ),
    Metric(
        name="link-bytes", about="bytes that a link transmitted", unit=COUNT,
        link=lambda link: link.tx_bytes, column="tx_bytes", label="bytes", sections=("links",),
    ),
    Metric(
        name="link-lost", about="packets lost on a link on purpose", unit=COUNT,
        link=lambda link: link.lost, column="lost_packets",
        label="lost", hint="lost on the link on purpose", sections=("links",),
    ),
    Metric(
        name="link-queue-dropped", about="packets that a link's queue had no room for", unit=COUNT,
        link=lambda link: link.queue_dropped, column="queue_dropped_packets",
        label="no room", hint="dropped by the sender's queue for want of room", unknown="not known",
        sections=("links",),
    ),
    Metric(
        name="link-queue", about="the most that waited in a link's queue", unit=BYTES,
        link=lambda link: link.max_queue_bytes, column="max_queue_bytes", label="deepest queue",
        when=lambda each: any(link.max_queue_bytes is not None for link in each.shown.links),
        sections=("links",),
    ),
    Metric(
        name="link-marked", about="packets that a switch marked for a long queue", unit=COUNT,
        link=lambda link: link.marked, column="marked_packets",
        label="marked", hint="by switches, for a long queue (ECN)", sections=("kinds",),
    ),
)  # fmt: skip
