"""The results folder: what is in it already, links in it, and a disk that takes no more."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support.full_disk import full_disk
from tests.support.system_support import ENVIRONMENT, WEFT

from weft.base.errors import InputError
from weft.base.progress import Progress
from weft.experiments.results.results import Results
from weft.experiments.runner import RunOutcome, run_to_folder
from weft.experiments.runs.folder import ResultsFolder
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.scenario.sweep import Experiment, read_file

SOMEBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="making files of other users needs root")

PLOTTED = """
collective = "allgather"
algorithm = "ring"
topology = "single"
hosts-per-leaf = 2
world = "simulated"
size = "1KiB"
[[plot]]
y = "completion"
x = "ranks"
"""


def run(out: Path, **options: Any) -> RunOutcome:
    scenario = Scenario(
        world="simulated", topology="single", hosts_per_leaf=2, size_bytes=1024,
        algorithms=("ring",), **options,
    )  # fmt: skip
    return run_to_folder(scenario, progress=Progress.silent(), out=out)


def run_plotted(folder: Path, out: Path) -> RunOutcome:
    (folder / "plotted.toml").write_text(PLOTTED)
    experiment: Experiment = read_file(folder / "plotted.toml", {})
    return run_to_folder(experiment, progress=Progress.silent(), out=out)


@pytest.mark.parametrize("name", ["results.json", "report.html"])
def test_a_link_in_the_folder_is_replaced_and_what_it_leads_to_stays(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "out" / name).symlink_to(tmp_path / "precious")
    assert run(tmp_path / "out").unwritten == ""
    assert (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / "out" / name).is_symlink()


def test_links_of_the_names_of_plots_are_replaced_too(tmp_path: Path) -> None:
    first = run_plotted(tmp_path, tmp_path / "out")
    (tmp_path / "precious").write_text("precious")
    for plot in first.plots:
        plot.unlink()
        plot.symlink_to(tmp_path / "precious")
    assert run_plotted(tmp_path, tmp_path / "out").plots == first.plots
    assert (tmp_path / "precious").read_text() == "precious"
    assert all(plot.stat().st_size > 1000 for plot in first.plots)


def test_a_results_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "real")
    with pytest.raises(InputError, match=r"out' cannot be written: .* is a symbolic link"):
        run(tmp_path / "out")
    assert not os.listdir(tmp_path / "real")


@as_root
def test_under_sudo_a_linked_folder_of_captures_is_not_given_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", str(SOMEBODY))
    monkeypatch.setenv("SUDO_GID", str(SOMEBODY))
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "one.pcap").write_text("precious")
    out = tmp_path / "out"
    out.mkdir()
    (out / "pcap").symlink_to(tmp_path / "theirs")
    (out / "mine").write_text("there before")
    assert run(out).unwritten == ""
    assert (tmp_path / "theirs" / "one.pcap").read_text() == "precious"
    assert (tmp_path / "theirs" / "one.pcap").stat().st_uid == 0
    assert (out / "pcap").lstat().st_uid == 0
    folder = ResultsFolder(out)
    with pytest.raises(InputError, match="pcap is a symbolic link: name what it leads to"):
        folder.make(captures=True, traces=False)
    (out / "pcap").unlink()
    assert {path.name: path.lstat().st_uid for path in out.iterdir()} == {
        "mine": 0,
        "results.json": SOMEBODY,
        "report.html": SOMEBODY,
    }
    assert out.stat().st_uid == 0  # it was there before
    assert run(tmp_path / "made" / "anew").unwritten == ""
    assert {path.stat().st_uid for path in (tmp_path / "made").rglob("*")} == {SOMEBODY}


def test_what_an_older_run_left_goes_with_its_document_and_the_users_own_stays(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    plots = run_plotted(tmp_path, out).plots
    (out / "pcap").mkdir()
    for name in ("trace.txt", "pcap/h0-leaf0.pcap", "mine.svg", "pcap/mine.txt"):
        (out / name).write_text("")
    run(out)
    left = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert left == {"results.json", "report.html", "mine.svg", "pcap/mine.txt"}
    assert plots


def test_on_a_full_disk_results_come_back_and_old_files_stay_whole(tmp_path: Path) -> None:
    out = tmp_path / "out"
    before = run(out).results
    run(tmp_path / "warm", seed=2)
    with full_disk(1000):
        outcome = run(out, seed=2)
    assert outcome.results.verified
    assert outcome.unwritten == (
        f"results.json, report.html could not be written to {str(out)!r}: File too large; make "
        "room, or name another folder with --out"
    )
    assert Results.read(out) == before
    assert sorted(os.listdir(out)) == ["report.html", "results.json"]


def test_a_folder_that_vanishes_during_the_run_does_not_take_the_results_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from weft.experiments.runs import here, simulation

    def simulate(*arguments: Any) -> Any:
        (tmp_path / "out").rmdir()
        return simulation.simulate(*arguments)

    monkeypatch.setattr(here, "simulate", simulate)
    outcome = run(tmp_path / "out")
    assert outcome.results.verified
    assert "No such file or directory" in outcome.unwritten


def with_small_disk(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """A shell's script, with a disk of 64 KiB in a folder, in a mount namespace of its own."""
    mount = f"mount -t tmpfs -o size=64k weft-test {folder} || exit 77"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f"{mount}\n{script}"],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip("this machine mounts no tmpfs in a mount namespace")
    return done


@as_root
@pytest.mark.system
def test_on_a_full_disk_the_table_is_printed_and_the_error_is_one_line(tmp_path: Path) -> None:
    mounted = tmp_path / "disk"
    mounted.mkdir()
    weft = " ".join([*WEFT, "run", "allgather", "--world", "simulated", "--size", "1KiB"])
    script = f"""
        echo '{{"old": true}}' >{tmp_path}/disk/results.json
        head -c 1000000 /dev/zero >{tmp_path}/disk/filler 2>/dev/null
        {weft} --out {tmp_path}/disk; echo "status $?"
        cat {tmp_path}/disk/results.json; ls {tmp_path}/disk
    """
    done = with_small_disk(mounted, script)
    assert "multicast" in done.stdout and "verified" in done.stdout
    assert done.stdout.endswith('status 2\n{"old": true}\nfiller\nresults.json\n')
    errors = [line for line in done.stderr.splitlines() if line.startswith("weft: ")]
    assert errors == [
        f"weft: results.json, report.html could not be written to '{tmp_path}/disk': No space left "
        "on device; make room, or name another folder with --out"
    ]
    assert "Traceback" not in done.stderr


@as_root
@pytest.mark.system
def test_captures_that_a_full_disk_cut_short_are_said(tmp_path: Path) -> None:
    mounted = tmp_path / "out" / "pcap"
    mounted.mkdir(parents=True)
    options = "--topology single --hosts-per-leaf 2 --size 512KiB --rate 20Mbit --no-predict"
    weft = " ".join([*WEFT, "run", "allgather", "--algorithm", "ring", options, "--pcap"])
    done = with_small_disk(mounted, f"{weft} --out {tmp_path}/out")
    assert done.returncode == 0, done.stderr
    assert "packets: its file is cut short, as on a full disk" in done.stdout
