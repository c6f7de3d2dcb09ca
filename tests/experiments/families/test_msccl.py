"""MSCCL's algorithms: what they become, that they do what they say, and what is said of bad
ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.workloads_support import msccl_ring

from weft import run
from weft.agents.collectives.flow_graph import FlowGraph
from weft.base.errors import InputError
from weft.experiments.families.flows.formats.msccl import parse
from weft.experiments.scenario.scenario import Scenario

FAST_BPS = 8_000_000_000
"""A byte takes a nanosecond."""


def algorithm(coll: str, *gpus: str, ranks: int = 2, chunks: tuple[int, int, int] = (2, 2, 0),
              inplace: int = 0, more: str = "") -> str:  # fmt: skip
    """An algorithm whose ranks have a thread block each, given its steps."""
    sizes = " ".join(f'{name}_chunks="{size}"' for name, size in zip("ios", chunks, strict=True))
    body = "".join(
        f'<gpu id="{rank}" {sizes}><tb id="0" send="{1 - rank}" recv="{1 - rank}" chan="0">'
        f"{steps}</tb>{more}</gpu>"
        for rank, steps in enumerate(gpus)
    )
    return f'<algo ngpus="{ranks}" coll="{coll}" inplace="{inplace}">{body}</algo>'


def steps(*found: str) -> str:
    """Steps written TYPE SRC DST, like `s i0 o1`."""
    parts = []
    for number, each in enumerate(found):
        kind, source, destination, *after = each.split()
        waits = f'depid="{after[0]}" deps="{after[1]}"' if after else ""
        parts.append(
            f'<step s="{number}" type="{kind}" srcbuf="{source[0]}" srcoff="{source[1:]}" '
            f'dstbuf="{destination[0]}" dstoff="{destination[1:]}" cnt="1" {waits}/>'
        )
    return "".join(parts)


def graph_of(text: str, size_bytes: int = 1000) -> FlowGraph:
    return parse(text, "x.xml", size_bytes).graph


EXCHANGE = [steps("s i0 o0", "rrc i0 o0", "s i1 o1", "rrc i1 o1")] * 2
"""An Allreduce of two: each sends all it has, and adds what comes."""


def test_a_ring_is_the_messages_of_a_ring() -> None:
    graph = graph_of(msccl_ring(4), 4000)
    assert len(graph.flows) == 12
    assert {graph.size_bytes[flow] for flow in graph.flows.tolist()} == {1000}
    assert graph.span_ns(FAST_BPS) == 3000


def test_a_chunk_of_several_is_one_message() -> None:
    graph = graph_of(msccl_ring(4, chunks=3), 12_000)
    assert {graph.size_bytes[flow] for flow in graph.flows.tolist()} == {3000}


def test_a_step_waits_for_one_of_another_thread_block() -> None:
    other = '<tb id="1" send="-1" recv="-1" chan="-1">' + steps("cpy o0 s0 0 1") + "</tb>"
    text = algorithm("allreduce", *EXCHANGE, chunks=(2, 2, 1), more=other)
    assert len(graph_of(text).flows) == 4


@pytest.mark.parametrize(
    ("coll", "found", "chunks"),
    [
        ("allreduce", EXCHANGE, (2, 2, 0)),
        ("reduce_scatter", [steps("s i1 o0", "rrc i0 o0"), steps("s i0 o0", "rrc i1 o0")],
         (2, 1, 0)),
        ("alltoall", [steps("cpy i0 o0", "s i1 o0", "r o1 o1"),
                      steps("cpy i1 o1", "s i0 o1", "r o0 o0")], (2, 2, 0)),
        ("allgather", [steps("cpy i0 o0", "s i0 o0", "r o1 o1"),
                       steps("cpy i0 o1", "s i0 o1", "r o0 o0")], (1, 2, 0)),
    ],
)  # fmt: skip
def test_collectives_are_checked_by_carrying_their_steps_out(
    coll: str, found: list[str], chunks: tuple[int, int, int]
) -> None:
    good = algorithm(coll, *found, chunks=chunks)
    assert graph_of(good).ranks == 2
    for name in {"allreduce", "reduce_scatter", "alltoall", "allgather"} - {coll}:
        with pytest.raises(InputError, match=f"it does no {name}"):
            graph_of(good.replace(f'coll="{coll}"', f'coll="{name}"'))


def test_in_place_the_output_is_the_input() -> None:
    both = [steps("s i0 i0", "rrc i0 i0", "s i1 i1", "rrc i1 i1")] * 2
    assert graph_of(algorithm("allreduce", *both, chunks=(2, 0, 0), inplace=1)).ranks == 2
    gather = [steps("s o0 o0", "r o1 o1"), steps("s o1 o1", "r o0 o0")]
    assert graph_of(algorithm("allgather", *gather, chunks=(0, 2, 0), inplace=1)).ranks == 2
    scatter = [steps("s i1 i1", "rrc i0 i0"), steps("s i0 i0", "rrc i1 i1")]
    assert graph_of(algorithm("reduce_scatter", *scatter, chunks=(2, 0, 0), inplace=1)).ranks == 2


def test_a_collective_that_is_not_known_is_run_and_told() -> None:
    found = parse(msccl_ring(4, coll="custom"), "x.xml", 4000)
    (note,) = found.notes
    assert note.startswith("x.xml: coll 'custom' is none of allreduce")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<algo", "no XML"),
        ("<!DOCTYPE algo><algo/>", "a document type is not read"),
        ("<graph/>", "it is <graph>: an algorithm of MSCCL is <algo>"),
        ("<algo/>", "ngpus is None"),
        ('<algo ngpus="2"/>', "it has 0 <gpu>, and ngpus is 2"),
        (algorithm("allreduce", EXCHANGE[0]), "it has 1 <gpu>"),
        (algorithm("allreduce", *EXCHANGE).replace('type="s"', 'type="q"', 1), "type 'q' is none"),
        (algorithm("allreduce", *EXCHANGE).replace('send="1"', 'send="7"', 1), "peer 7 is none"),
        (algorithm("allreduce", *EXCHANGE).replace('send="1"', 'send="-1"', 1), "has no send"),
        (algorithm("allreduce", *EXCHANGE).replace('s="0" t', 's="1" t', 1), "numbered from 0"),
        (algorithm("allreduce", *EXCHANGE).replace('srcbuf="i"', 'srcbuf="k"', 1), "'k' is none"),
        (algorithm("allreduce", *EXCHANGE).replace('cnt="1"', 'cnt="x"', 1), "cnt is 'x'"),
        (algorithm("allreduce", steps("s i0 o0"), EXCHANGE[1]), "it never begins"),
        (algorithm("allreduce", EXCHANGE[0] + steps("s i0 o0").replace('s="0"', 's="4"'),
                   EXCHANGE[1]), "gpu 0 sends 1 messages to gpu 1 on channel 0"),
        (algorithm("allreduce", steps("s i0 o0", "rrc i0 o0", "s s1 o1", "rrc i1 o1"),
                   EXCHANGE[1]), "it reads chunk 1 of the scratch buffer, which nobody has"),
        (algorithm("allreduce", steps("s i0 o0", "rrc i0 o0", "s i0 o1", "rrc i1 o1"),
                   EXCHANGE[1]), "chunk 1 of the output of gpu 1 has chunk 0 of the input of gpu"),
        (algorithm("allreduce", steps("s i0 o0", "rrc i0 o0 4 4"), EXCHANGE[1]),
         "it waits for step 4 of tb 4, which is not there"),
        (algorithm("allreduce", *EXCHANGE,
                   more='<tb id="1" send="-1" recv="0" chan="0"/>'), "peer 0 is none"),
        (algorithm("allreduce", *EXCHANGE, more='<tb id="0" send="-1" recv="-1" chan="0"/>'),
         "it is there already"),
        (msccl_ring(4, chunks=7), "no whole number of bytes in each of 28 chunks"),
    ],
)  # fmt: skip
def test_bad_algorithms_are_refused_with_the_place(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        graph_of(text)


@given(st.data())
def test_any_text_is_an_algorithm_or_an_input_error(data: st.DataObject) -> None:
    text = msccl_ring(3)
    at = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 30))
    word = data.draw(st.sampled_from(["", '"', "<", "-1", "9" * 30, "rrcs", "\0", "s", "1"]))
    try:
        assert isinstance(graph_of(text[:at] + word + text[at + length :], 3000), FlowGraph)
    except InputError as error:
        assert str(error).startswith(("x.xml", "<gpu>"))


def test_an_algorithm_runs_at_the_size_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "x.xml").write_text(msccl_ring(4))
    options: dict[str, Any] = {
        "collective": "flows", "world": "simulated", "workload": str(tmp_path / "x.xml"),
    }  # fmt: skip
    assert run(Scenario(**options, buffer_bytes=8192)).verified
    assert Scenario(**options).size_bytes == 3 * (1 << 18)
    with pytest.raises(InputError, match="choose a multiple of 4"):
        Scenario(**options, buffer_bytes=8191)
    with pytest.raises(InputError, match="buffer 8192 means nothing"):
        Scenario(**{**options, "workload": "gpt-small"}, buffer_bytes=8192)
