"""Points of a sweep are kept as they arrive, and only what is missing or has failed runs again."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.full_disk import full_disk

from weft.base.errors import InputError, RunError
from weft.base.progress import Progress
from weft.experiments.results.results import Results
from weft.experiments.runner import RunOutcome, run_to_folder
from weft.experiments.runs import here, identity, points, simulation
from weft.experiments.runs.arrivals import Arrivals
from weft.experiments.scenario.sweep import Experiment, read_file

SWEEP = """
world = "simulated"
topology = "single"
hosts-per-leaf = 2
algorithm = "ring"
[sweep]
size = ["1KiB", "2KiB", "3KiB"]
"""

Count = Callable[[], int]


def sweep(folder: Path, text: str = SWEEP) -> Experiment:
    folder.mkdir(exist_ok=True)
    (folder / "sizes.toml").write_text(text)
    return read_file(folder / "sizes.toml")


def go(folder: Path, text: str = SWEEP, **options: Any) -> RunOutcome:
    out = folder / "out"
    return run_to_folder(sweep(folder, text), progress=Progress.silent(), out=out, **options)


def point_files(folder: Path) -> list[Path]:
    return sorted(each for each in (folder / "out/points").glob("*") if each.name != "sweep.json")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the points that were simulated."""
    sizes: list[int] = []

    def simulate(scenario: Any, *rest: Any) -> Any:
        sizes.append(scenario.size_bytes)
        return simulation.simulate(scenario, *rest)

    monkeypatch.setattr(here, "simulate", simulate)
    return sizes


def ending_at(monkeypatch: pytest.MonkeyPatch, size: int, error: BaseException) -> None:
    """Let the simulation of a size end in an error."""

    def simulate(scenario: Any, *rest: Any) -> Any:
        if scenario.size_bytes == size:
            raise error
        return simulation.simulate(scenario, *rest)

    monkeypatch.setattr(here, "simulate", simulate)


