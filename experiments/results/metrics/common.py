"""The metrics that all runs have."""

from collections.abc import Callable, Sequence
from functools import lru_cache

from weft.base.errors import InputError
from weft.experiments.results.comparison import compare
from weft.experiments.results.metric import (
    BYTES,
    COUNT,
    PERCENT,
    RATE,
    RATIO,
    TIME,
    Figure,
    Metric,
    Unit,
)
from weft.experiments.results.results import Run, scenario_of
from weft.experiments.results.summary import TIERS, Summary
from weft.experiments.results.telemetry import load_spread
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.traffic_model import tier_model_frame_bytes
from weft.topo.network import FABRIC_TIERS

ERROR = Unit("{:.1e}".format, "{:.1e}".format)
EXCESS = Unit("{:.1%}".format, lambda part: f"{100 * part:.1f} %")
OF_BOUND = Unit("{:.0%}".format, lambda part: f"{100 * part:.0f} %")


def over(above: Figure, below: Figure) -> Figure:
    """Return a ratio, and None where one of its parts is not known, or it is over nothing."""
    return above / below if above is not None and below else None


def _over_bound(one: Run | Summary) -> Figure:
    return over(one.completion_ns, one.bound_ns)


def _excess(one: Run | Summary) -> Figure:
    found = _over_bound(one)
    return None if found is None else found - 1


def _of_sums(name: str) -> Callable[[Run | Summary], Figure]:
    return lambda one: getattr(one.accuracy, name, None)


def _phase_ns(name: str) -> Callable[[Run], Figure]:
    return lambda run: Summary(run.algorithm, (run,)).phases_ns.get(name)


def _speed_up(each: Summary, below: Summary | None, links: Sequence[str]) -> Figure:
    """Return how many times as fast a summary is as the denominator, measured or predicted."""
    found = compare(each, below) if below is not None else None
    return found.ratio if found is not None else None


def _carried(each: Summary | None, links: Sequence[str]) -> float:
    return sum(each.tiers[tier] for tier in links) if each else 0


def _modelled(each: Summary | None, links: Sequence[str]) -> float:
    return sum(each.model.get(tier, 0) for tier in links) if each else 0


def _on(*tiers: str) -> Callable[[Run], Figure]:
    return lambda run: sum(run.tiers[tier] for tier in tiers)


def _on_ranks(run: Run) -> Figure:
    if any(link.directions > 1 for link in run.links):
        return None  # nobody knows which of them are ranks'
    hosts = {rank.host for rank in run.ranks}
    return sum(link.tx_bytes for link in run.links if {link.from_node, link.to_node} & hosts)


def _over_model(tier: str) -> Callable[[Run], Figure]:
    return lambda run: over(run.tiers[tier], _model_bytes(run).get(tier))


def _model_bytes(run: Run) -> dict[str, int]:
    """Return the frame bytes by tier that theory has of a run; none where it says nothing."""
    try:
        return _bytes_of(scenario_of(run.scenario), run.algorithm)
    except InputError:
        return {}


@lru_cache(maxsize=1)  # all tiers of a run are asked for one after the other
def _bytes_of(scenario: Scenario, algorithm: str) -> dict[str, int]:
    return tier_model_frame_bytes(scenario.network(), scenario, algorithm)


def imbalance(run: Run) -> Figure:
    """Return the bytes of the fullest link between switches over the mean of all that lead the same
    way; the larger of both ways. It is None where there is none, or where none carried
    anything."""
    by_tier = (
        load_spread([link for link in run.links if link.tier == tier]) for tier in FABRIC_TIERS
    )
    return max((largest / mean for largest, mean in by_tier if largest), default=None)


def _counted(name: str, together: Callable[[list[int]], int] = sum) -> Callable[[Run], Figure]:
    """Return what reads a counter of all ranks together."""
    return lambda run: together([int(rank.statistics.get(name, 0)) for rank in run.ranks])


