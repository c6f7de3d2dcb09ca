"""The walks of docs/ARCHITECTURE.md, really walked: what another package, or one row, adds to Weft
is in the command line, in checks, in runs and in analysis."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

ALGORITHM = '''
"""Allgather around a ring, the other way round."""

from weft.agents.collectives.algorithm import Algorithm
from weft.agents.collectives.algorithms.multicast import Multicast
from weft.agents.collectives.algorithms.ring import Ring
from weft.agents.collectives.places import TierBytes
from weft.agents.collectives.transfers import Transfers
from weft.agents.collectives.unicast import Blocks, Write, block_bytes, require
from weft.agents.collectives.unicast_options import UnicastOptions
from weft.base.errors import refuse
from weft.base.option import UNICAST, WHOLE, option

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Own(UnicastOptions):
    stride: int = option(
        1, WHOLE, "Ranks that a backwards ring steps over.", group=UNICAST, between=(1, 7),
        counted="ranks", network=True,
    )


class Backwards:
    def __init__(self, request, rank, size, path_mtu, buffer, stride):
        shards = request.shard_bytes(size)
        self.memories = (buffer,)
        self.rank, self.to, self.source = rank, (rank - stride) % size, (rank + stride) % size
        self.blocks = Blocks(shards, block_bytes(request, shards, path_mtu))
        others = self.blocks.total - len(self.blocks.of(rank))
        self.expected = {self.source: others} if others else {}
        self.targets = (self.to,) if size > 1 else ()

    def window(self, peer):
        return 0

    def begin(self):
        return self.pass_on(self.blocks.of(self.rank)) if self.targets else ()

    def arrived(self, peer, block):
        source = self.blocks.part_of(block)
        require(source != self.rank, block)
        return self.blocks.span(block)[1], () if source == self.to else self.pass_on((block,))

    def pass_on(self, blocks):
        for block in blocks:
            offset, length = self.blocks.span(block)
            yield Write(self.to, block, 0, offset, length, offset)


class BackwardsRing(Algorithm):
    name = "backwards-ring"
    collectives = ("allgather",)
    colours = ("#112233", "#445566")
    label = "Ring, backwards"
    options = Own

    def check(self, request):
        refuse(
            request.dtype == "float64",
            "dtype 'float64' by backwards-ring: eight bytes do not turn round; choose float32",
        )

    def pattern(self, request, rank, size, path_mtu, data, result):
        return Backwards(request, rank, size, path_mtu, data, self.own(request).stride)

    def partners(self, request, rank, size):
        stride = self.own(request).stride
        return {(rank - stride) % size, (rank + stride) % size}

    def rounds(self, task):
        ranks, stride = np.arange(task.ranks), self.own(task).stride
        for step in range(task.ranks - 1):
            yield Transfers(ranks, np.roll(ranks, stride), np.roll(task.sizes, -step * stride))


class Flood(Multicast):
    """It is no unicast flows between ranks, and says of itself what theory asks."""

    name = "flood"
    collectives = ("allgather",)
    label = "Deluge"

    def least_bytes(self, task):
        return task.operations * 12_345

    def tier_bytes(self, task):
        return TierBytes(1, 2, 3, len(task.members.leaf))


class Again(Ring):
    """What can do an Allreduce by unicast can do those of a workload."""

    name = "again"
    collectives = ("allreduce",)


ALGORITHM = BackwardsRing()
FLOOD = Flood()
AGAIN = Again()
'''

SCHEME = '''
"""Every flow within two pieces, on the first and the last of its paths."""

from weft.experiments.paths.scheme import PathScheme
from weft.controller.clos_paths import ClosPaths
from weft.controller.flows import WITHIN_LEAF, Pieces
from weft.base.option import TRANSPORT, WHOLE, option

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Own:
    which: int = option(0, WHOLE, "The path of every flow.", group=TRANSPORT, between=(0, 1))


class FirstPath(PathScheme):
    options = Own
    name = "first-path"
    colour = "#123456"
    routes = "pinned"
    assigned = "pins"
    by_chance = False

    def pieces(self, network, flows, seed, without=(), unit_bytes=1):
        paths = network if isinstance(network, ClosPaths) else ClosPaths.of(network, without)
        away = paths.leaf_of(flows.source) != paths.leaf_of(flows.destination)
        number = np.arange(len(flows))
        path = np.where(away, self.own.which, WITHIN_LEAF)
        return Pieces(number, path, np.zeros(len(flows), np.int64), flows.size_bytes)


SCHEME = FirstPath()
'''


METRIC = '''
"""How long the last rank stood in its barriers."""

from weft.experiments.results.metric import TIME, Metric


def waited_ns(rank):
    return rank.phases_ns.get("barrier", 0)


METRIC = Metric(
    name="waited", about="the longest that a rank waited for the others", unit=TIME,
    run=lambda run: max(map(waited_ns, run.ranks)), rank=waited_ns,
    column="waited_ns", heading="wait", label="waiting", hint="for the others",
    sections=("figures", "ranks"), kept=("us",),
    axis="the longest wait ({unit})", title="Waiting of {links}", is_of_the_machine=True,
)
'''

WAITS = """
collective = "allgather"
algorithm = "multicast"
world = "simulated"
rate = "1Gbit"

[sweep]
size = ["4KiB", "8KiB"]

[[plot]]
x = "size"
y = "waited"
"""

PAGE = """
from weft.tools.figures.kept import Kept, rows_of
from weft.tools.figures.plots import PlotNote, svg_of
from weft.tools.figures.tables import rendered
from weft.experiments.results.results import Results

results = Results.read(__import__("pathlib").Path("out"))
kept = Kept("waits", 2, rows_of([(run, 1.0) for run in results.runs], results.swept))
for row in kept.rows:
    print(row.values["waited-us"][0])
note = "waits: waited-us; rows algorithm; columns size"
print(rendered(f"<!-- figures {note} -->\\n<!-- end of figures -->", {"waits": kept}.get))
note = PlotNote.parse("waits: waited-us; x size; lines algorithm; file a.svg; title Waits")
print("the longest wait (us)" in svg_of(note, kept).decode())
"""


def package(folder: Path, module: str, source: str, group: str, *objects: str) -> None:
    """Another package, installed in a folder: a module, and an entry point for each of its
    objects."""
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    points = "".join(f"{what} = {module}:{what.upper()}\n" for what in objects)
    (info / "entry_points.txt").write_text(f"[{group}]\n{points}")


def weft(folder: Path, *words: str, status: int = 0, source: Path = ROOT / "src") -> str:
    """What ``weft`` prints where a folder's packages are installed."""
    done = subprocess.run(
        [sys.executable, "-m", "weft", *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(source), str(folder)])},
        cwd=folder, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


