"""Path schemes and workloads of flows over real packets: one network that all tests share."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from tests.support import fabric
from tests.support.system_support import left_as_it_was
from tests.support.workloads_support import encode

from weft.base.progress import Progress
from weft.controller.clos_paths import ClosPaths
from weft.experiments.families.flows.formats.chakra_schema import COLLECTIVE, COMP, MESSAGES
from weft.experiments.results.results import Run
from weft.experiments.runs.inputs import program_of
from weft.experiments.runs.operate import operate
from weft.experiments.runs.testbed import Testbed, make_testbed
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.lanes import assignment_of
from weft.experiments.theory.static_paths import Situation, analyse
from weft.experiments.theory.static_workloads import static_steps
from weft.switch.compiler import ProgramFiles
from weft.switch.messages import p4info_pb2, p4runtime_pb2
from weft.topo.faults import Fault
from weft.topo.worlds.emulated.runs import RunRecord
from weft.topo.worlds.emulated.world import EmulatedWorld

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]

SIZE = 4 * 96 * 4096
"""Of All-to-all: every rank has 96 packets for every other, which three paths share evenly."""
FRAME_BYTES = 4096 + 70
SCHEMES = (
    "ecmp-4", "spray", "spray-round-robin", "reps", "plb", "ethereal", "ethereal-ports",
)  # fmt: skip
DEAD = ("leaf0>spine1", "spine1>leaf0")


def scenario_of(collective: str = "alltoall", **options: Any) -> Scenario:
    """On 2 leaves of 2 hosts each: both flows of a host to the other leaf are cut in three."""
    if collective != "flows":
        options = {"size_bytes": SIZE, **options}
    return Scenario(
        collective, leaves=2, spines=3, hosts_per_leaf=2, rate_bps=50_000_000, predict=False,
        timeout_s=60, **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def program() -> ProgramFiles:
    return program_of(scenario_of())


@pytest.fixture(scope="module")
def testbed(program: ProgramFiles) -> Iterator[Testbed]:
    scenario = scenario_of()
    with left_as_it_was(), contextlib.ExitStack() as stack:
        record = RunRecord.create()
        stack.callback(record.remove)
        world = EmulatedWorld(
            scenario.network(), run=record, path_mtu=scenario.mtu, seed=scenario.seed
        )
        found = make_testbed(world, scenario, program, Progress.silent())
        yield stack.enter_context(found)


_repetitions = itertools.count()


def run(testbed: Testbed, scenario: Scenario) -> Run:
    """One operation of a scenario, verified."""
    testbed.scenario = scenario
    done = operate(testbed, scenario.algorithms[0], next(_repetitions), lambda _: None)
    assert done.verified, done.error
    assert all(rank.verified for rank in done.ranks)
    return done


def repeated_bytes(done: Run) -> int:
    """The most that a link carried twice: a machine that stops for a while makes timers expire."""
    return done.retransmitted_packets * 2 * FRAME_BYTES


@pytest.mark.parametrize("paths", SCHEMES)
def test_every_schemes_data_arrives(paths: str, testbed: Testbed) -> None:
    done = run(testbed, scenario_of(paths=paths))
    loads = [link.tx_bytes for link in done.links if link.tier == "fabric_up"]
    assert sum(loads) >= 2 * 2 * 2 * SIZE // 4
    if "spray" in paths:  # every link has a part, however the packets fall
        assert min(loads) > 0


@pytest.mark.parametrize(
    ("collective", "algorithm"), [("many-to-one", "direct"), ("allreduce", "direct")]
)
def test_other_direct_exchanges_are_assigned_paths_too(
    collective: str, algorithm: str, testbed: Testbed
) -> None:
    run(testbed, scenario_of(collective, algorithms=(algorithm,), paths="ethereal"))


def test_switches_hold_the_pins_that_were_computed_and_links_carry_what_they_say(
    testbed: Testbed, program: ProgramFiles
) -> None:
    scenario = scenario_of(paths="ethereal")
    done = run(testbed, scenario)
    network = testbed.world.topology
    expected: dict[str, dict[tuple[int, int, int], int]] = {}
    for pin in assignment_of(scenario, "direct").pins:
        one, other = network.host(pin.source), network.host(pin.destination)
        up = network.direction(one.leaf, f"spine{pin.path}").source.number
        expected.setdefault(one.leaf, {})[one.address, other.address, pin.source_port] = up
    assert sum(map(len, expected.values())) == 4 * 2 * 3
    for leaf in ("leaf0", "leaf1"):
        assert pins_of(testbed, program, leaf) == expected[leaf]
    assert not pins_of(testbed, program, "spine0")
    paths = ClosPaths.of(network)
    situation = Situation(paths, np.arange(4), np.full(paths.directions, 5e7), scenario.seed)
    steps = static_steps("alltoall", "direct", 4, SIZE)
    assigned, hashed = (
        analyse(situation, steps, scheme).loads.by_direction() for scheme in ("ethereal", "ecmp")
    )
    assert assigned.tolist() != hashed.tolist()
    links = {f"{link.from_node}>{link.to_node}": link for link in done.links}
    for direction, load in zip(network.directions, assigned.tolist(), strict=True):
        sent = links[direction.name].tx_bytes
        # Headers, what acknowledges as much the other way, and words of control.
        assert load < sent < 1.08 * load + repeated_bytes(done), direction.name


def pins_of(
    testbed: Testbed, program: ProgramFiles, switch: str
) -> dict[tuple[int, int, int], int]:
    """What a switch says that it has pinned: the port by source, destination and source port."""
    info = text_format.Parse(program.p4info.read_text(), p4info_pb2.P4Info())
    query = p4runtime_pb2.Entity()
    (query.table_entry.table_id,) = (
        table.preamble.id
        for table in info.tables
        if table.preamble.name == fabric.name("pinned_path")
    )
    found = {}
    for entity in testbed.controller.session(switch).read([query]):
        match = {field.field_id: field.exact.value for field in entity.table_entry.match}
        source, destination, port = (int.from_bytes(match[place], "big") for place in (1, 2, 3))
        (up,) = (p.value for p in entity.table_entry.action.action.params if p.param_id == 1)
        found[source, destination, port] = int.from_bytes(up, "big")
    return found


def test_a_failed_link_that_is_known_late_ends_nothing_and_carries_nothing_then(
    testbed: Testbed,
) -> None:
    fault = Fault.parse("leaf0-spine1:fail,at=20ms")
    late = run(
        testbed,
        scenario_of(
            paths="ethereal", faults=(fault,), notice="late", notice_after_ns=20_000_000,
            size_bytes=4 * SIZE,
        ),
    )  # fmt: skip
    links = {f"{link.from_node}>{link.to_node}": link for link in late.links}
    assert sum(links[name].lost for name in DEAD) > 0
    for name in DEAD:
        bins = links[name].load_bytes
        assert sum(bins[-len(bins) // 4 :]) == 0, bins
        assert links[name].tx_bytes < links[name.replace("spine1", "spine0")].tx_bytes
    fault = Fault.parse("leaf0-spine1:fail,at=0ms")
    known = run(testbed, scenario_of(paths="ethereal", faults=(fault,), notice="at-once"))
    links = {f"{link.from_node}>{link.to_node}": link for link in known.links}
    assert [links[name].tx_packets for name in DEAD] == [0, 0]


CONNECTIONS = """Nodes 4
Connections 3
Triggers 1
0->2 id 1 start 0 size 200000 recv_done_trigger 1
1->3 id 2 start 1e9 size 100000 send_done_trigger 1
2->0 id 3 trigger 1 size 50000
trigger id 1 barrier count 2
"""


def test_files_and_models_are_run(testbed: Testbed, tmp_path: Path) -> None:
    matrix = tmp_path / "flows.cm"
    matrix.write_text(CONNECTIONS)
    for rank in range(4):
        wait = MESSAGES["Node"](id=1, name="wait", type=COMP, duration_micros=rank)
        node = MESSAGES["Node"](id=2, name="sum", type=COLLECTIVE, data_deps=[1])
        for name, value in (("comm_type", 0), ("comm_size", 60_000)):
            node.attr.add(name=name, int64_val=value)
        data = encode(MESSAGES["GlobalMetadata"](version="0.0.4"), wait, node)
        (tmp_path / f"trace.{rank}.et").write_bytes(data)
    sent = []
    workloads: dict[str, dict[str, int]] = {
        str(matrix): {}, str(tmp_path / "trace.0.et"): {}, "gpt-small": {"layers": 1},
    }  # fmt: skip
    for workload, more in workloads.items():
        done = run(testbed, scenario_of("flows", workload=workload, paths="ethereal", **more))
        assert done.flows is not None
        times = done.flows.completions_ns()
        assert min(times) > 0
        sent.append(len(times))
    assert sent[:2] == [3, 2 * 3 * 4]
