"""What the ranks of a program of PyTorch see when one of them, or a link, fails: a RuntimeError
that can be caught, that names the rank, and that comes soon."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft as api
from weft import Net
from weft.tools.bench.torch_failures import FAILING, FAILURES, GOES_ON_S, PARALLEL, Told, fail

pytestmark = [
    pytest.mark.system(alone=False),
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None,
        reason="torch is not installed: ./weft setup --torch",
    ),
]

PROGRAMS = Path(__file__).resolve().parents[1] / "pytorch_programs"
SOON_S = 15.0
FOUND_S = 10.0
"""Within so long a link that fails is led around."""


@pytest.fixture(scope="module")
def net() -> Iterator[Net]:
    with api.up(api.leaf_spine(leaves=2, spines=2, hosts_per_leaf=2)) as network:
        yield network


@pytest.mark.parametrize("what", FAILURES)
@pytest.mark.parametrize("parallel", PARALLEL)
def test_every_survivor_gets_an_error_that_names_the_rank(
    net: Net, parallel: str, what: str
) -> None:
    """Where another spine carries what a link did, training goes on: to its end, which is soon."""
    goes_on_s = GOES_ON_S if what != "spine link" else GOES_ON_S / 4
    run, told = fail(net, parallel, what, goes_on_s=goes_on_s, timeout_s=GOES_ON_S)
    (failure,) = told.having("fails")
    errors = told.having("error")
    if what == "spine link":
        assert not errors and run.status == 0 and len(told.having("steps")) == 4, told.getvalue()
        return
    survivors = {0, 1, 2} if what in ("raise", "kill", "stop") else {0, 1, 2, 3}
    assert {each["rank"] for each in errors} == survivors, told.getvalue()
    for each in errors:
        assert each["at_s"] - failure["at_s"] < SOON_S, each
        alone = what == "host link" and each["rank"] == FAILING  # it can tell no more than that
        assert f"rank {FAILING}" in each["error"] or (alone and "lost rank" in each["error"]), each
        assert "rank" in each["error"]
    if what == "raise":
        assert all("ValueError: bad batch" in each["error"] for each in errors), errors
    assert run.status != 0


@pytest.mark.parametrize("spine", ["spine0", "spine1"])
def test_sums_whose_tree_loses_a_link_go_on_in_another_one(net: Net, spine: str) -> None:
    """One of the two is in the tree. Its link fails while vectors are added, one after the other:
    all sums are right, and none has waited for long."""
    told = Told(net, ("leaf0", spine))
    try:
        run = net.torch_run(
            PROGRAMS / "midway.py", allreduce="switch", output=told, errors=told, timeout=90
        )
    finally:
        net.set_link("leaf0", spine, True)
    assert run.status == 0, told.getvalue()
    ended = told.having("longest_s")
    assert len(ended) == 4 and all(each["right"] for each in ended), told.getvalue()
    assert max(each["longest_s"] for each in ended) < FOUND_S, ended
    assert all(each.algorithm == "switch" for rank in run.ranks for each in rank.collectives)


def output_of(net: Net, program: str, *arguments: str) -> str:
    """What a program printed, which ended well."""
    told = Told(net, None)
    run = net.torch_run(PROGRAMS / program, *arguments, output=told, errors=told, timeout=90)
    assert run.status == 0, told.getvalue()
    return told.getvalue()


def test_timeouts_name_who_is_late(net: Net) -> None:
    assert output_of(net, "late.py").count("all were told") == 3


@pytest.mark.parametrize(
    ("parallel", "different"),
    [
        ("ddp", "another size"),
        ("fsdp", "another kind"),
        ("none", "another type"),
        ("none", "another operation"),
    ],
)
def test_ranks_that_call_something_else_are_told_so(
    net: Net, parallel: str, different: str
) -> None:
    said = output_of(net, "differing.py", parallel, *different.split())
    assert said.count("was told: ") == 4
    assert said.count("the ranks do not call the same") == 4


def test_a_rank_that_holds_pythons_lock_is_waited_for(net: Net) -> None:
    said = output_of(net, "holding.py")
    assert said.count("went on after") == 12
    assert said.count("was told: ") >= 3, said
    assert said.count("rank 3 of the run (host h3) does not answer") >= 3, said


def test_faults_come_at_their_steps_and_are_told(net: Net) -> None:
    """A link that fails and comes back, a rank that is late and one that is slow change no sum;
    what is killed ends the program, and the links are then as before."""
    program, told = PROGRAMS / "stepping.py", Told(net, None)
    usual = net.torch_run(program, 6, output=told, errors=told, timeout=90, kill_rank="0@step9")
    calm = told.having("weight")
    run = net.torch_run(
        program, 6, output=told, errors=told, timeout=90,
        fail_link="leaf0:spine0@step2..step4", delay_rank="3:1500ms@step3", slow_rank="1:4",
    )  # fmt: skip
    assert (usual.status, run.status) == (0, 0), told.getvalue()
    assert [each.at_ns for each in usual.faults] == [None]
    assert "--kill-rank 0@step9 did not come: the program had ended before" in usual.notes
    assert {each["weight"] for each in told.having("weight")} == {calm[0]["weight"]}
    slow, failed, late = run.faults
    assert failed.fault == "--fail-link leaf0:spine0@step2..step4" and not failed.failed
    assert failed.at_ns and failed.until_ns and failed.until_ns > failed.at_ns
    assert late.step == 3 and (late.step_during_ns or 0) > 1_500_000_000
    assert slow.at_ns == 0 and slow.step_before_ns is None
    sends = [each for each in run.links if {each.from_node, each.to_node} == {"leaf0", "spine0"}]
    assert len(sends) == 2 and not net.down

    killed = net.torch_run(
        program, 50, output=told, errors=told, timeout=90, kill_rank="2@step3",
        change_link="leaf1:spine1:loss=1%@step1",
    )  # fmt: skip
    assert [each.step for each in killed.faults] == [1, 3] and not net.changed
    assert killed.ranks[2].status == -9 and killed.status == 137 and "rank 2" in killed.error
    assert [each.status for each in killed.ranks if each.rank != 2] == [3, 3, 3]
    assert all("lost rank 2" in each["error"] for each in told.having("error"))
    assert killed.faults[1].failed >= 3 and len(killed.ranks[0].step_ns) in (2, 3)


def test_ranks_are_started_anew_and_train_on_from_a_checkpoint(net: Net, tmp_path: Path) -> None:
    """A rank fails by itself in the first attempt; another is killed in the second one."""
    program, told = PROGRAMS / "restarting.py", Told(net, None)
    run = net.torch_run(
        program, tmp_path / "model.pt", output=told, errors=told, timeout=300, max_restarts=3,
        kill_rank="2@step1",
    )  # fmt: skip
    ended = told.having("weight")
    assert run.status == 0 and run.restarts in (1, 2), told.getvalue()
    assert len(ended) == 4 and len({each["weight"] for each in ended}) == 1
    assert {each["attempt"] for each in ended} == {run.restarts}
    (killed,) = run.faults
    assert killed.attempt == 1 and any("rank 2" in note for note in run.notes)
    assert all(note.startswith("all ranks were started anew") for note in run.notes[: run.restarts])
    alone = net.torch_run(
        program, tmp_path / "other.pt", output=told, errors=told, timeout=300, max_restarts=1
    )
    assert (alone.status, alone.restarts) == (0, 1) and "ValueError: bad batch" in alone.notes[0]
    assert told.having("weight")[-1] == ended[0] | {"attempt": 1, "from": 3}