def python(folder: Path, code: str) -> str:
    """What a program prints where a folder's packages are installed."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(folder)])},
        cwd=folder, capture_output=True, text=True, timeout=600, check=True,
    )  # fmt: skip
    return done.stdout


def completed(folder: Path, *words: str) -> list[str]:
    """What the shell is offered for the last word of ``weft run WORDS``."""
    asked = {
        "_WEFT_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["weft", "run", *words]),
        "COMP_CWORD": str(len(words) + 1),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(folder)]),
    }
    done = subprocess.run(
        [sys.executable, "-m", "weft"],
        env={**os.environ, **asked},
        cwd=folder, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    return done.stdout.split()


def copy_of_weft(folder: Path, opened: str) -> Path:
    """A copy of Weft made of links, but for a folder in it and those above, which may get other
    files."""
    source = folder / "src" / "weft"
    inside = Path(opened)
    for each in (Path(), *reversed(inside.parents[:-1]), inside):
        (source / each).mkdir(parents=True)
        for found in (ROOT / "src" / "weft" / each).iterdir():
            if each / found.name not in (inside, *inside.parents):
                (source / each / found.name).symlink_to(found.resolve())
    return source


def test_an_algorithm_of_wefts_own_is_one_file(tmp_path: Path) -> None:
    source = copy_of_weft(tmp_path, "agents/collectives/algorithms")
    own = ALGORITHM + "ALGORITHMS = (ALGORITHM,)\n"
    (source / "agents" / "collectives" / "algorithms" / "backwards.py").write_text(own)
    said = weft(tmp_path, "run", "allgather", "--help", source=source.parent)
    assert "pat, backwards-ring" in " ".join(said.split())
    words = ["paths", "allgather", "--algorithm", "backwards-ring"]
    assert "56 flows in 7 steps" in weft(tmp_path, *words, source=source.parent)


def test_a_path_scheme_of_wefts_own_is_one_file(tmp_path: Path) -> None:
    source = copy_of_weft(tmp_path, "experiments/paths/schemes")
    own = SCHEME.replace("    routes =", '    about = "one of them"\n    routes =')
    own += "SCHEMES = (SCHEME,)\n"
    (source / "experiments" / "paths" / "schemes" / "first_path.py").write_text(own)
    said = weft(tmp_path, "run", "--help", source=source.parent)
    assert "ethereal, ethereal-ports, first-path (one of them)." in " ".join(said.split())
    words = ["paths", "alltoall", "--paths", "first-path,spray"]
    assert "first-path" in weft(tmp_path, *words, source=source.parent)


@pytest.mark.system(alone=False)
def test_an_algorithm_is_one_file_of_another_package(tmp_path: Path) -> None:
    package(tmp_path, "backwards", ALGORITHM, "weft.algorithms", "algorithm", "flood", "again")
    assert "backwards-ring" in "".join(weft(tmp_path, "run", "allgather", "--help").split())
    assert "backwards-ring" not in weft(tmp_path, "run", "allreduce", "--help")

    small = ["--world", "simulated", "--size", "64KiB", "--rate", "1Gbit", "--out", "out"]
    algorithms = ["--algorithm", "backwards-ring", "--algorithm", "ring"]
    document = json.loads(weft(tmp_path, "run", "allgather", *small, *algorithms, "--json"))
    mine, ring = document["runs"]
    assert mine["verified"] and mine["algorithm"] == "backwards-ring"
    sent = [sum(link["tx_bytes"] for link in run["links"]) for run in (mine, ring)]
    assert 0.99 < sent[0] / sent[1] < 1.01
    assert mine["bound_ns"] <= mine["completion_ns"] < 2 * ring["completion_ns"]
    report = (tmp_path / "out" / "report.html").read_text()
    assert "#112233" in report and "Ring, backwards: frames on each link" in report
    words = ["run", "allgather", *small, "--algorithm", "flood", "--json"]
    (flood,) = json.loads(weft(tmp_path, *words))["runs"]
    assert flood["verified"] and flood["bound_ns"] == 12_345 * 8
    assert "Deluge" in (tmp_path / "out" / "report.html").read_text()
    code = (
        "from weft import Scenario\n"
        "from weft.experiments.theory.traffic_model import tier_model_bytes\n"
        "scenario = Scenario('allgather', algorithms=('flood',), size_bytes=10)\n"
        "for name in ('flood', 'backwards-ring'):\n"
        "    print(*tier_model_bytes(scenario.network(), scenario, name).values())\n"
    )
    # Around a ring 7 shards of 10 bytes leave each of 8 hosts, and one host of each of 4 leaves.
    assert python(tmp_path, code).splitlines() == ["1 2 3 8", "560 560 280 280"]

    workload = ["--workload", "gpt-small", "--layers", "1", "--algorithm", "again"]
    (again,) = json.loads(weft(tmp_path, "run", "flows", *small[:2], *workload, "--json"))["runs"]
    assert again["verified"] and again["algorithm"] == "again"

    refused = weft(tmp_path, "run", "allgather", *algorithms, "--chunk", "1KiB", status=2)
    assert "by backwards-ring and ring: it is for the algorithms multicast and flood;" in refused
    refused = weft(tmp_path, "run", "allgather", *algorithms, "--dtype", "float64", status=2)
    assert refused == (
        "weft: dtype 'float64' by backwards-ring: eight bytes do not turn round; choose float32\n"
    )

    assert "backwards-ring" in weft(tmp_path, "paths", "allgather", "--algorithm", "backwards-ring")
    pinned = ["--algorithm", "backwards-ring", "--paths", "ethereal"]
    assert "verified" in weft(tmp_path, "run", "allgather", *small, *pinned)
    refused = weft(tmp_path, "run", "allgather", *algorithms[:2], "--workers", "2", status=2)
    assert "workers 2 means nothing for allgather by backwards-ring" in refused


@pytest.mark.system(alone=False)
def test_an_option_of_its_own_comes_with_an_algorithm(tmp_path: Path) -> None:
    package(tmp_path, "backwards", ALGORITHM, "weft.algorithms", "algorithm")
    row = "Ranks that a backwards ring steps over. [1]"
    for words in (["run"], ["run", "allgather"]):
        said = " ".join(weft(tmp_path, *words, "--help").split())
        assert f"--stride N {row}" in said
    assert "--stride" not in weft(tmp_path, "run", "allreduce", "--help")
    assert completed(tmp_path, "allgather", "--str") == ["--stride"]
    assert completed(tmp_path, "allreduce", "--str") == []

    small = ["--world", "simulated", "--size", "64KiB", "--rate", "1Gbit", "--out", "out"]
    words = ["run", "allgather", "--algorithm", "backwards-ring", *small, "--json"]
    (one,) = json.loads(weft(tmp_path, *words))["runs"]
    (three,) = json.loads(weft(tmp_path, *words, "--stride", "3"))["runs"]
    assert one["verified"] and one["scenario"]["stride"] == 1
    assert three["verified"] and three["scenario"]["stride"] == 3
    # Ranks 3 apart are never on one leaf of two hosts, those next to each other every other time.
    assert three["tiers"]["fabric_up"] > 1.5 * one["tiers"]["fabric_up"]
    report = (tmp_path / "out" / "report.html").read_text()
    assert "stride" in report and "3 ranks" in report and "--stride 3" in report

    refused = weft(tmp_path, *words, "--stride", "8", status=2)
    assert "stride 8 is out of range: a whole number from 1 to 7" in refused
    ring = ["run", "allgather", "--algorithm", "ring", *small, "--stride", "3"]
    refused = weft(tmp_path, *ring, status=2)
    assert "stride 3 means nothing for allgather by ring: it is for backwards-ring;" in refused

    (tmp_path / "strides.toml").write_text(
        'collective = "allgather"\nalgorithm = "backwards-ring"\nworld = "simulated"\n'
        'size = "8KiB"\nsweep.stride = [1, 5]\n'
    )
    runs = json.loads(weft(tmp_path, "run", "strides.toml", "--out", "out", "--json"))["runs"]
    assert [run["scenario"]["stride"] for run in runs if run["verified"]] == [1, 5]
    code = (
        "from weft import Scenario\n"
        "from weft.tools.figures.reference import reference\n"
        "from weft.experiments.runs.shared import network_key\n"
        "from weft.experiments.theory.traffic_model import tier_model_bytes\n"
        "keys = set()\n"
        "for stride in (1, 3):\n"
        "    one = Scenario(algorithms=('backwards-ring',), size_bytes=10, stride=stride)\n"
        "    print(*tier_model_bytes(one.network(), one, 'backwards-ring').values())\n"
        "    keys.add(network_key(one))\n"
        "print(len(keys))\n"
        "print(*(line for line in reference().splitlines() if '`stride`' in line))\n"
    )
    found = python(tmp_path, code).splitlines()
    assert found[:2] == ["560 560 280 280", "560 560 560 560"]
    assert found[2] == "2"  # each has a network of its own, as the option says
    assert found[3] == f"| `stride` | a whole number from 1 to 7 | {row} | allgather |"


NO_OPTION = ("    stride: int = option(", "    stride: int = 1\n    at: int = option(")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (*NO_OPTION, "stride is not made by weft.base.option.option"),
        ("    stride:", "    leaves:", "there is a 'leaves' already: give it another name"),
        ("group=UNICAST", "group='Mine'", "stride: group 'Mine' is none of World and switches"),
    ],
)
def test_options_that_cannot_be_used_are_left_out_and_said(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    package(tmp_path, "backwards", ALGORITHM.replace(old, new), "weft.algorithms", "algorithm")
    done = subprocess.run(
        [sys.executable, "-m", "weft", "run", "allgather", "--help"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(tmp_path)])},
        cwd=tmp_path, capture_output=True, text=True, timeout=600, check=True,
    )  # fmt: skip
    (line,) = done.stderr.splitlines()
    assert line.startswith("weft: options of backwards-ring are left out: ") and said in line
    assert "--stride" not in done.stdout and "backwards-ring" in done.stdout


@pytest.mark.system(alone=False)
def test_a_path_scheme_is_one_file_of_another_package(tmp_path: Path) -> None:
    package(tmp_path, "first_path", SCHEME, "weft.path_schemes", "scheme")
    for command in ("run", "paths"):
        assert "first-path" in weft(tmp_path, command, "--help")
    said = weft(tmp_path, "paths", "alltoall", "--paths", "first-path,spray", "--json")
    first, spray = json.loads(said)["schemes"]
    assert first["fabric_max_bytes"] == 2 * spray["fabric_max_bytes"]  # one of two spines has all

    small = ["--world", "simulated", "--size", "64KiB", "--rate", "1Gbit", "--out", "out"]
    words = ["run", "alltoall", "--paths", "first-path", *small, "--json"]
    (run,) = json.loads(weft(tmp_path, *words))["runs"]
    assert run["verified"]
    sent = {(link["from"], link["to"]): link["tx_bytes"] for link in run["links"]}
    assert sent["leaf0", "spine0"] > 5 * sent["leaf0", "spine1"]
    assert "first-path" in weft(tmp_path, "run", "allgather", "--paths", "first", status=2)

    assert "--which N" in weft(tmp_path, "run", "allgather", "--help")
    (run,) = json.loads(weft(tmp_path, *words, "--which", "1"))["runs"]
    assert run["verified"] and run["scenario"]["which"] == 1
    sent = {(link["from"], link["to"]): link["tx_bytes"] for link in run["links"]}
    assert sent["leaf0", "spine1"] > 5 * sent["leaf0", "spine0"]
    refused = weft(tmp_path, "run", "alltoall", "--paths", "spray", "--which", "1", status=2)
    assert "which 1 means nothing for alltoall by direct: it is for first-path;" in refused


@pytest.mark.system(alone=False)
def test_a_metric_is_one_row_of_another_package(tmp_path: Path) -> None:
    package(tmp_path, "waits", METRIC, "weft.metrics", "metric")
    (tmp_path / "waits.toml").write_text(WAITS)
    shown = weft(tmp_path, "run", "waits.toml", "--out", "out")
    document = json.loads((tmp_path / "out" / "results.json").read_text())
    waited = [
        max(rank["phases_ns"]["barrier"] for rank in run["ranks"]) for run in document["runs"]
    ]
    assert len(waited) == 2 and min(waited) > 0

    assert re.search(r"\bwait +", shown)
    report = (tmp_path / "out" / "report.html").read_text()
    assert '<th class="n" title="for the others">waiting</th>' in report
    assert all(f'<td class="n" data-value="{value:.1f}">' in report for value in waited)
    assert "Waiting of all links" in report
    assert (tmp_path / "out" / "waited-size.svg").exists()

    def exported(*more: str) -> list[dict[str, str]]:
        lines = weft(tmp_path, "export", "out", *more).splitlines()
        return list(csv.DictReader(lines))

    assert [int(row["waited_ns"]) for row in exported()] == waited
    ranks = exported("--table", "ranks")
    assert max(int(row["waited_ns"]) for row in ranks) == max(waited)
    found = python(tmp_path, PAGE).splitlines()
    assert [float(line) for line in found[:2]] == [value / 1e3 for value in waited]
    assert "| algorithm | 4 KiB | 8 KiB |" in found and found[-1] == "True"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("METRIC = Metric(", "METRIC = dict(", "of type dict, without name, title"),
        ('name="waited"', 'name="bound"', "there is a 'bound' already: give it another name"),
    ],
)
def test_a_metric_that_cannot_be_used_is_left_out_and_said(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    package(tmp_path, "waits", METRIC.replace(old, new), "weft.metrics", "metric")
    code = "from weft.experiments.scenario import metric_names; metric_names.plotted()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(tmp_path)])},
        cwd=tmp_path, capture_output=True, text=True, timeout=600, check=True,
    )  # fmt: skip
    (line,) = done.stderr.splitlines()
    assert line.startswith("weft: 'metric' of waits (weft.metrics, ") and said in line


FEATURE_P4 = """
control LongMark(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    counter(PORTS, CounterType.packets) long_marked;

    // 0: nothing is marked.
    bit<32> least = 0;

    action mark_from(bit<32> size_bytes) {
        least = size_bytes;
    }

    table marking {
        actions = { mark_from; NoAction; }
        default_action = NoAction();
    }

    apply {
        marking.apply();
        if (least != 0 && hdr.ipv4.ecn != 0 && standard_metadata.packet_length >= least) {
            hdr.ipv4.ecn = ECN_CE;
            long_marked.count((bit<32>)standard_metadata.egress_port);
        }
    }
}
"""

FEATURE = '''
"""Switches mark every packet that brings as much as one may, of a transport that uses marks."""

from pathlib import Path

from weft.controller.counters import LinkCounters
from weft.controller.entities import Action, DefaultAction
from weft.controller.features.feature import Feature, Planned


class LongMark(Feature):
    name = "long_mark"
    include = Path(__file__).with_name("long_mark.p4")
    egress = "LongMark"
    counters = ("long_mark.long_marked",)

    def plan(self, planning):
        names, mtu = planning.names, planning.options.get("mtu", 0)
        call = Action.of(names.name("long_mark.mark_from"), size_bytes=mtu)
        mark = DefaultAction(names.name("long_mark.marking"), call)
        switches = [switch.name for switch in planning.topology.switches]
        return Planned(dict.fromkeys(switches, [mark]), provides=mtu)

    def share(self, cells):
        return LinkCounters(marked_packets=cells.at_source("long_mark.long_marked")[0])


def marked(controller):
    """Return how many packets each switch has marked."""
    counter = controller.names.name("long_mark.long_marked")
    ports = {
        switch.name: [each.source.number for each in controller.topology.outward(switch.name)]
        for switch in controller.topology.switches
    }
    cells = {switch: [(counter, port) for port in ports[switch]] for switch in ports}
    counted = controller.read_cells(cells)
    return {switch: sum(packets for packets, _ in counted[switch].values()) for switch in cells}


FEATURE = LongMark()
'''

FIGURES = """
import long_mark

