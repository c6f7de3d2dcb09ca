"""The report of a network that was up: one self-contained HTML page."""

from weft.base.units import format_rate
from weft.experiments.report.base import network_drawing, page
from weft.experiments.results.network import FABRIC, NetworkResults
from weft.experiments.results.summary import byte_unit

DROPS = {
    "no_program": "without a program",
    "ingress": "by the program, in ingress",
    "egress": "by the program, in egress",
    "no_port": "for a port that is not there",
    "repeats": "that went round too often",
    "too_long": "that were too long",
    "priority": "of a priority that has no queue",
}
"""Why switches drop packets, behind how many."""


def render(results: NetworkResults) -> str:
    """Return the page as text."""
    network = results.topology
    carried = {(each.from_node, each.to_node): each.tx_bytes for each in results.links}
    unit = byte_unit(max(carried.values(), default=0))
    picture, width = network_drawing(network, carried, unit, "Frames on each link")
    rates = {each.ends: format_rate(each.link.rate_bps) for each in network.directions}
    machine = {
        name: ", ".join(f"{key} {inner}" for key, inner in value.items())
        if isinstance(value, dict) else str(value)
        for name, value in results.environment.items()
    }  # fmt: skip
    seconds = results.seconds
    return page(
        "network_page.html",
        results=results,
        carried=sum(carried.values()),
        dropped=sum(each.dropped for each in results.links),
        picture=picture,
        width=width,
        rates=rates,
        programs={each.name: _program(each.program, results) for each in results.switches},
        by_fabric=any(each.counted_by == FABRIC for each in results.links),
        loses=any(each.lost is not None for each in results.links),
        machine=machine,
        why=lambda reason: DROPS.get(reason, reason),
        duration=f"{seconds:,.1f} s" if seconds >= 1 else f"{seconds:g} s",
    )


def _program(source: str, results: NetworkResults) -> str:
    if source:
        return source
    return "the fabric's" if results.controlled else "none that Weft has loaded"
