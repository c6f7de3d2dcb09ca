"""What happens in a run, as JSON lines while it runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli_support import WEFT, start

from weft.experiments.runs.events import EventLines


def events_of(tmp_path: Path, *arguments: str, status: int = 0) -> list[dict[str, Any]]:
    done = start(*WEFT, "run", "allgather", *arguments, "--events", "events", cwd=tmp_path)
    assert done.returncode == status, done.stderr
    return [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]


def check_order(events: list[dict[str, Any]]) -> None:
    """Stages begin and end, nothing of a stage comes outside it, and time does not go back."""
    under_way: list[str] = []
    for event in events:
        if event["event"] == "begin":
            under_way.append(event["stage"])
        elif event["event"] == "end":
            under_way.remove(event["stage"])
            assert event["duration_s"] >= 0
        elif event["event"] == "progress":
            assert event["stage"] in under_way
            assert 0 <= event["fraction"] <= 1
    assert not under_way
    times = [event["time"] for event in events]
    assert times == sorted(times)


def test_a_run_tells_of_its_stages_and_its_result(tmp_path: Path) -> None:
    options = ("--world", "simulated", "--size", "4KiB", "--out", "out")
    events = events_of(tmp_path, *options, "--algorithm", "ring", "--algorithm", "multicast")
    check_order(events)
    assert [event["stage"] for event in events if event["event"] == "begin"] == [
        "compile", "ring_0", "multicast_0",
    ]  # fmt: skip
    runs = [event for event in events if event["event"] == "run"]
    assert [run["algorithm"] for run in runs] == ["ring", "multicast"]
    document = json.loads((tmp_path / "out" / "results.json").read_text())
    for run, kept in zip(runs, document["runs"], strict=True):
        assert (run["verified"], run["verdict"]) == (True, "ok")
        assert run["completion_ns"] == kept["completion_ns"]
    last = events[-1]
    assert (last["event"], last["verified"]) == ("results", True)
    assert last["folder"] == str(tmp_path / "out")


def test_a_run_that_fails_tells_why(tmp_path: Path) -> None:
    options = ("--world", "simulated", "--size", "4KiB", "--algorithm", "ring")
    events = events_of(tmp_path, *options, "--fault", "h0:kill,at=0us", status=1)
    (run,) = [event for event in events if event["event"] == "run"]
    assert run["completion_ns"] is None
    assert (run["verified"], run["verdict"]) == (False, "failed")
    assert run["error"]


def test_events_that_cannot_be_written_are_refused_before_anything_is_run(tmp_path: Path) -> None:
    options = ("--world", "simulated", "--events", "no/such/events")
    done = start(*WEFT, "run", "allgather", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert "no/such" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "results").exists()


def test_events_take_the_place_of_a_link_and_what_it_led_to_stays(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "events").symlink_to("precious")
    with EventLines(tmp_path / "events") as tell:
        tell("begin", stage="one")
        # Who watches sees each event as it comes.
        assert json.loads((tmp_path / "events").read_text())["stage"] == "one"
    assert (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / "events").is_symlink()


def test_events_go_to_a_pipe_as_they_come(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "events")
    reader = os.open(tmp_path / "events", os.O_RDONLY | os.O_NONBLOCK)
    with EventLines(tmp_path / "events") as tell:
        for stage in ("one", "two"):
            tell("begin", stage=stage)
            assert json.loads(os.read(reader, 1000))["stage"] == stage
    os.close(reader)


@pytest.mark.system
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_an_emulated_run_tells_how_far_it_is(tmp_path: Path) -> None:
    options = ("--topology", "single", "--rate", "10Mbit", "--size", "500KiB")
    events = events_of(tmp_path, *options, "--algorithm", "ring")
    check_order(events)
    fractions = [event["fraction"] for event in events if event["event"] == "progress"]
    assert len(fractions) > 2
    stages = {event["stage"] for event in events if event["event"] == "begin"}
    assert {"compile", "bring_up", "ring_0", "take_down"} <= stages
    assert [event["algorithm"] for event in events if event["event"] == "run"] == ["ring"]