from weft import Scenario
from weft.controller import Controller
from weft.experiments.runs.inputs import cast_of, operation_of, plan_of, program_of
from weft.topo.worlds.simulated.world import SimulatedWorld

scenario = Scenario("alltoall", topology="single", hosts_per_leaf=2, size_bytes=1 << 16,
                    congestion="dctcp", world="simulated")
world = SimulatedWorld(scenario.network(), seed=1, path_mtu=scenario.mtu)
with Controller(world.topology, world.switch_addresses, program_of(scenario)) as controller:
    plan = plan_of(controller.names, scenario, world.topology)
    controller.apply(plan)
    operation = operation_of(scenario, scenario.algorithms[0], 1)
    world.run_operation(operation, cast=cast_of(scenario, world.topology, plan))
    print(plan.provided["long_mark"], long_mark.marked(controller))
"""


@pytest.mark.slow
@pytest.mark.system(alone=False)
def test_a_p4_feature_is_an_include_and_a_planner_of_another_package(tmp_path: Path) -> None:
    (tmp_path / "long_mark.p4").write_text(FEATURE_P4)
    package(tmp_path, "long_mark", FEATURE, "weft.p4_features", "feature")
    small = ["--world", "simulated", "--topology", "single", "--hosts-per-leaf", "2"]
    words = [*small, "--size", "64KiB", "--congestion", "dctcp", "--out", "out", "--json"]

    def marks(folder: Path, *more: str) -> dict[tuple[str, str], int]:
        """Return the marked packets by link; hosts and switches must have counted the same."""
        (run,) = json.loads(weft(folder, "run", "alltoall", *words, *more))["runs"]
        assert run["verified"]
        marked = sum(link["marked"] for link in run["links"])
        assert marked == sum(rank["statistics"]["congestion_marks"] for rank in run["ranks"])
        return {(link["from"], link["to"]): link["marked"] for link in run["links"]}

    # As many as there are packets that are full, by the option that says how much they bring.
    for mtu in (4096, 1024):
        full = 32 * 1024 // mtu
        found = {ends: count for ends, count in marks(tmp_path, "--mtu", str(mtu)).items() if count}
        assert found == {("leaf0", "h0"): full, ("leaf0", "h1"): full}
    assert not any(marks(tmp_path / "out").values())  # where the package is not installed

    figures = subprocess.run(
        [sys.executable, "-c", FIGURES],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(tmp_path)])},
        cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert figures.stdout == "4096 {'leaf0': 16}\n", figures.stderr


FAULT = '''
"""A switch that forgets its way out: its links upwards carry nothing."""

from weft.topo.faults import Outage, OutageKind


class Mute(OutageKind):
    name = "mute"

    def read(self, line):
        line.take_values("for")
        return Outage(self.name, line.where, 0, for_ns=line.optional_ns("for"), text=line.text)

    def down(self, outage, topology):
        return [each for each in outage.directions(topology) if each.tier == "fabric_up"]


FAULT = Mute()
'''


@pytest.mark.system(alone=False)
def test_a_fault_is_one_file_of_another_package(tmp_path: Path) -> None:
    package(tmp_path, "mute", FAULT, "weft.faults", "fault")
    small = ["--world", "simulated", "--size", "64KiB", "--rate", "1Gbit", "--out", "out"]
    words = ["run", "allgather", "--algorithm", "ring", *small, "--json"]
    (run,) = json.loads(weft(tmp_path, *words, "--fault", "leaf0:mute,for=1ms"))["runs"]
    (clean,) = json.loads(weft(tmp_path, *words))["runs"]
    assert run["verified"] and run["completion_ns"] > clean["completion_ns"] + 500_000
    lost = {(link["from"], link["to"]) for link in run["links"] if link["lost"]}
    assert lost and lost <= {("leaf0", "spine0"), ("leaf0", "spine1")}
    refused = weft(tmp_path, *words, "--fault", "leaf0:mute,at=1ms", status=2)
    assert "unknown key of mute 'at'; choose from for" in refused
    assert "(did you mean mute?)" in weft(tmp_path, *words, "--fault", "leaf0:mutt", status=2)

    words = ["paths", "allgather", "--paths", "spray", "--json", "--fault"]
    muted, failed = (
        json.loads(weft(tmp_path, *words, f"spine1{way}")) for way in (":mute", ":fail,at=0")
    )
    assert muted["link_bytes"] == failed["link_bytes"] and muted["link_bytes"]["spray"]


NONSENSE = """
from weft.agents.collectives.algorithms.ring import Ring

