"""Chakra's execution traces: what they become, and what is said of bad ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.workloads_support import encode, node, trace

from weft import run
from weft.agents.collectives.flow_graph import FlowGraph
from weft.base.errors import InputError
from weft.experiments.families.flows.file_format import FileFlows, FileReading
from weft.experiments.families.flows.formats.chakra import FORMAT, parse_traces
from weft.experiments.families.flows.formats.chakra_schema import COLLECTIVE, COMP, RECV, SEND
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.flow_steps import steps_of


def parse(*traces: bytes, algorithm: str = "ring") -> FlowGraph:
    return parsed(*traces, algorithm=algorithm).graph


def parsed(*traces: bytes, algorithm: str = "ring") -> FileFlows:
    return parse_traces([(f"t.{rank}.et", data) for rank, data in enumerate(traces)], algorithm)


PIPELINE = (
    trace(
        node(1, COMP, micros=5),
        node(2, SEND, [1], comm_src=0, comm_dst=1, comm_size=1000, comm_tag=3),
    ),
    trace(
        node(7, RECV, comm_src=0, comm_dst=1, comm_size=1000, comm_tag=3),
        node(8, COMP, [7], micros=2),
        node(9, SEND, [8], comm_src=1, comm_dst=0, comm_size=500, comm_tag=4),
    ),
)
BACK = node(3, RECV, comm_src=1, comm_dst=0, comm_size=500, comm_tag=4)


def test_a_message_waits_for_computation_and_computation_for_what_comes() -> None:
    first = PIPELINE[0] + encode(BACK)
    graph = parse(first, PIPELINE[1])
    flows = graph.flows.tolist()
    assert [(graph.source[f], graph.destination[f], graph.size_bytes[f]) for f in flows] == [
        (0, 1, 1000), (1, 0, 500),
    ]  # fmt: skip
    # 5 us, 1000 bytes at 8 Gbit/s, 2 us, 500 bytes.
    assert graph.span_ns(8_000_000_000) == 5000 + 1000 + 2000 + 500


def ring(steps: int, ranks: int = 8, size_bytes: int = 1000, **more: Any) -> list[bytes]:
    """Every rank sends to the next, and receives after its own send: step after step."""
    found = []
    for rank in range(ranks):
        nodes = []
        for step in range(steps):
            after = [2 * step - 1] if step else []
            ends: dict[str, Any] = {"comm_size": size_bytes, "comm_tag": step}
            nodes += [
                node(2 * step, SEND, after, comm_src=rank, comm_dst=(rank + 1) % ranks, **ends),
                node(
                    2 * step + 1, RECV, [2 * step], comm_src=(rank - 1) % ranks, comm_dst=rank,
                    **ends, **more,
                ),
            ]  # fmt: skip
        found.append(trace(*nodes))
    return found


@pytest.mark.parametrize("steps", [1, 3])
def test_a_ring_in_which_every_rank_receives_after_it_has_sent_goes_on(steps: int) -> None:
    graph = parse(*ring(steps))
    assert len(graph.flows) == 8 * steps
    # 1000 bytes at 8 Gbit/s a step: all ranks send at a time.
    assert graph.span_ns(8_000_000_000) == 1000 * steps


def test_a_ring_of_traces_runs_and_is_verified(tmp_path: Path) -> None:
    for rank, data in enumerate(ring(2, control=[77])):
        (tmp_path / f"t.{rank}.et").write_bytes(data)
    results = run(
        Scenario(collective="flows", world="simulated", workload=str(tmp_path / "t.0.et"))
    )
    assert results.verified
    (note,) = [each for each in results.notes if "not there" in each]
    assert note.startswith(f"{tmp_path}/t.0.et: node 1 'n1': its control dependency on node 77")
    assert note.endswith("is left out, as are 15 more of these traces")


def test_what_depends_on_a_send_does_not_wait_until_the_message_has_come() -> None:
    sends = node(1, SEND, comm_src=0, comm_dst=1, comm_size=1000, comm_tag=0)
    graph = parse(trace(sends, node(2, COMP, [1], micros=5)), GOT)
    # Both begin at the start: 5 us of computation, 1 us of sending.
    assert graph.span_ns(8_000_000_000) == 5000
    later = parse(trace(node(3, COMP, micros=2), sends, node(2, COMP, [1, 3], micros=5)), GOT)
    assert later.span_ns(8_000_000_000) == 7000


def test_a_message_that_comes_early_waits_for_its_receive() -> None:
    graph = parse(
        send(),
        trace(
            node(1, COMP, micros=9),
            node(2, RECV, [1], comm_src=0, comm_dst=1, comm_size=10, comm_tag=0),
            node(3, COMP, [2], micros=1),
        ),
    )
    assert graph.span_ns(8_000_000_000) == 10_000


def test_a_control_dependency_on_a_node_that_is_not_there_is_left_out_and_told() -> None:
    whole = parsed(trace(node(1, COMP, micros=5), node(2, SEND, [1], **TO_1)), GOT)
    lost = parsed(trace(node(1, COMP, micros=5), node(2, SEND, [1], control=[9, 4], **TO_1)), GOT)
    assert lost.graph == whole.graph
    assert whole.notes == ()
    assert lost.notes == (
        "t.0.et: node 2 'n2': its control dependency on node 9, which is not there, is left out, "
        "as are 1 more of these traces",
    )
    kept = parse(trace(node(1, COMP, micros=5), node(2, SEND, control=[1, 9], **TO_1)), GOT)
    assert kept == whole.graph


TO_1: dict[str, Any] = {"comm_src": 0, "comm_dst": 1, "comm_size": 10, "comm_tag": 0}


@pytest.mark.parametrize(
    ("kind", "collective", "size_bytes"),
    [(0, "allreduce", 4000), (2, "allgather", 4000), (7, "reduce-scatter", 1000)],
)
def test_a_collective_is_the_flows_of_its_algorithm(
    kind: int, collective: str, size_bytes: int
) -> None:
    data = [trace(node(rank, COLLECTIVE, comm_type=kind, comm_size=4000)) for rank in range(4)]
    graph = parse(*data)
    found = Counter(
        (graph.source[flow], graph.destination[flow], graph.size_bytes[flow])
        for flow in graph.flows.tolist()
    )
    expected: Counter[tuple[int, int, int]] = Counter()
    for step in steps_of(collective, "ring", 4, size_bytes):
        columns = (step.source.tolist(), step.destination.tolist(), step.size_bytes.tolist())
        expected.update(zip(*columns, strict=True))
    assert found == expected


def test_every_kind_of_collective_is_carried_out() -> None:
    for kind in (0, 2, 5, 6, 7, 8, 9):
        for algorithm in ("ring", "direct", "halving-doubling", "double-binary-tree"):
            part = trace(node(1, COLLECTIVE, comm_type=kind, comm_size=900))
            assert len(parse(part, part, part, algorithm=algorithm).flows)


def test_collectives_of_a_process_group_are_of_its_ranks_alone() -> None:
    def part(group: str) -> bytes:
        return trace(node(1, COLLECTIVE, comm_type=0, comm_size=8, pg_name=group))

    graph = parse(part("a"), part("b"), part("b"), part("a"))
    pairs = {(graph.source[flow], graph.destination[flow]) for flow in graph.flows.tolist()}
    assert pairs == {(0, 3), (3, 0), (1, 2), (2, 1)}


def test_collectives_come_in_the_order_of_the_file_whatever_is_done_first() -> None:
    slow = trace(
        node(1, COMP, micros=9),
        node(2, COLLECTIVE, [1], comm_type=0, comm_size=80),
        node(3, COLLECTIVE, comm_type=6, comm_size=40),
    )
    other = trace(
        node(2, COLLECTIVE, comm_type=0, comm_size=80),
        node(3, COLLECTIVE, comm_type=6, comm_size=40),
    )
    sizes = Counter(size for size in parse(slow, other).size_bytes if size)
    assert sizes == {40: 4, 20: 2}


def send(**changes: Any) -> bytes:
    attributes = {"comm_src": 0, "comm_dst": 1, "comm_size": 10, "comm_tag": 0, **changes}
    given = {name: value for name, value in attributes.items() if value is not None}
    return trace(node(1, SEND, **given))


GOT = trace(node(1, RECV, comm_src=0, comm_dst=1, comm_size=10, comm_tag=0))
GOT_BACK = trace(node(1, RECV, comm_src=1, comm_dst=0, comm_size=10, comm_tag=0))


@pytest.mark.parametrize(
    ("traces", "words"),
    [
        ((send(comm_dst=0), GOT), r"^t\.0\.et: node 1 'n1': rank 0 has a message from 0 to 0"),
        ((send(comm_dst=5), GOT), "comm_dst is 5: a number from 0 to 1"),
        ((send(comm_src=1, comm_dst=0), GOT), "rank 0 has a message from 1 to 0"),
        ((send(comm_dst=None), GOT), "comm_dst is None"),
        ((send(comm_size=-4), GOT), "comm_size is -4"),
        ((send(comm_size="x"), GOT), "comm_size is 'x'"),
        ((send(comm_tag=9), GOT), "no counterpart"),
        ((send(), trace(node(1, COMP))), "no counterpart"),
        ((trace(node(1, COMP), node(1, COMP)),), "two of this id"),
        (
            (trace(node(1, COMP, [8])),),
            "data dependency on node 8, which is not there",
        ),
        ((trace(node(1, COMP, [8], control=[8])),), "data dependency on node 8"),
        ((trace(node(1, COMP, [2]), node(2, COMP, [1])),), "never begins"),
        ((trace(node(1, COMP, control=[2]), node(2, COMP, [1])),), "never begins"),
        ((send(), send(comm_src=1, comm_dst=0)), "no COMM_RECV from rank 0 to rank 1 with tag 0"),
        ((GOT_BACK, GOT), "no COMM_SEND from rank 1 to rank 0 with tag 0"),
        ((trace(node(1, COMP, micros=5)),), "no flows"),
        ((b"",), "no flows"),
        (
            (trace(node(1, COLLECTIVE, comm_type=3, comm_size=1)),) * 2,
            "comm_type is 3: one of 0 .allreduce., 2",
        ),
        (
            (
                trace(node(1, COLLECTIVE, comm_type=0, comm_size=8)),
                trace(node(1, COLLECTIVE, comm_type=6, comm_size=8)),
            ),
            r"^t\.1\.et: .*it is alltoall of 8 bytes, and allreduce of 8 bytes on rank 0",
        ),
        (
            (
                trace(node(1, COLLECTIVE, comm_type=0, comm_size=8)),
                trace(node(1, COLLECTIVE, comm_type=0, comm_size=9)),
            ),
            r"^t\.1\.et: .*it is allreduce of 9 bytes, and allreduce of 8 bytes on rank 0",
        ),
        (
            (
                trace(*[node(n, COLLECTIVE, comm_type=0, comm_size=8) for n in (1, 2)]),
                trace(node(1, COLLECTIVE, comm_type=0, comm_size=8)),
            ),
            "1 of 2 ranks have collective number 1",
        ),
        ((b"\x05\x08",), r"t\.0\.et: byte 0: a message of 5 bytes, of which 1 are there"),
        ((b"\xff" * 11,), "byte 0: no length"),
        ((b"\x02\xff\xff",), "byte 0: no message of Chakra"),
    ],
)
def test_bad_traces_are_named_with_file_and_node(traces: tuple[bytes, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse(*traces)


@given(
    st.one_of(
        st.binary(max_size=60),
        st.builds(
            lambda data, place, byte: data[:place] + bytes([byte]) + data[place + 1 :],
            st.sampled_from([*PIPELINE, GOT]), st.integers(0, 80), st.integers(0, 255),
        ),
    )
)  # fmt: skip
def test_any_bytes_are_a_trace_or_an_input_error(data: bytes) -> None:
    for traces in ((data,), (data, GOT), (send(), data)):
        try:
            assert isinstance(parse(*traces), FlowGraph)
        except InputError as error:
            assert "t." in str(error) or "flow" in str(error)


def test_the_files_of_all_ranks_are_found_beside_that_of_rank_0(tmp_path: Path) -> None:
    (tmp_path / "t.0.et").write_bytes(PIPELINE[0] + encode(BACK))
    (tmp_path / "t.1.et").write_bytes(PIPELINE[1])
    assert FORMAT.read(tmp_path / "t.0.et", FileReading("ring", 2, 0)).graph.ranks == 2
    options: dict[str, Any] = {"collective": "flows", "world": "simulated"}
    scenario = Scenario(workload=str(tmp_path / "t.0.et"), **options)
    assert scenario.algorithms == ("given",)
    assert scenario.size_bytes == 1000
    with pytest.raises(InputError, match="name the trace of rank 0"):
        Scenario(workload=str(tmp_path / "t.1.et"), **options)
    with pytest.raises(InputError, match="No such file"):
        Scenario(workload=str(tmp_path / "u.0.et"), **options)
    part = trace(node(1, COLLECTIVE, comm_type=0, comm_size=8000))
    for rank in range(2):
        (tmp_path / f"c.{rank}.et").write_bytes(part)
    assert Scenario(workload=str(tmp_path / "c.0.et"), **options).algorithms == ("ring",)
