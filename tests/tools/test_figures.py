"""Figures of the documentation: kept, put into pages, and held to what is run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.support.results_samples import sample_results

from weft.base import files
from weft.base.errors import InputError, RunError
from weft.base.progress import Progress
from weft.experiments.scenario.sweep import read_file
from weft.tools.figures import command, measure
from weft.tools.figures.kept import AlgorithmRow, Kept, metrics_of, rows_of
from weft.tools.figures.plots import PlotNote, lines_of, with_plots
from weft.tools.figures.tables import END, TableSpec, number, rendered, table

NOTE = "paths: completion-ms; rows placement; columns paths; placement in-order / random"


def row(
    algorithm: str, paths: str, placement: str, times: Sequence[float | None], cost_s: float = 1.0
) -> AlgorithmRow:
    return AlgorithmRow(
        algorithm,
        {"paths": paths, "placement": placement, "ranks": "16", "world": "simulated"},
        list(range(1, len(times) + 1)),
        {"completion-ms": list(times), "retransmitted": [0.0] * len(times)},
        ["ok" if time is not None else "failed" for time in times],
        cost_s,
        "commit abc123, 2026-11-22",
    )


KEPT = Kept(
    "paths",
    2,
    [
        row("ring", "ecmp", "in-order", [643.2, 643.2, 643.2]),
        row("ring", "ecmp", "random", [1900.0, 1921.0, 1800.0]),
        row("ring", "spray", "in-order", [651.0, 650.0, 655.0]),
        row("ring", "spray", "random", [731.0, None, 732.0]),
    ],
)


def test_a_table_has_means_with_their_range_and_says_what_they_are_of() -> None:
    assert table(TableSpec.parse(NOTE), KEPT) == (
        "| placement | ecmp | spray |\n"
        "|---|---|---|\n"
        "| in-order | 643 | 652 (650 to 655) |\n"
        "| random | 1,874 (1,800 to 1,921) | 732 (731 to 732), 1 of 3 failed |\n"
        "\n"
        "*`paths.toml`, seeds 1 to 3: mean (least to greatest); commit abc123, 2026-11-22.*\n"
    )


def test_figures_that_are_the_same_under_every_seed_are_called_exact() -> None:
    spec = TableSpec.parse(
        "paths: completion-ms; rows algorithm; columns paths; paths ecmp; placement in-order"
    )
    made = table(spec, KEPT)
    assert "| ring | 643 |" in made
    assert "seeds 1 to 3, exact: all come to the same" in made


def test_figures_are_put_over_those_of_another_algorithm_seed_by_seed() -> None:
    rows = [
        row("multicast", "ecmp", "in-order", [100.0, 100.0, 100.0]),
        row("ring", "ecmp", "in-order", [200.0, 150.0, 400.0]),
        row("linear", "ecmp", "in-order", [500.0, 500.0]),
    ]
    kept = Kept("paths", 2, rows)
    note = "paths: completion-ms; rows algorithm; columns paths; {} multicast"
    over = table(TableSpec.parse(note.format("over")), kept)
    assert "| ring | 2.50 (1.50 to 4.00) |\n| linear | 5.00 |" in over
    under = table(TableSpec.parse(note.format("under")), kept)
    assert "| ring | 0.47 (0.25 to 0.67) |\n| linear | 0.20 |" in under
    assert "multicast |" not in over
    # That of linear is the same under both seeds, so it is over all three of multicast's.
    assert "seeds 1 to 3: mean (least to greatest); commit" in over
    with pytest.raises(InputError, match="no 'tree' at"):
        table(TableSpec.parse(note.format("over").replace("multicast", "tree")), kept)


def test_metrics_may_have_a_row_each() -> None:
    note = "paths: completion-ms retransmitted; rows metric algorithm; columns placement; paths {}"
    made = table(TableSpec.parse(note.format("ecmp")), KEPT)
    assert made.startswith(
        "| metric | algorithm | in-order | random |\n"
        "|---|---|---|---|\n"
        "| completion ms | ring | 643 | 1,874 (1,800 to 1,921) |\n"
        "| retransmitted | ring | 0 | 0 |\n"
    )
    with pytest.raises(InputError, match="no data-us is kept: measure them anew"):
        table(TableSpec.parse(note.format("ecmp").replace("completion-ms", "data-us")), KEPT)


def test_values_of_an_option_that_has_columns_choose_them() -> None:
    note = "paths: completion-ms; rows placement; columns paths; paths ecmp / plb; placement random"
    kept = replace(KEPT, rows=[*KEPT.rows, row("ring", "plb", "random", [1.0, 2.0])])
    made = table(TableSpec.parse(note), kept)
    assert made.startswith(
        "| placement | ecmp | plb |\n|---|---|---|\n"
        "| random | 1,874 (1,800 to 1,921) | 1.50 (1.00 to 2.00) |\n"
    )


def test_what_is_beneath_a_table_says_why_some_figures_are_of_fewer_runs() -> None:
    long = row("ring", "ecmp", "in-order", [1.0, 2.0, 3.0])
    short = row("ring", "spray", "in-order", [1.0, 2.0, 1.0, 2.0])
    same = row("ring", "plb", "in-order", [1.0, 1.0, 1.0])
    runs = row("ring", "reps", "in-order", [1.0, 2.0])
    real = replace(runs, options={**runs.options, "world": "emulated"}, verdicts=["ok", "strained"])
    kept = Kept("paths", 4, [long, short, same, real])

    def beneath(*names: str) -> str:
        note = f"{NOTE.partition('; placement')[0]}; paths {' / '.join(names)}"
        return table(TableSpec.parse(note), kept).splitlines()[-1].rpartition("; commit")[0]

    mean = ": mean (least to greatest)"
    some = "one figure where all come to the same"
    assert beneath("spray") == f"*`paths.toml`, seeds 1 to 4{mean}"
    assert beneath("plb", "spray") == f"*`paths.toml`, seeds 1 to 4{mean}, {some}"
    assert beneath("ecmp", "spray") == (
        f"*`paths.toml`, seeds 1 to 4{mean}, 3 of them where a run takes over 60 s"
    )
    strained = "4 processors; 1 run strained, of 2"
    assert beneath("reps") == f"*`paths.toml`, 2 runs{mean}; {strained}"
    assert beneath("spray", "reps") == (
        f"*`paths.toml`, seeds 1 to 4{mean}; emulated 2 runs each; {strained}"
    )
    assert beneath("plb", "reps") == (
        f"*`paths.toml`, seeds 1 to 3, exact: all come to the same; emulated 2 runs each{mean}; "
        f"{strained}"
    )


def beneath_of(note: str, *rows: AlgorithmRow) -> str:
    """What stands beneath a table up to the commit."""
    made = table(TableSpec.parse(note), Kept("paths", 4, list(rows)))
    return made.splitlines()[-1].rpartition("; commit")[0]


def test_what_is_beneath_a_table_is_of_the_figures_that_it_shows() -> None:
    note = "paths: {}; rows algorithm; columns paths"
    both = row("ring", "ecmp", "random", [1.0, 2.0])
    assert beneath_of(note.format("retransmitted"), both) == (
        "*`paths.toml`, seeds 1 to 2, exact: all come to the same"
    )
    assert beneath_of(note.format("completion-ms"), both).endswith(": mean (least to greatest)")
    close = row("ring", "ecmp", "random", [600.01, 600.02])
    assert beneath_of(note.format("completion-ms"), close) == (
        "*`paths.toml`, seeds 1 to 2: all come to the same in the digits shown"
    )


def test_runs_that_all_failed_are_not_called_exact() -> None:
    note = "paths: completion-ms; rows algorithm; columns paths"
    exact = row("ring", "ecmp", "random", [1.0, 1.0, 1.0])
    failed = row("ring", "spray", "random", [None, None, None])
    assert "exact" not in beneath_of(note, exact, failed)
    assert "exact" not in beneath_of(note, failed)
    varied = row("ring", "plb", "random", [1.0, 2.0, 3.0, 4.0])
    assert beneath_of(note, varied, failed).endswith("seeds 1 to 4: mean (least to greatest)")


def emulated(
    algorithm: str, times: Sequence[float | None], verdicts: Sequence[str]
) -> AlgorithmRow:
    simulated = row(algorithm, "ecmp", "in-order", times)
    options = {**simulated.options, "world": "emulated"}
    return replace(simulated, options=options, verdicts=list(verdicts), seeds=[1] * len(times))


def test_times_are_divided_only_where_both_runs_are_ok() -> None:
    rows = [
        emulated("ring", [100.0, 120.0, 300.0], ["ok", "ok", "strained"]),
        emulated("optcast", [50.0, 10.0, 20.0], ["ok", "invalid", "ok"]),
        emulated("switch", [50.0, 40.0, 30.0], ["strained", "invalid", "ok"]),
        emulated("linear", [100.0, None, 100.0], ["ok", "failed", "ok"]),
    ]
    kept = Kept("paths", 2, rows)
    made = table(
        TableSpec.parse("paths: completion-ms; rows algorithm; columns paths; under ring"), kept
    )
    assert "| optcast | 2.00, 1 of 3 ok |" in made
    assert "| switch | not ok |" in made
    assert "| linear | 1.00, 1 of 3 ok, 1 of 3 failed |" in made
    assert "; 6 of 9 pairs of runs not ok, and left out; commit" in made
    plot = "paths: completion-ms; x paths; lines algorithm; under ring; file s.svg; title Speed-up"
    shown = lines_of(PlotNote.parse(plot), kept)
    assert [(line.algorithm, line.y) for line in shown.lines] == [
        ("optcast", (2.0,)),
        ("linear", (1.0,)),
    ]


def test_a_cell_of_emulated_runs_says_how_many_are_ok() -> None:
    rows = [
        emulated("ring", [100.0, 100.0], ["ok", "ok"]),
        emulated("optcast", [50.0, 100.0], ["strained", "invalid"]),
    ]
    kept = Kept("paths", 2, rows)
    note = "paths: completion-ms; rows algorithm; columns paths"
    made = table(TableSpec.parse(note), kept)
    assert "| ring | 100 |" in made
    assert "| optcast | 75.0 (50.0 to 100), 0 of 2 ok |" in made
    assert "1 run invalid and 1 strained, of 4; commit" in made
    sent = table(TableSpec.parse(note.replace("completion-ms", "retransmitted")), kept)
    assert "| optcast | 0 |" in sent


def test_an_option_that_was_left_alone_is_by_default() -> None:
    def with_options(**more: str) -> AlgorithmRow:
        base = row("ring", "ecmp", "in-order", [1.0])
        return replace(base, options={**base.options, **more})

    rows = [with_options(block="none", fault="none"), with_options(block="1 MiB", fault="none")]
    note = "paths: completion-ms; rows block fault; columns paths; block none / 1 MiB"
    made = table(TableSpec.parse(note), Kept("paths", 2, rows))
    assert "| by default | none | 1.00 |\n| 1 MiB | none | 1.00 |\n" in made
    heads = "paths: completion-ms; rows fault; columns block"
    made = table(TableSpec.parse(heads), Kept("paths", 2, rows))
    assert made.startswith("| fault | by default | 1 MiB |\n")


def test_metrics_are_of_the_slowest_rank_of_tiers_and_of_ranks_alone() -> None:
    (run,) = sample_results(algorithms=("multicast",)).runs
    figures = metrics_of(run)
    slowest = max(run.ranks, key=lambda rank: rank.completion_ns or 0)
    for phase in ("barrier", "data", "handshake"):
        assert figures[f"{phase}-us"] == slowest.phases_ns[phase] / 1e3
    # 8 MiB on every host's way down, 1 MiB up; the sample's headers and control are as they are.
    assert figures["host-down-over-model"] == pytest.approx(1.0, abs=0.05)
    assert figures["ranks-mib"] == figures["host-mib"]
    assert figures["error-rms"] is None
    assert figures["peak-activations"] is None, "this is no training step"
    served = sample_results(collective="allreduce", algorithms=("optcast",), servers=2).runs[0]
    figures = metrics_of(served)
    its = {f"{each.host}" for each in served.ranks}
    others = [link for link in served.links if not its & {link.from_node, link.to_node}]
    on_hosts = sum(link.tx_bytes for link in others if link.tier.startswith("host")) / 2**20
    assert on_hosts > 0
    assert figures["ranks-mib"] == pytest.approx((figures["host-mib"] or 0) - on_hosts)


def test_a_page_keeps_its_text_and_gets_its_tables() -> None:
    page = f"# Title\n\n<!-- figures {NOTE} -->\nan old table\n{END}\n\nText.\n"
    made = rendered(page, {"paths": KEPT}.__getitem__)
    assert made.startswith(f"# Title\n\n<!-- figures {NOTE} -->\n| placement |")
    assert made.endswith(f"*\n{END}\n\nText.\n")
    assert "an old table" not in made
    assert rendered(made, {"paths": KEPT}.__getitem__) == made


@pytest.mark.parametrize(
    ("note", "message"),
    [
        ("paths completion-ms", "write NAME: METRIC; rows OPTION; columns OPTION"),
        ("paths: completion-ms; rows a; rows b", "'rows b' is no option with a value, told once"),
        ("paths: completion-ms; rows a; paths b", "does not say what rows and columns are"),
        ("paths: speed; rows a; columns b", "metric 'speed' is none of completion-ms, "),
        (
            "paths: completion-ms; rows placment; columns paths",
            "'placment' is no option that figures differ in: did you mean 'placement'?",
        ),
        (
            "paths: completion-ms; rows paths; columns zzzz",
            "in: there are ack-priority, algorithm, ",
        ),
        (
            "paths: completion-ms; rows paths; columns ranks; wrld simulated",
            "'wrld' is no option that figures differ in: did you mean 'world'?",
        ),
    ],
)
def test_a_note_that_makes_no_sense_is_shown(note: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        TableSpec.parse(note)


def test_figures_that_are_not_told_apart_are_an_error() -> None:
    spec = TableSpec.parse("paths: completion-ms; rows algorithm; columns paths")
    with pytest.raises(InputError, match=r"several rows have .*share an option more"):
        table(spec, KEPT)
    spec = TableSpec.parse("paths: completion-ms; rows algorithm; columns paths; placement strided")
    with pytest.raises(InputError, match="none has"):
        table(spec, KEPT)
    spec = TableSpec.parse("paths: completion-ms; rows algorithm; columns rate; paths ecmp")
    with pytest.raises(InputError, match=r"not told apart by 'rate': they are by algorithm, paths"):
        table(spec, KEPT)


PLOT = "paths: completion-ms; x paths; lines algorithm; file a/b.svg; title Time; placement {}"


def test_a_plot_has_the_means_of_a_line_with_their_range() -> None:
    shown = lines_of(PlotNote.parse(PLOT.format("random")), KEPT)
    assert (shown.axis.ticks, shown.y_label) == (("ecmp", "spray"), "completion time (ms)")
    (line,) = shown.lines
    assert (line.algorithm, line.x) == ("ring", (0.0, 1.0))
    assert line.y == pytest.approx((1873.667, 731.5), abs=1e-3)
    assert (line.low, line.high) == ((1800.0, 731.0), (1921.0, 732.0))
    assert line.doubtful == (False, True)  # a run failed


def test_a_plot_has_numbers_as_they_are_and_a_line_for_each_value_of_the_rest() -> None:
    rows = [
        AlgorithmRow("ring", {"size": size, "world": world}, [1],
            {"completion-ms": [time], "over-bound": [2.0]}, ["ok"])
        for size, time in (("1 MiB", 40.0), ("64 KiB", 4.0)) for world in ("simulated", "emulated")
    ]  # fmt: skip
    text = "sizes: completion-ms; x size; lines algorithm world; bound yes; file s.svg; title Size"
    shown = lines_of(PlotNote.parse(text), Kept("sizes", 2, rows))
    assert (shown.axis.positions, shown.axis.ticks) == ((65536, 1048576), ("64 KiB", "1 MiB"))
    assert [(line.world, line.y) for line in shown.lines] == [
        ("simulated", (4.0, 40.0)), ("emulated", (4.0, 40.0)),
    ]  # fmt: skip
    assert shown.lines[0].model == (2.0, 20.0)
    with pytest.raises(InputError, match="several are at size 1 MiB of a line: share an option"):
        lines_of(PlotNote.parse(text.replace(" world", "")), Kept("sizes", 2, rows))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title Time", "log x", "does not say what x and lines and file and title are"),
        ("lines algorithm", "lines placement", "first comes algorithm, paths or operator"),
        ("a/b.svg", "../b.svg", r"file '../b.svg' is no name like folder/name-of-it.svg"),
        ("title", "log z; title", "log 'z' is none of x, y, xy"),
        ("completion-ms", "links-mib; bound yes", "times alone have one"),
        ("completion-ms", "bound-ms", "'bound-ms' is for tables; plots have completion-ms, "),
        ("x paths", "x path", "'path' is no option .*did you mean 'paths'"),
        ("lines algorithm", "lines algorithm wrld", "'wrld' is no option .*did you mean 'world'"),
        ("placement {}", "placment {}", "'placment' is no option"),
        ("title", "over ring; under tree; title", "one of over, under and bound alone"),
    ],
)
def test_a_note_of_a_plot_that_makes_no_sense_is_shown(old: str, new: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        PlotNote.parse(PLOT.replace(old, new))


def test_a_page_gets_a_line_for_each_plot_and_says_what_it_is_of() -> None:
    note = PLOT.format("in-order")
    made = with_plots(f"Text.\n<!-- plot {note} -->\n{END}\n", {"paths": KEPT}.__getitem__)
    assert "![Time](a/b.svg)\n\n*`paths.toml`, seeds 1 to 3: mean" in made
    assert with_plots(made, {"paths": KEPT}.__getitem__) == made
    with pytest.raises(InputError, match=r"none of .*strided.* is to be drawn"):
        with_plots(made.replace("placement in-order", "placement strided"), lambda _: KEPT)


def test_kept_figures_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert Kept.read(KEPT.write(tmp_path)) == KEPT
    (tmp_path / "other.json").write_text(json.dumps({"schema": "other"}))
    with pytest.raises(InputError, match="holds no figures of version 1: measure anew"):
        Kept.read(tmp_path / "other.json")
    (tmp_path / "cut.json").write_text((tmp_path / "paths.json").read_text()[:200])
    with pytest.raises(InputError, match="cannot be read"):
        Kept.read(tmp_path / "cut.json")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.12345, "0.12"), (1.018, "1.02"), (93.51, "93.5"), (643.2, "643"),
     (1234.5, "1,234"), (0.0, "0"),
     (0.0219, "2.19e-2"), (5.634e-8, "5.63e-8"), (-0.0219, "-2.19e-2")],
)  # fmt: skip
def test_numbers_have_three_digits_and_more_where_they_are_whole(value: float, text: str) -> None:
    assert number(value) == text


def test_runs_that_differ_in_seed_and_repetition_alone_are_one_row() -> None:
    runs = [
        (run, 0.5)
        for seed in (1, 2)
        for run in sample_results(seed=seed, repeat=2, algorithms=("ring",)).runs
    ]
    (only,) = rows_of(runs, ["seed"])
    assert (only.algorithm, len(only.seeds), only.cost_s) == ("ring", 4, 2.0)
    assert only.options == {"ranks": "8", "world": "emulated"}
    assert only.values["completion-ms"] == [(run.completion_ns or 0) / 1e6 for run, _ in runs]


def test_runs_that_failed_have_no_figures() -> None:
    (run,) = sample_results(algorithms=("ring",)).runs
    (only,) = rows_of([(run, 0.5), (replace(run, verified=False), 0.5)], [])
    assert only.verdicts[1] == "failed"
    assert all(values[1] is None for values in only.values.values())
    assert only.values["completion-ms"][0] == (run.completion_ns or 0) / 1e6


def test_a_file_of_flows_is_called_the_same_wherever_it_is() -> None:
    (run,) = sample_results(algorithms=("ring",)).runs
    scenario = {**run.scenario, "workload": "/home/me/weft/experiments/scenarios/flows.cm"}
    (only,) = rows_of([(replace(run, scenario=scenario), 0.5)], ["workload"])
    assert only.options["workload"] == "flows.cm"


def test_a_run_that_failed_when_figures_were_kept_may_fail_again_and_no_other() -> None:
    kept = Kept("paths", 2, [row("ring", "spray", "random", [None, 731.0, 732.0])])
    assert command.compared(kept, Kept("paths", 2, [row("ring", "spray", "random", [None])])) == []
    whole = Kept("paths", 2, [row("ring", "spray", "random", [731.0, 732.0])])
    (gone,) = command.compared(whole, Kept("paths", 2, [row("ring", "spray", "random", [None])]))
    assert gone.endswith(": the run under seed 1 fails; it did not")
    (well,) = command.compared(kept, Kept("paths", 2, [row("ring", "spray", "random", [731.5])]))
    assert well.endswith(": the run under seed 1 no longer fails")
    other = replace(row("ring", "spray", "random", [None]), seeds=[2])
    (gone,) = command.compared(kept, Kept("paths", 2, [other]))
    assert gone.endswith(": the run under seed 2 fails; it did not")
    unknown = replace(row("ring", "spray", "random", [None]), verdicts=["ok"])
    (gone,) = command.compared(whole, Kept("paths", 2, [unknown]))
    assert "completion-ms is gone; it was 731.5" in gone


def moved(**changes: float) -> Kept:
    """Fresh figures: those of the first seed, with some completion times changed."""
    rows = [
        row(each.algorithm, each.options["paths"], each.options["placement"], [
            changes.get(f"{each.options['paths']}_{each.options['placement'].replace('-', '_')}",
                        each.values["completion-ms"][0] or 0)
        ])
        for each in KEPT.rows
    ]  # fmt: skip
    return Kept("paths", 2, rows)


def test_fresh_figures_within_the_range_are_as_they_were() -> None:
    fresh = moved(ecmp_random=1850.0)
    kept = Kept("paths", 2, KEPT.rows[:3])
    fresh = Kept("paths", 2, fresh.rows[:3])
    assert command.compared(kept, fresh) == []


def test_figures_that_left_their_range_are_named_with_what_they_were() -> None:
    kept = Kept("paths", 2, KEPT.rows[:3])
    fresh = Kept("paths", 2, moved(ecmp_in_order=643.3, spray_in_order=640.0).rows[:3])
    assert command.compared(kept, fresh) == [
        "paths: ring, paths ecmp, placement in-order, ranks 16, world simulated: completion-ms is "
        "643.3; it was 643.2",
        "paths: ring, paths spray, placement in-order, ranks 16, world simulated: completion-ms is "
        "640; it was 652 (650 to 655)",
    ]
    assert command.compared(kept, Kept("paths", 2, fresh.rows[:2])) == [
        "paths: ring, paths ecmp, placement in-order, ranks 16, world simulated: completion-ms is "
        "643.3; it was 643.2",
        "paths: ring, paths spray, placement in-order, ranks 16, world simulated is no longer run",
    ]


def test_fewer_seeds_do_where_figures_are_the_same_but_not_where_runs_failed() -> None:
    same, other = (
        row("ring", "ecmp", "random", [1.0] * 3),
        row("ring", "ecmp", "random", [1.0, 2.0]),
    )
    failed = row("ring", "ecmp", "random", [None] * 3)
    assert measure.are_enough([same])
    assert not measure.are_enough([same, other])
    assert not measure.are_enough([same, failed])
    assert measure.are_enough([replace(failed, cost_s=3 * measure.LONG_S + 1)])


SMALL = """
collective = "allgather"
algorithm = ["multicast", "ring"]
topology = "single"
hosts-per-leaf = 2
world = "simulated"
size = "1KiB"
sweep.loss = [0, 0.1]
"""


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of pages and one of scenario files, both of the test's own."""
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "scenarios" / "small.toml").write_text(SMALL)
    monkeypatch.setattr(measure, "SCENARIOS", tmp_path / "scenarios")
    monkeypatch.setattr(command, "DOCS", tmp_path / "docs")
    note = "small: completion-ms; rows algorithm; columns loss"
    plot = "small: over-bound; x loss; lines algorithm; file page/loss.svg; title Loss & time"
    (tmp_path / "docs" / "page.md").write_text(
        f"<!-- figures {note} -->\n{END}\n\n<!-- plot {plot} -->\n{END}\n"
    )
    return tmp_path / "docs"


