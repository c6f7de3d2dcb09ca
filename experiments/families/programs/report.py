"""The report of a program on the hosts: one HTML page, with pictures of its steps and its ranks."""

from collections.abc import Sequence
from pathlib import Path

from weft.base.units import format_duration
from weft.experiments.families.programs.results import TorchRun
from weft.experiments.plots.canvas import axes_over_time, empty_figure, saved
from weft.experiments.report.base import network_drawing, page
from weft.experiments.results.results import scenario_of
from weft.experiments.results.summary import byte_unit
from weft.pytorch.timeline import RankTimeline

HERE = Path(__file__).resolve().parent
COLOURS = {"computation": "#8da0cb", "wait": "#d55e00", "operation": "#0072b2"}
SHOWN_STEPS = 2
"""How many steps the picture of the ranks shows, the last ones."""
ROW_IN = 0.42


def render(run: TorchRun, records: Sequence[RankTimeline]) -> str:
    """Return the page as text."""
    from markupsafe import Markup

    pictures = []
    if any(rank.step_ns for rank in run.ranks):
        said = "How long each step of the optimizer took on the slowest rank, and rank 0's loss."
        pictures.append(("Steps", Markup(_svg(steps_picture(run))), said))
    if any(record.operations for record in records):
        said = (
            "The last steps: what the program of each rank did, and below it the operations that "
            "were under way. The file timeline.trace.json has all of it, for Perfetto."
        )
        pictures.append(("Ranks", Markup(_svg(ranks_picture(records))), said))
    carried = {(link.from_node, link.to_node): link.tx_bytes for link in run.links}
    drawing, width = network_drawing(
        scenario_of(run.scenario).network(),
        carried,
        byte_unit(max(carried.values(), default=0)),
        "Frames on each link",
    )
    return page(
        "training.html",
        HERE / "templates",
        run=run,
        drawing=drawing,
        width=width,
        verdicts=[(run.script, run.fidelity)],
        pictures=pictures,
        collectives=list(run.collectives().values()),
        duration=format_duration,
    )


def _svg(picture: bytes) -> str:
    """Return a drawing as it can stand in a page."""
    text = picture.decode()
    return text[text.index("<svg") :]


def steps_picture(run: TorchRun) -> bytes:
    """Return a drawing of step times, and of losses if there are some."""
    losses = [(step, loss) for step, loss in enumerate(run.losses, 1) if loss is not None]
    with empty_figure(2.4 if not losses else 4.2) as figure:
        cells = figure.subplots(1 + bool(losses), 1, squeeze=False, sharex=True)[:, 0]
        times = [step / 1e6 for step in run.step_ns]
        cells[0].bar(range(1, len(times) + 1), times, color=COLOURS["operation"])
        cells[0].set_ylabel("step, ms")
        if losses:
            cells[1].plot(*zip(*losses, strict=True), color=COLOURS["wait"], marker=".")
            cells[1].set_ylabel("loss")
        cells[-1].set_xlabel("step")
        return saved(figure, "svg")


def ranks_picture(records: Sequence[RankTimeline]) -> bytes:
    """Return a drawing of the last steps of all ranks over time."""
    begins = [
        record.steps[-SHOWN_STEPS - 1].ended_ns
        for record in records
        if len(record.steps) > SHOWN_STEPS
    ]
    begin = min(begins) if begins else min(record.begun_ns for record in records)
    end = max(record.steps[-1].ended_ns if record.steps else record.ended_ns for record in records)
    with empty_figure(2.0) as figure:
        (axes,), unit_ns = axes_over_time(
            figure, [end - begin], [1.0], ROW_IN * 2 * len(records) + 0.4
        )
        for place, record in enumerate(records):
            row = 2 * place
            axes.barh(row, (end - begin) / unit_ns, 0.8, color=COLOURS["computation"], alpha=0.4)
            waits = [each for each in record.waits_ns if each[1] > begin]
            operations = [
                (each.begun_ns, each.ended_ns)
                for each in record.operations
                if each.ended_ns > begin
            ]
            for spans, at, kind in ((waits, row, "wait"), (operations, row + 1, "operation")):
                axes.broken_barh(
                    [((max(one, begin) - begin) / unit_ns, (min(other, end) - max(one, begin))
                      / unit_ns) for one, other in spans],
                    (at - 0.4, 0.8), color=COLOURS[kind], alpha=0.7,
                )  # fmt: skip
        axes.set_yticks(
            range(2 * len(records)),
            [text for record in records for text in (f"rank {record.rank}: waits", "operations")],
        )
        axes.invert_yaxis()
        axes.set_xlim(0, (end - begin) / unit_ns)
        return saved(figure, "svg")
