"""``weft bench``: names of benchmarks, and where figures are written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import IO, Any, cast

import pytest

from weft.base.errors import InputError, RunError
from weft.experiments.families.flows.formats.matrix import parse_matrix
from weft.tools.bench import benchmarks, htsim, simulator

FIGURES = {"ns": 3, "by_size": {"64": 1.5}}


def module(**functions: Any) -> ModuleType:
    return cast(ModuleType, SimpleNamespace(**functions))


@pytest.mark.parametrize("name", benchmarks.NAMES)
def test_every_benchmark_measures_and_says_what(name: str) -> None:
    found = benchmarks.load(name)
    assert callable(found.measure)
    template = Path(benchmarks.__file__).with_name("templates") / f"{name}.txt"
    assert template.is_file() or callable(found.lines)


def test_a_name_that_is_none_is_said_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"'transprot' \(did you mean transport\?\)"):
        benchmarks.load("transprot")


def test_htsim_gets_the_same_flows_and_a_network_of_the_same_links() -> None:
    target = simulator.permutation(16, 1)
    network = simulator.clos(16)
    graph = parse_matrix(htsim.matrix(target, 1000), "flows.cm")
    flows = zip(graph.source, graph.destination, graph.size_bytes, strict=True)
    assert sorted(flows) == [(rank, target[rank], 1000) for rank in range(16)]
    text = htsim.topology(4, 4, 4, simulator.RATE_BPS, simulator.DELAY_NS)
    numbers = dict(line.rsplit(" ", 1) for line in text.split("Tier 1")[0].splitlines() if line)
    up = [each for each in network.outward("leaf0") if each.tier.startswith("fabric")]
    assert int(numbers["Nodes"]) == len(network.hosts)
    assert int(numbers["Radix_Down"]) == len(network.hosts_of("leaf0"))
    assert int(numbers["Radix_Up"]) == len(up)
    assert int(numbers["Downlink_speed_Gbps"]) * 10**9 == network.links[0].rate_bps
    assert int(numbers["Downlink_Latency_ns"]) == network.links[0].delay_ns


def test_a_program_that_is_not_htsim_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--htsim '.*/none': there is no program .* htsim_uec"):
        htsim.check(tmp_path / "none")
    with pytest.raises(InputError, match="there is no program"):
        htsim.check(tmp_path)
    for script, words in (
        ("#!/bin/sh\necho Flow a finished at 1\n", "status 0, and 1 of 2 flows finished: Flow a"),
        ("#!/bin/sh\necho no such option; exit 3\n", "status 3, and 0 of 2 flows .*: no such opt"),
        ("#!/nowhere/at/all\n", "No such file"),
        ("\x00", "Exec format error"),
    ):
        file = tmp_path / "program"
        file.write_text(script)
        file.chmod(0o755)
        with pytest.raises((InputError, RunError), match=words):
            htsim.measure(htsim.check(file), htsim.matrix([1, 0], 9), "", simulator.RATE_BPS)


@pytest.mark.slow
def test_htsim_is_measured_beside_the_simulator() -> None:
    program = shutil.which("htsim_uec")
    if program is None:
        pytest.skip("there is no htsim_uec in the PATH")
    figures = simulator.measure(
        hosts=[16], ranks=16, program=htsim.check(Path(program)), matrices={16: 1 << 20}
    )
    (found,) = figures["htsim"]
    assert found["hosts"] == 16
    assert {*found["by"]} == {"htsim", *simulator.HTSIM_PATHS}
    assert all(each["data_packets"] >= 16 * 256 for each in found["by"].values())
    assert all(each["packets_per_s"] > 0 for each in found["by"].values())
    assert "beside htsim, 16 hosts, 1 MiB a flow" in benchmarks.lines("simulator", figures)[-2]


def test_figures_and_plots_are_written_where_there_are_some(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    benchmarks.check_writable(folder)
    assert not folder.parent.exists()
    (file,) = benchmarks.write(module(), "one", FIGURES, folder)
    assert json.loads(file.read_text()) == FIGURES

    class Drawing:
        def savefig(self, file: IO[bytes], format: str) -> None:
            file.write(format.encode())

    def plot(figures: dict[str, Any]) -> Drawing:
        return Drawing()

    files = benchmarks.write(module(plot=plot), "two", FIGURES, folder)
    assert [each.name for each in files] == ["two.json", "two.svg", "two.png"]
    assert [each.read_text() for each in files[1:]] == ["svg", "png"]


def test_a_folder_that_cannot_be_written_is_named_before_and_after(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "x"
    with pytest.raises(InputError, match="file/x' cannot be written"):
        benchmarks.check_writable(folder)
    with pytest.raises(InputError, match="file/x' cannot be written: Not a directory"):
        benchmarks.write(module(), "one", FIGURES, folder)