class Nonsense(Ring):
    name, collectives, position, baseline = "nonsense", ("allgather",), {}, False

    def pattern(self, *arguments):
        return None

ALGORITHM = Nonsense()
"""

DUCK = """
from dataclasses import dataclass

@dataclass
class Own:
    pass

class Duck:
    name, collectives, position, unicast, baseline = "duck", ("allgather",), {}, 1, False
    label, colours = "", ("#112233", "#445566")
    interleaved_as, options = "", Own

ALGORITHM = Duck()
"""


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import nothing_of_that_name", "nothing_of_that_name"),
        ("ALGORITHM = 5", "it is of type int, without name, collectives, position"),
        ("class ALGORITHM: pass", "it is the class ALGORITHM: name an instance"),
        (ALGORITHM.replace("backwards-ring", "ring"), "there is a 'ring' already"),
        (ALGORITHM.replace("backwards-ring", "Bad Name,x"), "its name is 'Bad Name,x': let it"),
        (ALGORITHM.replace('"backwards-ring"', "7"), "its name is 7: let it be letters"),
        (ALGORITHM.replace('("allgather",)', '"allgather"'), "collectives is 'allgather', not a"),
        (ALGORITHM.replace('"allgather",', '"all",'), "'all' is unknown; choose from allgather"),
        (ALGORITHM.replace('("#112233", "#445566")', "None"), "its colours is None, not a list"),
        (ALGORITHM.replace('"#112233"', '"red"'), "colours[0]"),
        (ALGORITHM.replace("    label", "    position = None\n    label"), "position is None"),
        (ALGORITHM + "import sys; sys.exit(3)", "SystemExit: 3"),
        (
            ALGORITHM.replace("options = Own", "options = int"),
            "must be called with a dataclass type",
        ),
        (DUCK, "it is of type Duck: derive that from weft.agents.collectives.algorithm.Algorithm"),
    ],
)
def test_what_cannot_be_used_is_left_out_and_said(tmp_path: Path, source: str, said: str) -> None:
    package(tmp_path, "broken", source, "weft.algorithms", "algorithm")
    done = subprocess.run(
        [sys.executable, "-m", "weft", "run", "allgather", "--help"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(tmp_path)])},
        cwd=tmp_path, capture_output=True, text=True, timeout=600, check=True,
    )  # fmt: skip
    (line,) = done.stderr.splitlines()
    assert "'algorithm' of broken" in line and said in line


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "        refuse(",
            "        raise KeyError(7)\n        refuse(",
            "check failed: KeyError: 7",
        ),
        (
            "    label",
            "    least_bytes = lambda *_: None\n    label",
            "least_bytes failed: TypeError",
        ),
    ],
)
def test_an_algorithm_that_fails_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    source = ALGORITHM.replace(old, new, 1)
    package(tmp_path, "backwards", source, "weft.algorithms", "algorithm")
    words = ["--world", "simulated", "--algorithm", "backwards-ring", "--size", "4KiB"]
    error = weft(tmp_path, "run", "allgather", *words, status=1).splitlines()[-1]
    named = "weft: 'backwards-ring' of another package (backwards.BackwardsRing): "
    assert error.startswith(named + said)


@pytest.mark.parametrize(
    ("old", "new", "said", "status"),
    [
        ('"pinned"', '"nope"', "routes of FirstPath is 'nope'; it is one of 'ecmp', 'dest", 2),
        ('"pins"', '"nope"', "assigned of FirstPath is 'nope'; it is one of '', 'pins', 'p", 2),
        (
            "by_chance = False",
            'entropy = "no"',
            "entropy of FirstPath is 'no'; it is one of 'fix",
            2,
        ),
        ("by_chance =", "lanes =", "lanes of FirstPath is False; it is a whole number from 1", 2),
        (
            "away, self.own.which",
            "away, 999",
            "(first_path.FirstPath): loads failed: IndexError",
            1,
        ),
    ],
)
def test_a_path_scheme_that_makes_no_sense_is_named(
    tmp_path: Path, old: str, new: str, said: str, status: int
) -> None:
    package(tmp_path, "first_path", SCHEME.replace(old, new), "weft.path_schemes", "scheme")
    words = ["paths", "alltoall", "--paths", "first-path"]
    assert said in weft(tmp_path, *words, status=status)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("mark_from", "mark_form", "feature 'long_mark': 'long_mark.mark_form': the fabric's pro"),
        (
            "return Planned(",
            "return dict and list(",
            "(long_mark.LongMark): plan failed: TypeError",
        ),
        ("for switch in planning", "+ 'x' for switch in planning", "there is no switch"),
        ('egress = "LongMark"', 'egress = "Long Mark"', "its egress is 'Long Mark'; let it be an"),
    ],
)
def test_a_p4_feature_that_makes_no_sense_is_named(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    (tmp_path / "long_mark.p4").write_text(FEATURE_P4)
    package(tmp_path, "long_mark", FEATURE.replace(old, new), "weft.p4_features", "feature")
    code = (
        "from weft import Scenario\n"
        "from weft.base.errors import WeftError\n"
        "from weft.controller.features.registry import FEATURES\n"
        "from weft.controller.program_names import ProgramNames\n"
        "from weft.experiments.runs.inputs import plan_of, program_of\n"
        "from google.protobuf import text_format\n"
        "from weft.switch.messages import p4info_pb2\n"
        "scenario = Scenario(topology='single', hosts_per_leaf=2)\n"
        "try:\n"
        "    program = program_of(scenario)\n"
        "    info = text_format.Parse(program.p4info.read_text(), p4info_pb2.P4Info())\n"
        "    names = ProgramNames(info, [*FEATURES.others])\n"
        "    plan_of(names, scenario, scenario.network())\n"
        "except WeftError as error:\n"
        "    print(error)\n"
    )
    assert said in python(tmp_path, code)


NETWORK = """
from weft.experiments.scenario.networks import NetworkShape
from weft.topo.own import Network