def test_figures_are_measured_kept_shown_and_found_again(docs: Path) -> None:
    with pytest.raises(InputError, match="'weft docs --measure small' measures them"):
        command.make_pages()
    (file,) = command.keep(["small"], Progress.silent())
    rows = Kept.read(file).rows
    lossless = [each for each in rows if each.options["loss"] == "0 %"]
    assert [each.seeds for each in lossless] == [[1, 2, 3]] * 2  # all the same: no more is needed
    assert all(each.seeds == list(range(1, 11)) for each in rows if each.options["loss"] != "0 %")
    assert [file.name for file in command.make_pages()] == ["page.md", "loss.svg"]
    assert command.make_pages() == []
    assert "| ring | " in (docs / "page.md").read_text()
    assert command.quick_names() == ["small"]
    command.check([], Progress.silent())


def test_a_page_or_a_figure_that_was_changed_by_hand_is_found(docs: Path) -> None:
    (file,) = command.keep(["small"], Progress.silent())
    command.make_pages()
    page = (docs / "page.md").read_text()
    (docs / "page.md").write_text(page.replace("| ring |", "| Ring |"))
    document = json.loads(file.read_text())
    for each in document["rows"]:
        each["values"]["host-mib"] = [1.0] * len(each["seeds"])
    file.write_text(json.dumps(document))
    with pytest.raises(RunError) as failure:
        command.check([], Progress.silent())
    assert "page.md is not what the kept figures make of it" in str(failure.value)
    assert str(failure.value).count("host-mib is") == 4


