"""What a scenario says of paths, congestion and placement: checked, and defaults filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.path_schemes import (
    ECN_THRESHOLD_PACKETS,
    REORDER_PACKETS,
    SPRAYED_REORDER_PACKETS,
    WITHOUT_MARKS,
    PathScheme,
    scheme_of,
)
from experiments.scenario_checks import choose, whole
from switch.errors import InputError

if TYPE_CHECKING:
    from experiments.scenario import Scenario

CONGESTION = ("window", "dctcp")
RECOVERY = ("go-back-n", "selective")
PLACEMENTS = ("in-order", "strided", "random")
MARKED_COLLECTIVES = ("alltoall", "many-to-one", "flows")
"""Those in which flows meet by their nature: they react to marks, whatever their paths."""
MAX_ECN_PACKETS = 1 << 18
"""A queue depth has 19 bits in v1model."""


def check_transport(scenario: Scenario) -> None:
    """Check and fill in how flows find their paths, and how the transport reacts."""
    scheme = scheme_of(scenario.paths)
    marks = scheme.entropy != "fixed"
    if scenario.congestion is None:
        plain = scenario.paths in WITHOUT_MARKS and scenario.collective not in MARKED_COLLECTIVES
        without = plain or (scenario.switch == "bmv2" and not marks)
        object.__setattr__(scenario, "congestion", "window" if without else "dctcp")
    assert scenario.congestion is not None
    choose("congestion", scenario.congestion, CONGESTION)
    _check_marks(scenario, scheme)
    if scenario.recovery is None:
        object.__setattr__(scenario, "recovery", "selective" if scheme.reorders else "go-back-n")
    assert scenario.recovery is not None
    choose("recovery", scenario.recovery, RECOVERY)
    if scenario.ecn_threshold_packets is None:
        marking = ECN_THRESHOLD_PACKETS if scenario.congestion == "dctcp" else 0
        object.__setattr__(scenario, "ecn_threshold_packets", marking)
    assert scenario.ecn_threshold_packets is not None
    least = 1 if scenario.congestion == "dctcp" else 0
    whole("ecn-threshold", scenario.ecn_threshold_packets, least, MAX_ECN_PACKETS)
    if scenario.ecn_threshold_packets and scenario.switch == "bmv2":
        raise InputError(
            f"ecn-threshold {scenario.ecn_threshold_packets}: switch 'bmv2' marks nothing, since "
            "its queues stay empty; leave it out, or choose the built-in switch (--switch weft)"
        )
    if scenario.reorder_packets is None:
        tolerated = SPRAYED_REORDER_PACKETS if scheme.reorders else REORDER_PACKETS
        object.__setattr__(scenario, "reorder_packets", tolerated)
    assert scenario.reorder_packets is not None
    whole("reorder", scenario.reorder_packets, 1, 1 << 16)
    choose("placement", scenario.rank_placement, PLACEMENTS)


def _check_marks(scenario: Scenario, scheme: PathScheme) -> None:
    if scheme.entropy != "fixed" and scenario.congestion != "dctcp":
        raise InputError(
            f"congestion {scenario.congestion!r}: {scenario.paths} goes by congestion marks; leave "
            "congestion out, or say dctcp"
        )
    if scenario.congestion == "dctcp" and scenario.switch == "bmv2":
        raise InputError(
            "switch 'bmv2' marks nothing, since its queues stay empty (its links are shaped "
            f"outside it), and paths {scenario.paths!r} with congestion 'dctcp' goes by marks; "
            "choose the built-in switch (--switch weft), or congestion 'window' with other paths"
        )


def fabric_rate_bps(scenario: Scenario, hosts_on_leaf: int, uplinks: int) -> int | None:
    """The rate of links between switches that gives the oversubscription asked for: what a leaf's
    hosts can send over what its uplinks carry. None: that of all links.

    Raises:
        InputError: there is no such rate.
    """
    wanted = scenario.oversubscription
    if wanted is None:
        return None
    if not 0.125 <= wanted <= 64:
        raise InputError(
            f"oversubscription {wanted:g}: from 0.125 to 64; 4 means that a leaf's hosts can send "
            "four times what its uplinks carry"
        )
    rate_bps = round(scenario.rate_bps * hosts_on_leaf / (uplinks * wanted))
    if rate_bps < 100_000:
        raise InputError(
            f"oversubscription {wanted:g} makes fabric links of {rate_bps} bit/s at a rate of "
            f"{scenario.rate_bps}: at least 100 kbit/s are needed; raise rate, or lower it"
        )
    return rate_bps