class Pair(NetworkShape):
    name = "pair"
    about = "two hosts"

    def topology(self, own):
        pair = Network("pair")
        for host in ("a", "b"):
            pair.host(host)
        pair.switch("s")
        for host in ("a", "b"):
            pair.link(host, "s")
        return pair.topology()


PAIR = Pair()
"""
WORKLOAD = """
from weft.agents.collectives.graph_builder import GraphBuilder
from weft.experiments.families.flows.workload import Workload


class There(Workload):
    name = "there"
    about = "one flow"

    def graph(self, options, own):
        builder = GraphBuilder()
        builder.flow(0, options.ranks - 1, 5000)
        return builder.build()


THERE = There()
"""


def test_a_network_and_a_workload_are_objects_of_other_packages(tmp_path: Path) -> None:
    package(tmp_path, "other_network", NETWORK, "weft.networks", "pair")
    package(tmp_path, "other_workload", WORKLOAD, "weft.workloads", "there")
    words = ("--world", "simulated", "--topology", "pair", "--out", "out")
    assert "1 flows by given" in weft(tmp_path, "run", "flows", *words, "--workload", "there")
    (run,) = json.loads((tmp_path / "out" / "results.json").read_text())["runs"]
    assert [each["tx_bytes"] > 5000 for each in run["links"]] == [True, False, False, True]
    assert "pair (two hosts)" in " ".join(weft(tmp_path, "run", "--help").split())
    assert "there (one flow)" in " ".join(weft(tmp_path, "run", "flows", "--help").split())
    assert "pair" in completed(tmp_path, "allgather", "--topology", "p")
    assert "pair: 2 hosts" in weft(tmp_path, "topology", "--topology", "pair")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("return pair.topology()", "return 1 / 0", "'pair' of another package"),
        ("return pair.topology()", "return None", "is no network that weft.Network"),
        ('name = "pair"', 'name = "single"', "there is a 'single' already"),
        ("return builder.build()", "return []", "is no FlowGraph between 2 ranks"),
        ("return builder.build()", "return 1 / 0", "'there' of another package"),
    ],
)
def test_a_network_or_a_workload_that_fails_is_named(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    package(tmp_path, "other_network", NETWORK.replace(old, new), "weft.networks", "pair")
    package(tmp_path, "other_workload", WORKLOAD.replace(old, new), "weft.workloads", "there")
    words = ("--world", "simulated", "--topology", "pair", "--workload", "there")
    answer = subprocess.run(
        [sys.executable, "-m", "weft", "run", "flows", *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(tmp_path)])},
        cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert answer.returncode != 0
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.system(alone=False)
def test_an_emulated_run_starts_whatever_other_algorithms_there_are(tmp_path: Path) -> None:
    """And those that are asked for are warmed up as far as they can be."""
    picky = ALGORITHM.replace("float64", "float32")
    package(tmp_path, "picky", picky, "weft.algorithms", "algorithm")
    package(tmp_path, "nonsense", NONSENSE, "weft.algorithms", "algorithm")
    small = ["--topology", "single", "--hosts-per-leaf", "2", "--size", "16KiB"]
    words = ["--rate", "20Mbit", "--no-predict", "--out", "out", "--json"]
    algorithms = ["--algorithm", "ring", "--algorithm", "backwards-ring"]
    document = json.loads(weft(tmp_path, "run", "allgather", *small, *words, *algorithms))
    assert [run["verified"] for run in document["runs"]] == [True, True]


ROW = """
    courage: int = option(
        7, WHOLE, "How brave multicast is.",
        group=OPERATION, metavar="N", between=(1, 9), network=True,
        used=lambda asked: asked.multicasting, who="it is for the algorithms that multicast",
    )