def test_a_plot_that_is_not_of_the_kept_figures_is_found(docs: Path) -> None:
    (file,) = command.keep(["small"], Progress.silent())
    command.make_pages()
    assert command.stale_pages() == []
    kept = file.read_text()
    document = json.loads(kept)
    document["rows"][2]["values"]["over-bound"][9] *= 2
    file.write_text(json.dumps(document))
    assert [page.name for page in command.stale_pages()] == ["loss.svg"]
    file.write_text(kept)
    (docs / "page" / "loss.svg").unlink()
    assert [page.name for page in command.stale_pages()] == ["loss.svg"]


def test_points_of_the_other_world_stay_while_the_scenario_file_has_them(docs: Path) -> None:
    both = SMALL.replace('"simulated"\n', '"simulated"\nsweep.world = ["simulated", "emulated"]\n')
    both = both.replace('\nworld = "simulated"', "")
    (measure.SCENARIOS / "small.toml").write_text(both)

    def at(world: str, loss: str, algorithm: str = "ring") -> AlgorithmRow:
        return AlgorithmRow(
            algorithm, {"world": world, "loss": loss, "ranks": "2"}, [1],
            {"completion-ms": [1.0]}, ["ok"],
        )  # fmt: skip

    fresh = at("simulated", "0 %")
    there, gone = at("emulated", "10 %"), at("emulated", "20 %")
    before = [there, gone, at("emulated", "10 %", "linear"), at("simulated", "20 %")]
    found = measure.Rows(read_file(measure.scenario_file("small")), before)
    found.add([fresh])
    assert found.sorted() == [fresh, there]