METRICS = (
    Metric(
        name="completion", about="completion time of the slowest rank", unit=TIME,
        run=lambda run: run.completion_ns, rank=lambda rank: rank.completion_ns,
        column="completion_ns", heading="time", label="completion", is_ranged=True,
        sections=("figures", "ranks"),
        kept=("ms", "us"), is_of_the_machine=True,
        axis="completion time ({unit})", title="Completion time",
        theory=lambda each, below, links: each.bound_ns, from_zero=True,
    ),
    Metric(
        name="barrier", about="the slowest rank's barriers", unit=TIME,
        run=_phase_ns("barrier"), kept=("us",), is_of_the_machine=True,
    ),
    Metric(
        name="data", about="the slowest rank's time for data", unit=TIME,
        run=_phase_ns("data"), kept=("us",), is_of_the_machine=True,
    ),
    Metric(
        name="handshake", about="the slowest rank's last handshake", unit=TIME,
        run=_phase_ns("handshake"), kept=("us",), is_of_the_machine=True,
    ),
    Metric(
        name="bound", about="the least completion time by theory", unit=TIME,
        run=lambda run: run.bound_ns, runs=lambda each: each.bound_ns,
        column="bound_ns", heading="bound", label="bound", kept=("ms",),
    ),
    Metric(
        name="predicted", unit=TIME,
        about="completion time as simulated, of emulated runs under the same seed",
        run=lambda run: run.predicted_ns, column="predicted_ns", kept=("ms",),
    ),
    Metric(
        name="over-bound", about="completion time over the bound", unit=RATIO,
        run=_over_bound, runs=_over_bound, kept=("",), is_of_the_machine=True,
        axis="completion time / bound", title="Completion time against the bound",
        theory=lambda each, below, links: 1.0,
    ),
    Metric(
        name="excess", about="by which part of the bound the completion time exceeds it",
        unit=EXCESS, run=_excess, runs=_excess, label="over it",
    ),
    Metric(
        name="goodput", unit=RATE,
        about="bits of other ranks' data that a rank receives, over the completion time",
        run=lambda run: run.goodput_bps, column="goodput_bps",
        heading="goodput\n{unit}", tables=("run",), label="goodput",
        axis="goodput ({unit})", title="Goodput",
        value=lambda each, below, links: each.goodput_bps or None,
        theory=lambda each, below, links: over(
            (each.shown.goodput_bps or 0) * (each.shown.completion_ns or 0), each.bound_ns
        ),
        from_zero=True,
    ),
    Metric(
        name="speed-up", about="how many times as fast as another algorithm", unit=RATIO,
        axis="speed-up over {denominator}", title="Speed-up over {denominator}",
        value=_speed_up,
        theory=lambda each, below, links: over(
            below.bound_ns if below else None, each.bound_ns
        ),
    ),
    Metric(
        name="error-rms", unit=ERROR,
        about="root mean square of a sum's errors over that of the exact sum",
        run=_of_sums("error_rms_relative"), runs=_of_sums("error_rms_relative"),
        when=lambda each: each.accuracy, heading="rms\nerror", tables=("points",),
        label="error, rms", kept=("",),
    ),
    Metric(
        name="error-of-terms", unit=ERROR,
        about="greatest error of an element over the magnitudes added to it",
        run=_of_sums("error_max_of_terms"), runs=_of_sums("error_max_of_terms"),
        when=lambda each: each.accuracy, heading="max\nerror", tables=("points",),
        label="max of terms", kept=("",),
    ),
    Metric(
        name="error-relative", unit=ERROR,
        about="greatest error of an element over the exact one",
        run=_of_sums("error_max_relative"), runs=_of_sums("error_max_relative"),
        when=lambda each: each.accuracy, label="max relative",
    ),
    Metric(
        name="error-of-bound", unit=OF_BOUND,
        about="greatest error of an element over what theory allows",
        run=_of_sums("error_max_of_bound"), runs=_of_sums("error_max_of_bound"),
        when=lambda each: each.accuracy, label="of its bound", kept=("",),
    ),
    *(
        Metric(
            name=tier.replace("_", "-"), about=f"bytes on all {name} links", unit=BYTES,
            run=_on(tier), column=f"{tier}_bytes", tables=("run", "runs"),
            heading=f"{name.replace(' ', chr(10))}\n{{unit}}", label=f"{name}, {{unit}}",
        )
        for tier, name in TIERS.items()
    ),
    Metric(
        name="bytes", about="bytes on the links that are asked for", unit=BYTES,
        axis="bytes on {links} ({unit})", title="Bytes on {links}",
        of_links=True, from_zero=True,
        value=lambda each, below, links: _carried(each, links),
        theory=lambda each, below, links: _modelled(each, links),
    ),
    Metric(
        name="bytes-ratio", about="the bytes of an algorithm over another's", unit=RATIO,
        axis="bytes on {links}, {numerator} / {denominator}",
        title="Bytes of {numerator} against {denominator} on {links}",
        of_links=True,
        value=lambda each, below, links: over(_carried(each, links), _carried(below, links)),
        theory=lambda each, below, links: over(
            _modelled(each, links), _modelled(below, links)
        ),
    ),
    Metric(
        name="over-model", about="bytes over the model's", unit=RATIO,
        axis="bytes on {links}, measured / model", title="Bytes on {links} against the model",
        of_links=True,
        value=lambda each, below, links: over(_carried(each, links), _modelled(each, links)),
        theory=lambda each, below, links: 1.0,
    ),
    Metric(
        name="links", about="bytes on all links", unit=BYTES, run=_on(*TIERS), kept=("mib",),
        axis="bytes on all links ({unit})", from_zero=True,
    ),
    Metric(
        name="host", about="bytes on all hosts' links", unit=BYTES,
        run=_on("host_up", "host_down"), heading="host\nbytes", tables=("points",), kept=("mib",),
    ),
    Metric(
        name="ranks", about="bytes on the links of ranks' hosts", unit=BYTES,
        run=_on_ranks, kept=("mib",),
    ),
    Metric(
        name="fabric", about="bytes on all links between switches", unit=BYTES,
        run=_on("fabric_up", "fabric_down"), heading="fabric\nbytes", tables=("points",),
        kept=("mib",),
        axis="bytes on all links between switches ({unit})", from_zero=True,
    ),
    Metric(
        name="imbalance", unit=RATIO,
        about="bytes of the fullest link between switches over the mean",
        run=imbalance, label="busiest / mean",
        hint="of the bytes that links between switches carried", sections=("paths",), kept=("",),
        axis="fullest link between switches / mean",
        title="Load of the fullest link between switches",
    ),
    Metric(
        name="flows", about="queue pairs by which data left", unit=COUNT,
        run=_counted("flow_count"), label="flows", hint="queue pairs that data left by",
        sections=("paths",),
    ),
    Metric(
        name="marks", about="data packets that arrived with a congestion mark", unit=COUNT,
        run=_counted("marks_received"), label="marks",
        hint="data packets that came with a congestion mark", sections=("paths",),
        axis="packets with a congestion mark", title="Congestion marks",
    ),
    Metric(
        name="reordered", about="packets that arrived before an earlier one", unit=COUNT,
        run=_counted("reordered_packets"), label="reordered",
        hint="that came before an earlier one of their queue pair and were kept",
        sections=("paths",), kept=("",),
        axis="packets that overtook others", title="Reordering",
    ),
    Metric(
        name="reorder-distance", unit=COUNT,
        about="by how many packets a packet was at most ahead of the one that was due",
        run=_counted("reorder_distance_peak", lambda peaks: max(peaks, default=0)),
        label="farthest", hint="the most packets that one of them was ahead", sections=("paths",),
    ),
    Metric(
        name="dropped-ahead", unit=COUNT,
        about="packets that arrived ahead of their turn and were thrown away, as go-back-N does",
        run=_counted("out_of_order_packets"), label="thrown away",
        hint="that came before their turn and were not kept (go-back-N)", sections=("paths",),
    ),
    Metric(
        name="retransmitted", about="packets sent again", unit=COUNT,
        run=lambda run: run.retransmitted_packets, rank=lambda rank: rank.retransmitted_packets,
        column="retransmitted_packets", heading="re-\nsent", label="resent",
        sections=("figures", "paths", "ranks"), kept=("",),
        axis="packets sent again", title="Packets sent again",
    ),
    Metric(
        name="path-changes", about="how often a sender gave a queue pair another path", unit=COUNT,
        run=_counted("path_changes"), label="changes of path",
        hint="that a sender made after marks or a timeout", sections=("paths",),
    ),
    Metric(
        name="lost", about="packets lost anywhere in the network", unit=COUNT,
        run=lambda run: run.dropped, column="dropped_packets", heading="lost", label="lost",
    ),
    Metric(
        name="queue-dropped", about="packets that full queues had no room for", unit=COUNT,
        run=lambda run: sum(link.queue_dropped or 0 for link in run.links), kept=("",),
    ),
    *(
        Metric(
            name=f"{tier.replace('_', '-')}-over-model", unit=RATIO, run=_over_model(tier),
            about=f"bytes on all {name} links over the model's, with headers", kept=("",),
        )
        for tier, name in TIERS.items()
    ),
    Metric(
        name="cpu-busy", about="part of the machine's processors in use", unit=PERCENT,
        run=lambda run: run.fidelity.cpu_busy, column="cpu_busy",
    ),
)  # fmt: skip