"""


def test_an_option_is_one_row(tmp_path: Path) -> None:
    """In a copy of Weft with one row more."""
    source = copy_of_weft(tmp_path, "experiments/scenario")
    (source / "experiments" / "scenario" / "asked.py").unlink()
    text = (ROOT / "experiments" / "scenario" / "asked.py").read_text()
    place = text.index("    jobs: int = option(")
    (source / "experiments" / "scenario" / "asked.py").write_text(text[:place] + ROW + text[place:])

    def brave(*words: str, status: int = 0) -> str:
        return weft(tmp_path, *words, status=status, source=tmp_path / "src")

    assert re.search(r"--courage N +How brave multicast is. \[7\]", brave("run", "--help"))
    assert "--courage" in brave("run", "broadcast", "--help")
    assert "--courage" not in brave("run", "allreduce", "--help")
    said = brave("run", "allgather", "--courage", "10", status=2)
    assert "courage 10 is out of range: a whole number from 1 to 9" in said
    said = brave("run", "allgather", "--algorithm", "ring", "--courage", "3", status=2)
    assert "courage 3 means nothing for allgather by ring: it is for the algorithm" in said
    said = brave("run", "allgather", "--courage", "much", status=2)
    assert "courage 'much' is not a whole number" in said
    (tmp_path / "it.toml").write_text('collective = "allgather"\nworld = "simulated"\ncourge = 2\n')
    assert "Did you mean 'courage'?" in brave("run", "it.toml", status=2)
    code = (
        "from weft import Scenario\n"
        "from weft.tools.figures.reference import reference\n"
        "from weft.experiments.report.scenarios import command_line\n"
        "from weft.experiments.runs.shared import network_key\n"
        "one, other = Scenario(), Scenario(courage=3)\n"
        "assert network_key(one) != network_key(other)\n"
        "print(command_line(other)); print(reference()); print(other.to_dict()['courage'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "weft run allgather --courage 3" in done.stdout
    assert (
        "| `courage` | a whole number from 1 to 9 | How brave multicast is. [7] | " in done.stdout
    )


FAMILY = '''
"""A token that goes around all ranks, some times."""

from dataclasses import dataclass
from typing import ClassVar

from weft.agents.collectives.flow_graph import RECEIVED
from weft.agents.collectives.graph_builder import GraphBuilder
from weft.base.errors import refuse
from weft.experiments.families.graphs import FlowFamily
from weft.experiments.scenario.family import with_own
from weft.experiments.scenario.part import Part
from weft.base.option import SIZE, WHOLE, WORKLOAD, option, own_of


@dataclass(frozen=True)
class TokenAsked:
    rounds: int = option(2, WHOLE, "How often a token goes around.", group=WORKLOAD, between=(1, 9))
    token_bytes: int = option(
        5000, SIZE, "Bytes of the token.", group=WORKLOAD, name="token", between=(1, 1 << 20)
    )


class Turns(Part, frozen=True):
    key: ClassVar = "turns"
    table: ClassVar = "turns"
    columns: ClassVar = ("turn", "end_ns")

    end_ns: list[int]

    @classmethod
    def remark(cls, algorithm, runs):
        return f"{algorithm}: {len(runs[0].part(cls).end_ns)} turns"


class Token(FlowFamily):
    name = "token"
    options = TokenAsked
    adds = (*FlowFamily.adds, Turns)

    def algorithms(self):
        return {"token": ("upwards", "downwards")}

    def result(self, scenario, algorithm, reports):
        (flows,) = super().result(scenario, algorithm, reports)
        yield from (flows, Turns(flows.received_ns[scenario.ranks - 1 :: scenario.ranks]))

    def metrics(self):
        from weft.experiments.results.metric import TIME, Metric

        return (
            Metric(
                name="turn", about="when the token was back for the first time", unit=TIME,
                run=lambda run: run.turns.end_ns[0] if run.turns else None,
                when=lambda each: each.shown.turns, column="turn_ns", heading="a turn",
                label="a turn", title="Turns of a token", axis="turn ({unit})",
            ),
        )

    def chart(self, run):
        from weft.experiments.plots.gantt import Chart
        from weft.experiments.plots.trace import complete

        ends_ns, flows = run.turns.end_ns, run.part(FlowFamily.adds[0])
        turns = [*zip([flows.begun_ns[0], *ends_ns], ends_ns)]

        def draw(axes, unit_ns):
            for number, (begin_ns, end_ns) in enumerate(turns):
                width = (end_ns - begin_ns) / unit_ns
                axes.barh(number, width, 0.8, begin_ns / unit_ns, color="#112233")

        def events(process):
            for number, (begin_ns, end_ns) in enumerate(turns):
                yield complete(f"turn {number}", "turn", process, 0, begin_ns, end_ns)

        return Chart(
            "How a token went around", "Turns of a token", ends_ns[-1], 1.5, {"turns": "#112233"},
            draw, events,
        )

    def title(self, collective):
        return "Token ring"

    def colours(self):
        return {"upwards": ("#112233", "#445566")}

    def resolve(self, asked, ranks):
        own = own_of(asked, TokenAsked)
        refuse(own.rounds == 7, "rounds 7: a token does not like that number; choose another one")
        return with_own(asked, own, size_bytes=own.token_bytes, dtype="uint8")

    def graph(self, asked, algorithm, ranks):
        own, builder, came = own_of(asked, TokenAsked), GraphBuilder(), ()
        step = 1 if algorithm == "upwards" else -1
        for number in range(own.rounds * ranks):
            source = step * number % ranks
            flow = builder.flow(source, (source + step) % ranks, own.token_bytes, after=came)
            came = ((flow, RECEIVED),)
        return builder.build()


TOKEN = Token()
FAMILY = TOKEN
'''


def check_token(folder: Path, source: Path = ROOT / "src") -> None:
    """What a kind of work adds is there: in help, in completion, in checks, in runs, in theory."""
    helped = " ".join(weft(folder, "run", "token", "--help", source=source).split())
    assert "--rounds N How often a token goes around. [2]" in helped
    assert "May be repeated: upwards, downwards. [the first two]" in helped
    assert "--operations" not in helped and "--jobs" not in helped
    assert "--rounds" not in weft(folder, "run", "allgather", "--help", source=source)
    words = ["--world", "simulated", "--topology", "single", "--out", "out"]
    said = weft(folder, "run", "allgather", "--rounds", "3", *words, status=2, source=source)
    assert "rounds 3 means nothing for allgather" in said and "it is for token" in said
    said = weft(folder, "run", "token", "--rounds", "7", *words, status=2, source=source)
    assert "a token does not like that number" in said
    said = weft(folder, "run", "token", "--jobs", "2", *words, status=2, source=source)
    assert "a workload has the network to itself" in said
    shown = weft(folder, "run", "token", "--token", "8KiB", *words, source=source)
    assert "Token ring of 8 KiB" in shown and "16 flows by upwards" in shown
    document = json.loads((folder / "out" / "results.json").read_text())
    assert (document["runs"][0]["scenario"]["rounds"], len(document["runs"])) == (2, 2)
    for run in document["runs"]:
        assert run["verified"] and run["completion_ns"] > run["bound_ns"]
        assert run["bound_ns"] >= 16 * 8192 * 8 * 10
        assert len(run["flows"]["source"]) == 16
    report = (folder / "out" / "report.html").read_text()
    assert "weft run token" in report and "--token 8KiB" in report
    check_turns(folder, source, shown, document, report)


def check_turns(
    folder: Path, source: Path, shown: str, document: dict[str, Any], report: str
) -> None:
    """What it adds to a result has a place in the document, a line and a column on the terminal and
    in the report, a table and a chart; other kinds of work have none of it."""
    ends = [run["turns"]["end_ns"] for run in document["runs"]]
    assert [sorted(each) for each in ends] == ends and {*map(len, ends)} == {2}
    assert "upwards: 2 turns" in shown and "a turn" in shown
    assert '<th class="n">a turn</th>' in report and "How a token went around" in report
    pictures = json.loads((folder / "out" / "gantt.trace.json").read_text())["traceEvents"]
    assert [each["name"] for each in pictures].count("turn 1") == 2
    assert (folder / "out" / "gantt.svg").exists() and (folder / "out" / "gantt.png").exists()

    def exported(*more: str) -> list[dict[str, str]]:
        return list(csv.DictReader(weft(folder, "export", *more, source=source).splitlines()))

    assert [int(row["turn_ns"]) for row in exported("out")] == [first for first, _ in ends]
    rows = exported("out", "--table", "turns")
    assert [(row["turn"], int(row["end_ns"])) for row in rows] == [
        (str(number), end) for each in ends for number, end in enumerate(each)
    ]
    said = weft(folder, "export", "--help", source=source)
    assert "weights or turns" in " ".join(said.split())
    (folder / "plotted.toml").write_text(
        'collective = "token"\nworld = "simulated"\ntopology = "single"\n[sweep]\n'
        'token = ["4KiB", "8KiB"]\n[plot]\nx = "token"\ny = "turn"\n'
    )
    weft(folder, "run", "plotted.toml", "--out", "plotted", source=source)
    assert (folder / "plotted" / "turn-token.svg").exists()
    assert "Turns of a token" in (folder / "plotted" / "report.html").read_text()
    plain = ["allgather", "--world", "simulated", "--topology", "single", "--out", "plain"]
    assert "a turn" not in weft(folder, "run", *plain, source=source)
    other = json.loads((folder / "plain" / "results.json").read_text())["runs"][0]
    assert "turns" not in other and other["flows"] is None
    assert exported("plain", "--table", "turns") == []


def test_a_kind_of_work_is_one_folder_of_wefts_own(tmp_path: Path) -> None:
    source = copy_of_weft(tmp_path, "experiments/families")
    (folder := source / "experiments" / "families" / "token").mkdir()
    (folder / "__init__.py").touch()
    (folder / "family.py").write_text(FAMILY)
    check_token(tmp_path, tmp_path / "src")


def test_a_kind_of_work_is_one_file_of_another_package(tmp_path: Path) -> None:
    package(tmp_path, "token_ring", FAMILY, "weft.families", "token")
    check_token(tmp_path)
    assert "token" in completed(tmp_path, "to")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("class Token(FlowFamily):", "class Token:", "Family"),
        (
            'name = "token"\n    options',
            'name = "flows"\n    options',
            "there is a 'flows' already",
        ),
        ('"token": (', '"allgather": (', "'allgather'"),
    ],
)
def test_a_kind_of_work_that_cannot_be_used_is_left_out_and_said(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert old in FAMILY
    package(tmp_path, "token_ring", FAMILY.replace(old, new), "weft.families", "token")
    helped = python(
        tmp_path,
        "import contextlib, io\n"
        "with contextlib.redirect_stderr(io.StringIO()) as told:\n"
        "    from weft.experiments.scenario.families import choices\n"
        "    print(*choices())\n"
        "print(told.getvalue())\n",
    )
    assert "token" not in helped.splitlines()[0] and said in helped


STRATEGY = """
from weft.agents.collectives.flow_graph import DONE, RECEIVED
from weft.experiments.families.resharding.strategy import Delivery, Strategy