def test_a_sweep_that_is_interrupted_keeps_what_is_there_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = go(tmp_path / "whole").results
    with monkeypatch.context() as patch:
        ending_at(patch, 2048, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            go(tmp_path)
    kept = Results.read(tmp_path / "out")
    assert [run.digest for run in kept.runs] == [whole.runs[0].digest]
    assert len(point_files(tmp_path)) == 1
    with pytest.raises(InputError, match=r"has 1 of the 3 points .* \(--resume .*/out\)"):
        go(tmp_path)
    (tmp_path / "out/results.json").unlink()  # which a SIGKILL keeps from being written
    with pytest.raises(InputError, match=r"go on with 'weft run FILE --resume .*/out'"):
        Results.read(tmp_path / "out")
    started: list[int] = []

    def simulate(scenario: Any, *rest: Any) -> Any:
        started.append(scenario.size_bytes)
        return simulation.simulate(scenario, *rest)

    monkeypatch.setattr(here, "simulate", simulate)
    resumed = go(tmp_path, resume=True).results
    assert started == [2048, 3072]
    assert [run.to_dict() for run in resumed.runs] == [run.to_dict() for run in whole.runs]
    assert resumed.notes == whole.notes


def test_a_point_that_failed_runs_again_and_the_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        ending_at(patch, 2048, RunError("a lorry drove through the network"))
        assert [run.verified for run in go(tmp_path).results.runs] == [True, False, True]
    before = (tmp_path / "out" / "results.json").read_bytes()
    with monkeypatch.context() as patch:
        ending_at(patch, 2048, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            go(tmp_path, resume=True)
    assert (tmp_path / "out" / "results.json").read_bytes() == before
    sizes: list[int] = []

    def simulate(scenario: Any, *rest: Any) -> Any:
        sizes.append(scenario.size_bytes)
        return simulation.simulate(scenario, *rest)

    monkeypatch.setattr(here, "simulate", simulate)
    assert go(tmp_path, resume=True).results.verified
    assert sizes == [2048]


def test_a_sweep_that_has_grown_runs_what_is_new(tmp_path: Path, started: list[int]) -> None:
    go(tmp_path)
    started.clear()
    more = go(tmp_path, SWEEP.replace('"3KiB"', '"3KiB", "4KiB"'), resume=True)
    assert started == [4096]
    assert len(more.results.runs) == 4
    started.clear()
    go(tmp_path, SWEEP.replace('"3KiB"', '"3KiB", "4KiB"'), resume=True)
    assert not started


def test_a_whole_sweep_is_run_anew_in_its_folder_without_a_word(
    tmp_path: Path, started: list[int]
) -> None:
    go(tmp_path)
    before = point_files(tmp_path)
    go(tmp_path, SWEEP.replace("1KiB", "5KiB"))
    assert started == [1024, 2048, 3072, 5120, 2048, 3072]
    assert len(set(point_files(tmp_path)) - set(before)) == 1
    assert len(point_files(tmp_path)) == 3


@settings(max_examples=10, suppress_health_check=list(HealthCheck))
@given(
    damage=st.sampled_from(["cut", "empty", "wrong", "other", "nest", "binary"]), where=st.data()
)
def test_a_damaged_file_is_a_point_that_is_missing(
    tmp_path_factory: pytest.TempPathFactory, damage: str, where: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    whole = go(folder).results
    chosen = where.draw(st.sampled_from(point_files(folder)))
    text = chosen.read_bytes()
    if damage == "cut":
        text = text[: where.draw(st.integers(0, len(text) - 3))]
    elif damage == "other":  # another point's
        text = next(each for each in point_files(folder) if each != chosen).read_bytes()
    else:
        text = {"empty": b"", "wrong": b'{"runs": [7]}', "nest": b"[" * 9999}.get(damage, b"\xff\0")
    chosen.write_bytes(text)
    resumed = go(folder, resume=True).results
    assert [run.to_dict() for run in resumed.runs] == [run.to_dict() for run in whole.runs]


@pytest.mark.parametrize("was", ["completion_ns", "digest", "verified"])
def test_an_edited_file_is_a_point_that_is_missing_and_that_is_said(
    tmp_path: Path, started: list[int], was: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = go(tmp_path).results
    chosen = point_files(tmp_path)[1]
    document = json.loads(chosen.read_text())
    run = document["result"]["runs"][0]
    run[was] = {"completion_ns": 1, "digest": "0" * 64, "verified": False}[was]
    chosen.write_text(json.dumps(document))
    started.clear()
    said: list[str] = []
    progress = Progress.silent()
    monkeypatch.setattr(progress, "say", said.append)
    out = tmp_path / "out"
    resumed = run_to_folder(sweep(tmp_path), progress=progress, out=out, resume=True).results
    assert len(started) == 1
    assert [
        line for line in said if "its file is damaged or was changed, so it is run again" in line
    ]
    assert [run.to_dict() for run in resumed.runs] == [run.to_dict() for run in whole.runs]


def test_a_file_that_is_as_it_was_written_stays(tmp_path: Path, started: list[int]) -> None:
    go(tmp_path)
    started.clear()
    before = [each.read_bytes() for each in point_files(tmp_path)]
    go(tmp_path, resume=True)
    assert not started
    assert [each.read_bytes() for each in point_files(tmp_path)] == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            SWEEP.replace('"ring"', '"multicast"'),
            r"3 of its 3 points .*\(algorithms was \['ring'\]",
        ),
        (SWEEP.replace('"2KiB", ', ""), r"1 of its 3 points .*\(size_bytes was 2048\)"),
    ],
)
def test_results_that_no_longer_fit_are_refused_and_stay(
    tmp_path: Path, started: list[int], text: str, message: str
) -> None:
    go(tmp_path)
    started.clear()
    files = {each: each.read_bytes() for each in (tmp_path / "out").rglob("*") if each.is_file()}
    with pytest.raises(InputError, match=message):
        go(tmp_path, text, resume=True)
    assert not started
    assert files == {each: each.read_bytes() for each in files}


def test_points_of_another_version_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(tmp_path)
    for module in (points, identity):
        monkeypatch.setattr(module, "version", lambda: "0.2.0+new")
    with pytest.raises(InputError, match=r"were run by Weft 0\.1\.0\+.*, and this is 0\.2\.0\+new"):
        go(tmp_path, resume=True)


def test_a_folder_without_points_and_a_sweep_of_one_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there are no points of a sweep in it"):
        go(tmp_path, resume=True)
    with pytest.raises(InputError, match="this is one point"):
        go(tmp_path, SWEEP.replace(', "2KiB", "3KiB"', ""), resume=True)
    (tmp_path / "out/points").mkdir(parents=True)
    (tmp_path / "out/points/sweep.json").write_text("{")
    with pytest.raises(InputError, match=r"sweep.json' cannot be read: .* delete '.*/points'"):
        go(tmp_path, resume=True)


def test_keys_tell_what_results_hang_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.experiments.runs.inputs import program_of

    first, second, _ = (point.scenario for point in sweep(tmp_path).points)
    program = program_of(first)
    key = identity.key_of(first, program)
    assert key == identity.key_of(sweep(tmp_path).points[0].scenario, program)
    assert key != identity.key_of(second, program)
    other = type(program)(tmp_path / "other.json", program.p4info)
    other.json.write_text(program.json.read_text() + " ")
    assert key != identity.key_of(first, other)
    monkeypatch.setattr(identity, "version", lambda: "another")
    assert key != identity.key_of(first, program)


def test_on_a_full_disk_points_are_missing_and_results_come_back(tmp_path: Path) -> None:
    go(tmp_path / "warm")
    with full_disk(1000):
        outcome = go(tmp_path)
    assert outcome.results.verified
    assert "could not be written" in outcome.unwritten
    assert not point_files(tmp_path)
    assert len(json.dumps(outcome.results.to_dict())) > 1000


def test_a_signal_while_a_result_is_written_waits_until_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point: Any = "a point"  # only a key here
    files = points.PointFiles(tmp_path, {})
    written: list[str] = []

    def ended(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    def add(key: str, result: points.PointResult) -> None:
        signal.raise_signal(signal.SIGTERM)
        written.append(key)

    monkeypatch.setattr(files, "add", add)
    arrivals = Arrivals([point], ["its key"], files)
    before = signal.signal(signal.SIGTERM, ended)
    try:
        with pytest.raises(KeyboardInterrupt):
            arrivals.add(point, [])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (len(arrivals), arrivals.added, written) == (1, 1, ["its key"])
