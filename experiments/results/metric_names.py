"""The names of metrics, for those who ask without loading what metrics are read from."""

from typing import Any

import msgspec

from weft.base.registry import Registry


class MetricFacts(msgspec.Struct):
    """What is known of a metric without its module: attributes of
    `weft.experiments.results.metric.Metric`."""

    title: str
    of_links: bool


METRICS: Registry[Any] = Registry(
    "weft.metrics",
    "weft.experiments.results.metrics:METRICS",
    facts=MetricFacts,
    kind="weft.experiments.results.metric:Metric",
)
"""All metrics: instances of `weft.experiments.results.metric.Metric`."""


def plotted() -> tuple[str, ...]:
    """Return the metrics that the y axis of lines may show."""
    return tuple(name for name in METRICS if METRICS.fact(name, "title"))


def plotted_of_links() -> tuple[str, ...]:
    """Return those of them of which a plot chooses the links."""
    return tuple(name for name in plotted() if METRICS.fact(name, "of_links"))
