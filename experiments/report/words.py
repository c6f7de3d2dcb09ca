"""What the report says in sentences: how algorithms compare, and what failed."""

from collections.abc import Sequence

from weft.agents.collectives.registry import named
from weft.experiments.results.comparison import Comparison, compare, why_not_measured
from weft.experiments.results.results import Results
from weft.experiments.results.summary import Summary, which_run


def headline(points: Sequence[Sequence[Summary]]) -> str | None:
    """Return in words how multicast compares with each other algorithm; without multicast, how the
    first algorithm does.

    Args:
        points: the summaries of each point. For one point, times and bytes are compared; for
            several, the text says how much faster it was at the least and at the most.

    Times are compared if they can be believed; otherwise predictions are.
    """
    timed = [{each.algorithm: each for each in point if each.completion_ns} for point in points]
    names = list(dict.fromkeys(name for point in timed for name in point))
    if len(names) < 2:
        return None
    one = next((name for name in names if (kind := named(name)) and kind.multicasts), names[0])
    sentences = []
    for other in names:
        pairs = [(point[one], point[other]) for point in timed if {one, other} <= point.keys()]
        if other == one or not pairs:
            continue
        compared = [found for pair in pairs if (found := compare(*pair)) is not None]
        parts = _compared(one, other, compared, len(points))
        if len(points) == 1:
            parts.append(f"{one} {_fewer(pairs[0][0].tiers, pairs[0][1].tiers)}")
        if means := pairs[0][0].several or pairs[0][1].several:
            parts.append(f"figures are means of {means}")
        sentence = "; ".join(parts)
        sentences.append(f"{sentence[0].upper()}{sentence[1:]}.")
    return " ".join(sentences) or None


def _compared(one: str, other: str, compared: Sequence[Comparison], points: int) -> list[str]:
    """Return what measured times say, and what is predicted where they say nothing."""
    parts = []
    ratios = [each.ratio for each in compared if each.measured and each.ratio is not None]
    if ratios:
        parts.append(_faster(one, other, ratios))
    doubtful = [each for each in compared if not each.measured]
    if not doubtful:
        return parts
    predicted = [each.ratio for each in doubtful if each.ratio is not None]
    if predicted:
        foreseen = _faster(one, other, predicted, ("will take", "will be"))
        parts.append(f"the simulated world predicts that {foreseen}")
    where = f" at {len(doubtful)} of {points} points" if points > 1 else ""
    parts.append(f"measured times are not compared{where}, since {why_not_measured(doubtful)}")
    return parts


def _faster(
    one: str, other: str, ratios: Sequence[float], verbs: tuple[str, str] = ("took", "was")
) -> str:
    low, high = min(ratios), max(ratios)
    took, was = verbs
    if low >= 0.95 and high <= 1.05:
        return f"{one} and {other} {took} the same time within 5 %"
    if f"{low:.2g}" != f"{high:.2g}":
        return f"{one} {was} {low:.2g} to {high:.2g} times as fast as {other}"
    if low > 1:
        return f"{one} {was} {low:.2g} times as fast as {other}"
    return f"{other} {was} {1 / low:.2g} times as fast as {one}"


def _fewer(tiers: dict[str, float], other: dict[str, float]) -> str:
    host = _share(tiers, other, "host_up", "host_down")
    if not other["fabric_up"] + other["fabric_down"]:
        return f"put {host} bytes on the links"
    fabric = _share(tiers, other, "fabric_up", "fabric_down")
    return f"put {host} bytes on the host links and {fabric} on the fabric's"


def _share(tiers: dict[str, float], other: dict[str, float], *names: str) -> str:
    mine, theirs = (sum(each[name] for name in names) for each in (tiers, other))
    percent = round(100 * (mine / theirs - 1)) if theirs else 0
    if percent == 0:
        return "as many"
    return f"{abs(percent)} % {'fewer' if percent < 0 else 'more'}"


def failures(results: Results) -> list[tuple[str, str, str]]:
    """Return the runs that failed or whose data did not verify: the run, the host of the rank if it
    is one rank's failure, and the reason."""
    return [
        (
            which_run(results, run),
            rank.host if rank else "",
            (rank.error if rank else run.error) or "the data is not what it should be",
        )
        for run in results.runs
        if not run.verified
        for rank in [None, *(rank for rank in run.ranks if rank.error or not rank.verified)]
        if rank or run.error
    ]