class OneByOne(Strategy):
    name = "one-by-one"
    about = "one host after the other"

    def sent_bytes(self, size_bytes, needs):
        return size_bytes * len(needs)

    def add(self, flows, transfer):
        copies, free, received, after = {}, [], {}, transfer.after
        for need in transfer.needs:
            target = flows.room(need.host, transfer.size_bytes)
            flow = flows.flow(transfer, need.host, target, 0, transfer.size_bytes, after)
            copies[need.host] = (target,)
            after = ((flow, DONE),)
            free += after
            received[need.host] = ((flow, RECEIVED),)
        return Delivery(copies, tuple(free), received, received)


STRATEGY = OneByOne()
"""


def test_a_resharding_strategy_is_one_file_of_another_package(tmp_path: Path) -> None:
    package(tmp_path, "one_by_one", STRATEGY, "weft.resharding_strategies", "strategy")
    assert "one-by-one (one host after the other)" in " ".join(
        weft(tmp_path, "run", "reshard", "--help").split()
    )
    words = ["reshard", "--world", "simulated", "--one-to-many", "3x2", "--shape", "9000"]
    words += ["--strategy", "one-by-one", "--strategy", "broadcast", "--out", "out", "--json"]
    document = json.loads(weft(tmp_path, "run", *words))
    mine, chain = document["runs"]
    assert mine["verified"] and mine["algorithm"] == "one-by-one"
    assert mine["completion_ns"] > 2 * chain["completion_ns"]


ENGINE = '''
"""A thread: points run where they are asked for, by an Executor of the library's."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from weft.base.errors import InputError
from weft.experiments.engines.engine import Engine, Workers


class Thread(Engine):
    name = "thread"
    forms = ("thread:here",)

    def check(self, where):
        if where != ":here":
            raise InputError(f"--on thread{where}: say thread:here")

    def is_here(self, where):
        return True

    @contextmanager
    def open(self, where, need):
        with ThreadPoolExecutor(1) as executor:
            print(f"a thread for {need.points} points")
            yield Workers(executor, lambda: 1)


ENGINE = Thread()
'''


def test_an_engine_is_one_file_of_another_package(tmp_path: Path) -> None:
    package(tmp_path, "thread_engine", ENGINE, "weft.engines", "engine")
    asked = ["run", "allgather", "--world", "simulated", "--topology", "single", "--size", "1KiB",
             "--seeds", "1..3", "--algorithm", "ring", "--out", "out"]  # fmt: skip
    assert "a thread for 3 points" in weft(tmp_path, *asked, "--on", "thread:here")
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [run["scenario"]["seed"] for run in results["runs"]] == [1, 2, 3]
    assert results["verified"]
    assert "say thread:here" in weft(tmp_path, *asked, "--on", "thread:there", status=2)
    assert "ray://HOST:PORT, thread:here" in weft(tmp_path, *asked, "--on", "no", status=2)


CONTROL = '''
"""A window that stays as it begins, but for losses, after which it is one packet for a while."""

from weft.agents.transport.congestion.control import CongestionControl
from weft.agents.wire.compiled import internal
from weft.base.option import TRANSPORT, WHOLE, option

from dataclasses import dataclass


@dataclass(frozen=True)
class Own:
    calm_packets: int = option(
        8, WHOLE, "Packets that a calm sender has under way.", group=TRANSPORT, name="calm",
        between=(1, 64), counted="packets",
    )


@internal
def in_packets(packets):
    return 256 * packets


