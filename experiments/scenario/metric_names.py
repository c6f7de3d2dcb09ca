"""The names of metrics, for those who ask without loading what metrics are read from."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from weft.base.registry import Registry
from weft.experiments.scenario.families import families


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
"""The metrics of no kind of work: instances of `weft.experiments.results.metric.Metric`."""


@cache
def all_metrics() -> Mapping[str, Any]:
    """Return all metrics by their names, in the order of tables; those of kinds of work are
    last."""
    of_families = (metric for family in families() for metric in family.metrics())
    return {**METRICS, **{each.name: each for each in of_families if each.name not in METRICS}}


def plotted() -> tuple[str, ...]:
    """Return the metrics that the y axis of lines may show."""
    return tuple(each.name for each in all_metrics().values() if each.title)


def plotted_of_links() -> tuple[str, ...]:
    """Return those of them of which a plot chooses the links."""
    return tuple(each.name for each in all_metrics().values() if each.title and each.of_links)
