"""The metrics of the queue of a priority, where ports have several."""

from weft.experiments.results.metric import BYTES, COUNT, Metric

METRICS = (
    Metric(
        name="class-packets", about="packets that links took from queues of a priority", unit=COUNT,
        queue=lambda queue: queue.tx_packets, column="tx_packets", label="packets",
        sections=("queues",),
    ),
    Metric(
        name="class-bytes", about="bytes that links took from queues of a priority", unit=BYTES,
        queue=lambda queue: queue.tx_bytes, column="tx_bytes", label="bytes", sections=("queues",),
    ),
    Metric(
        name="class-dropped", about="packets that queues of a priority had no room for", unit=COUNT,
        queue=lambda queue: queue.dropped, column="dropped_packets",
        label="no room", hint="dropped for want of room in the queue", sections=("queues",),
    ),
    Metric(
        name="class-queue", about="the most that waited in a queue of a priority", unit=BYTES,
        queue=lambda queue: queue.max_bytes, column="max_queue_bytes", label="deepest queue",
        sections=("queues",),
    ),
)  # fmt: skip
