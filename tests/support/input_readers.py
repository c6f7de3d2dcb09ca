"""The readers of files that users name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from weft.controller.entry_files.reading import read_entry_file
from weft.experiments.families.flows.file_format import FORMATS, FileReading
from weft.experiments.families.weights.files import read_model
from weft.experiments.families.weights.layouts import read_layout
from weft.experiments.results.network import NetworkResults
from weft.experiments.results.results import Results
from weft.experiments.scenario.htsim_topology import read_topology
from weft.experiments.scenario.options import load_toml
from weft.switch.commands.stf import load_program
from weft.switch.realtime.config import read_config
from weft.switch.stf import read_test
from weft.tools.figures.kept import Kept
from weft.topo.labs.reading import read_lab


def _flows_reader(ending: str) -> Callable[[Path], object]:
    return lambda path: FORMATS[ending].read(path, FileReading("ring", 8, 1 << 20))


READERS: dict[str, Callable[[Path], object]] = {
    "scenario.toml": load_toml,
    **{f"flows{'.0' * (each == '.et')}{each}": _flows_reader(each) for each in FORMATS},
    "other.0.et": FORMATS[".et"].has_collectives,
    "network.topo": read_topology,
    "results.json": Results.read,
    "network.json": NetworkResults.read,
    "test.stf": read_test,
    "program.json": lambda path: load_program(path, [], {}),
    "switches.json": read_config,
    "figures.json": Kept.read,
    "topology.json": read_lab,
    "s1-runtime.json": read_entry_file,
    "s1-commands.txt": read_entry_file,
    "model.json": read_model,
    "layout.json": read_layout,
}