def test_emulated_figures_alone_are_not_checked(docs: Path) -> None:
    (docs / "figures").mkdir()
    kept = Kept("real", 2, [emulated("ring", [1.0], ["ok"])])
    kept.write(docs / "figures")
    with pytest.raises(InputError, match="docs --check real: its figures are emulated ones alone"):
        command.moved(["real"], Progress.silent())


def test_pages_that_cannot_be_read_or_written_are_named(
    docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command.keep(["small"], Progress.silent())

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(files, "write_whole", refuse)
        with pytest.raises(InputError, match=r"page\.md' cannot be made anew: Permission denied"):
            command.make_pages()
    command.make_pages()
    (docs / "page" / "loss.svg").write_bytes(b"\xff")
    assert [page.name for page in command.stale_pages()] == ["loss.svg"]
    (docs / "page.md").write_bytes(b"Text \xff")
    with pytest.raises(InputError, match=r"page\.md' is no UTF-8: byte 5 is 0xff"):
        command.make_pages()


def test_without_git_the_commit_is_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert measure.commit_of(tmp_path) == "unknown"


def test_tables_and_plots_of_the_pages_are_those_of_the_kept_figures() -> None:
    assert [page.name for page in command.stale_pages()] == []


@pytest.mark.slow
@pytest.mark.system(alone=False)
def test_figures_of_the_pages_that_are_quick_to_make_are_found_again() -> None:
    names = command.quick_names()
    assert names, "docs/figures has none that are quick"
    assert command.moved(names, Progress.silent()) == []