class Calm(CongestionControl):
    name = "calm"
    about = "nothing"
    options = Own

    def first_window(self, endpoint, pair):
        return 256 * endpoint.control_options[0]

    @staticmethod
    def after_acknowledgement(endpoint, pair, packets, now):
        return in_packets(endpoint.control_options[0])

    @staticmethod
    def after_loss(endpoint, pair):
        return in_packets(1)


CONTROL = Calm()
'''

ENDPOINT = """
from weft.agents.transport import Endpoint, TransportOptions

options = TransportOptions(congestion="calm", congestion_options=(("calm_packets", 5),))
endpoint = Endpoint(1, options=options)
endpoint.create_rc()
print(endpoint.row_of(0).window)
"""


@pytest.mark.system(alone=False)
def test_a_congestion_control_is_one_file_of_another_package(tmp_path: Path) -> None:
    package(tmp_path, "calm", CONTROL, "weft.congestion_controls", "control")
    helped = " ".join(weft(tmp_path, "run", "allgather", "--help").split())
    assert "to losses (window), to marks (dctcp) or to nothing (calm)." in helped
    assert "--calm N Packets that a calm sender has under way. [8]" in helped
    assert completed(tmp_path, "allgather", "--congestion", "c") == ["calm"]
    assert python(tmp_path, ENDPOINT).split() == [str(5 * 256)]

    words = ["run", "many-to-one", "--topology", "single", "--hosts-per-leaf", "2", "--out", "out"]
    far = [*words, "--world", "simulated", "--delay", "1ms", "--rate", "1Gbit", "--json"]
    calm = [*far, "--congestion", "calm"]
    one, four, most = (
        json.loads(weft(tmp_path, *calm, "--calm", packets))["runs"][0]
        for packets in ("1", "4", "64")
    )
    # 256 packets, whose round trips are 4 ms and little more.
    assert one["verified"] and 256 * 4e6 < one["completion_ns"] < 265 * 4e6
    assert four["verified"] and 3.9 < one["completion_ns"] / four["completion_ns"] < 4.1
    assert 4 * 4e6 < most["completion_ns"] < 6 * 4e6
    assert most["scenario"]["calm_packets"] == 64
    assert "--calm 64" in (tmp_path / "out" / "report.html").read_text()
    # Once a packet is lost there is one under way until the next acknowledgement.
    lossy = [*calm, "--calm", "4", "--loss", "0.02"]
    (lost,) = json.loads(weft(tmp_path, *lossy))["runs"]
    assert lost["verified"] and lost["completion_ns"] > four["completion_ns"]
    (usual,) = json.loads(weft(tmp_path, *far))["runs"]
    assert usual["scenario"]["congestion"] == "dctcp"
    emulated = [*words, "--size", "16KiB", "--congestion", "calm", "--no-predict", "--json"]
    assert json.loads(weft(tmp_path, *emulated))["runs"][0]["verified"]

    refused = weft(tmp_path, *calm, "--calm", "65", status=2)
    assert "calm 65 is out of range: a whole number from 1 to 64" in refused
    refused = weft(tmp_path, *far, "--calm", "4", status=2)
    assert "calm 4 means nothing for many-to-one by direct: it is for calm;" in refused
    refused = weft(tmp_path, *calm, "--paths", "reps", status=2)
    assert "congestion 'calm': reps goes by congestion marks" in refused


def test_a_congestion_control_that_cannot_be_compiled_is_named(tmp_path: Path) -> None:
    wrong = CONTROL.replace("return in_packets(1)", "return pair.nonsense")
    package(tmp_path, "calm", wrong, "weft.congestion_controls", "control")
    words = ["run", "many-to-one", "--topology", "single", "--world", "simulated"]
    assert "Traceback" not in weft(tmp_path, *words, "--congestion", "calm", status=1)
    said = json.loads(next((tmp_path / "results").rglob("results.json")).read_text())
    assert said["runs"][0]["error"].startswith(
        "'calm' of another package (calm.Calm): compiling after_loss failed"
    )


WORLD = '''
"""Worlds that write down what they are asked, and let the simulated one answer."""

from weft.topo.worlds.kind import WorldKind
from weft.topo.worlds.processors import read_cpu_times
from weft.topo.worlds.simulated.kind import WORLD as SIMULATED
from weft.topo.worlds.world import World


class Told(World):
    def __init__(self, name, network):
        self.name, self._network = name, network
        self.topology, self.frames = network.topology, network.frames

    def _ask(self, what, *arguments):
        with open("asked.txt", "a") as asked:
            print(self.name, what, file=asked)
        return getattr(self._network, what)(*arguments)

    def __enter__(self):
        self._ask("__enter__")
        return self

    def close(self):
        self._ask("close")

    @property
    def switch_addresses(self):
        return self._network.switch_addresses

    def gathered(self, order, advance):
        return self._ask("gathered", order, advance)

    def switch_statistics(self):
        return self._ask("switch_statistics")

    def host_queue_drops(self):
        return self._ask("host_queue_drops")

    def fault_losses(self):
        return self._ask("fault_losses")


class Timed(Told):
    def evidence(self):
        return read_cpu_times(), read_cpu_times()


class Toy(WorldKind):
    name = "toy"
    of = Told

    def network(self, topology, options):
        options.meanwhile()
        return self.of(self.name, SIMULATED.network(topology, options))


class Machines(Toy):
    name = "toy-machines"
    of = Timed
    has_real_time = True
    takes_machine = True


TOY = Toy()
MACHINES = Machines()
'''

ASKED = """
__enter__
gathered
switch_statistics host_queue_drops fault_losses
switch_statistics host_queue_drops fault_losses
close
"""


def test_a_world_is_one_file_of_another_package(tmp_path: Path) -> None:
    package(tmp_path, "toy", WORLD, "weft.worlds", "toy", "machines")
    assert "emulated, simulated, toy or toy-machines." in " ".join(
        weft(tmp_path, "run", "allgather", "--help").split()
    )
    small = ["allgather", "--size", "64KiB", "--rate", "1Gbit", "--out", "out", "--json"]
    small += ["--algorithm", "ring"]
    runs = {}
    for world in ("simulated", "toy", "toy-machines"):
        (runs[world],) = json.loads(weft(tmp_path, "run", *small, "--world", world))["runs"]
        assert runs[world]["verified"] and runs[world]["scenario"]["world"] == world
        asked = (tmp_path / "asked.txt").read_text().splitlines() if world != "simulated" else []
        told = [line.removeprefix(f"{world} ") for line in asked if line.startswith(f"{world} ")]
        assert told == (ASKED.split() if asked else [])
    times = {world: run["completion_ns"] for world, run in runs.items()}
    assert times["toy"] == times["simulated"]  # virtual time: nothing is predicted, and all is ok
    assert runs["toy"]["predicted_ns"] is None
    assert runs["toy"]["fidelity"]["reasons"] == runs["simulated"]["fidelity"]["reasons"]
    assert runs["toy-machines"]["predicted_ns"] == times["toy-machines"]
    assert "switches" in runs["toy-machines"]["fidelity"]["cpu_s"]
    assert "toy-machines" in (tmp_path / "out" / "report.html").read_text()
    up = "import weft\nwith weft.up(weft.single(2), world='toy') as net:\n    print(net.world, "
    up += "net.allgather(size='4KiB').verified)\n"
    assert python(tmp_path, up) == "toy True\n"
