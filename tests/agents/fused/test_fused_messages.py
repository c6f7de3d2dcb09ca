"""What is asked of a fused operator and makes no sense: each message names the thing, its value,
and what is valid."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli_support import WEFT, start
from typer.testing import CliRunner

from weft import Scenario, run
from weft.agents.operators.operator import Sizes
from weft.base.errors import InputError, MachineError
from weft.cli.command_line import app
from weft.experiments.families.fused.load import with_defaults
from weft.experiments.families.fused.names import CLOCKS, OPERATORS, algorithms
from weft.experiments.runs import capacity

EMBEDDING = "it has batch-size, width, tables, table-rows, pooling, tile-rows; leave it out"
GEMM = "it has batch-size, width, inner, experts, top-k, imbalance, tile-rows, dispatch; leave it"
GEMV = "it has batch-size, width, inner, tile-rows; leave it out"

WRONG: list[tuple[list[str], str]] = [
    # sizes that ranks or tiles do not divide, on 8 ranks
    (["--tables", "6"], "tables 6 for 8 ranks: each gets as many; choose a multiple of 8"),
    (["--batch-size", "50"], "batch-size 50 for 8 ranks: each gets as many; choose a multiple of"),
    (["--tile-rows", "5"], "tile-rows 5: no such tiles divide the 128 samples of a rank; choose"),
    (["--operator", "gemv-allreduce", "--width", "12"], "width 12 for 8 ranks: each gets as many;"),
    (["--operator", "gemv-allreduce", "--inner", "12"], "inner 12 for 8 ranks: each gets as many;"),
    (["--operator", "gemm-all-to-all", "--experts", "6"], "experts 6 for 8 ranks: each gets as ma"),
    (["--operator", "gemm-all-to-all", "--experts", "4"], "choose a multiple of 8"),
    (["--operator", "gemm-all-to-all", "--top-k", "17"], "top-k 17: a token goes to 1 to 16 expe"),
    (["--operator", "gemm-all-to-all", "--experts", "65536", "--batch-size", "65536"],
     "batch-size 65536 and experts 65536: each token is weighed for each expert, 67108864 times"),
    (["--tables", "4096", "--batch-size", "65536", "--tile-rows", "1", "--table-rows", "10"],
     "operator embedding-all-to-all on 8 ranks has 268435456 tiles: at most 1048576 are valid"),
    # out of range
    (["--operator", "gemm-all-to-all", "--top-k", "0"], "top-k 0 is out of range: a whole number"),
    (["--operator", "gemm-all-to-all", "--imbalance", "11"], "imbalance 11 is out of range: 0 to "),
    (["--tile-rows", "0"], "tile-rows 0 is out of range: a whole number from 1 to 16777216"),
    (["--batch-size", "0"], "batch-size 0 is out of range: a whole number from 1 to 16777216"),
    (["--tables", "x"], "tables 'x' is no"),
    (["--slice", "3"], "slice 3 is out of range: a whole number from 4 to 1073741824"),
    (["--workgroups", "0"], "workgroups 0 is out of range: a whole number from 1 to 1024"),
    (["--workgroups", "1025"], "workgroups 1025 is out of range: a whole number from 1 to 1024"),
    (["--senders", "16"], "senders 16 of 16 workgroups: one at least has to compute; choose 0 to"),
    (["--senders", "3", "--workgroups", "3"], "senders 3 of 3 workgroups: one at least has to"),
    (["--senders", "-1"], "senders -1 is out of range: a whole number from 0 to 1023"),
    (["--ratio", "0"], "ratio 0 is out of range: 0.001 to 1000"),
    (["--ratio", "nan"], "ratio 'nan' is not a number"),
    (["--slowdown", "-1"], "slowdown -1.0 is out of range: 0 to 1e12"),
    # what there is not
    (["--operator", "gemm"], f"operator 'gemm' is unknown: choose from {', '.join(OPERATORS)}"),
    (["--task-order", "back"], "task-order 'back' is unknown: choose from remote-first, local-fir"),
    (["--way", "fly"], "way 'fly' is unknown: choose from direct, multicast, switch"),
    (["--clock", "sundial"], f"clock 'sundial' is unknown: choose from {', '.join(CLOCKS)}"),
    (["--operator", "gemm-all-to-all", "--dispatch", "fly"], "dispatch 'fly' is unknown: choose f"),
    (["--algorithm", "melted"], "fused algorithm 'melted' is unknown"),
    (["--algorithm", "fused/fly"], f": choose from {', '.join(algorithms())}"),
    # of another operator
    (["--algorithm", "fused/switch"], "algorithm 'fused/switch' means nothing for operator embedd"),
    (["--way", "multicast"], "replicate what goes to all in gemv-allreduce and all-gather-matmul;"),
    (["--operator", "all-gather-matmul", "--way", "switch"], "switches add in gemv-allreduce and"),
    (["--operator", "matmul-reduce-scatter", "--way", "multicast"], "means nothing for operator m"),
    (["--operator", "gemv-allreduce", "--pooling", "3"],
     f"pooling 3 means nothing for operator gemv-allreduce: {GEMV}"),
    (["--operator", "gemm-all-to-all", "--tables", "8"],
     f"tables 8 means nothing for operator gemm-all-to-all: {GEMM}"),
    (["--experts", "8"], f"experts 8 means nothing for operator embedding-all-to-all: {EMBEDDING}"),
    (["--imbalance", "1"],
     f"imbalance 1.0 means nothing for operator embedding-all-to-all: {EMBEDDING}"),
    (["--dispatch", "multicast"],
     f"dispatch multicast means nothing for operator embedding-all-to-all: {EMBEDDING}"),
    (["--inner", "64"], f"inner 64 means nothing for operator embedding-all-to-all: {EMBEDDING}"),
    # one beside another
    (["--clock", "measured"], "clock 'measured' means nothing in the simulated world"),
    (["--clock", "measured", "--world", "emulated", "--ratio", "2"], "ratio and slowdown are for"),
    (["--clock", "measured", "--world", "emulated", "--slowdown", "2"], "clock 'measured' takes t"),
    (["--ratio", "2", "--slowdown", "3"], "slowdown '3' and ratio '2' say the same thing twice"),
    (["--clock", "measured", "--world", "emulated", "--flops", "1e9"], "clock 'measured'"),
    (["--operator", "gemv-allreduce", "--batch-size", "1", "--width", "8", "--inner", "8",
      "--launch-time", "0", "--flops", "1e21", "--memory-bandwidth", "1e21"],
     "ratio 1.0: the declared device computes in no time, however slow it is made; choose less of"),
    (["--flops", "0"], "flops 0 is out of range: 1 to 1e+21"),
    (["--way", "direct", "--algorithm", "communication"], "algorithms 'communication' beside way:"),
    (["--size", "5KiB"], "size 5120 means nothing for fused: operators have sizes of their own, l"),
    (["--dtype", "float64"], "dtype 'float64' means nothing for fused: operators compute in float"),
    (["--op", "max"], "op 'max' means nothing for fused"),
    (["--root", "1"], "root 1 means nothing for fused"),
    (["--jobs", "2"], "jobs 2 means nothing for fused"),
    (["--sizes", "1MiB,2MiB"], "means nothing for fused"),
    (["--data", "mixed"], "data 'mixed' means nothing for fused"),
    (["--chunk", "8KiB"], "chunk 8192 means nothing for fused"),
]  # fmt: skip
"""Options of the command line, and words of the message."""


@pytest.mark.parametrize(
    ("flags", "message"),
    WRONG,
    ids=lambda each: " ".join(each)[:50] if isinstance(each, list) else "",
)
def test_what_makes_no_sense_is_refused(flags: list[str], message: str, tmp_path: Path) -> None:
    world = [] if "--world" in flags else ["--world", "simulated"]
    done = CliRunner().invoke(app, ["run", "fused", *flags, *world, "--out", str(tmp_path / "out")])
    assert isinstance(done.exception, InputError), done.exception
    assert message in str(done.exception)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "flags",
    [
        ["--batch-size", "16777216"],
        ["--table-rows", "16777216"],
        ["--operator", "gemv-allreduce", "--batch-size", "16777216"],
        ["--operator", "gemm-all-to-all", "--width", "16777216"],
        ["--operator", "matmul-reduce-scatter", "--inner", "16777216"],
        ["--operator", "all-gather-matmul", "--width", "16777216"],
    ],
    ids=str,
)
def test_more_memory_than_there_is_is_refused_before_anything_is_made(
    flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity, "available_bytes", lambda: 2 << 30)
    where = ["--world", "simulated", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, ["run", "fused", *flags, *where])
    assert isinstance(done.exception, MachineError), done.exception
    operator = flags[1] if flags[0] == "--operator" else "embedding-all-to-all"
    words = f"operator {operator} takes [0-9.e+]+ [GT]iB of memory on 8 ranks, and 2 GiB are free: "
    assert re.match(words + "choose smaller sizes, like --batch-size", str(done.exception))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("operator", [*OPERATORS])
def test_the_usual_sizes_need_no_more_memory_than_a_small_machine_has(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity, "available_bytes", lambda: 8 << 30)
    for world in ("simulated", "emulated"):
        capacity.check_capacity(Scenario("fused", world=world, operator=operator))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--senders", "16"], "weft: senders 16 of 16 workgroups: one at least has to compute;"),
        (["--ratio", "2", "--slowdown", "3"], "slowdown '3' and ratio '2' say the same thing"),
    ],
)
def test_it_is_one_line_and_status_2(flags: list[str], message: str, tmp_path: Path) -> None:
    done = start(*WEFT, "run", "fused", "--world", "simulated", *flags, cwd=tmp_path)
    assert done.returncode == 2 and not done.stdout
    assert message in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"tables": 6}, "tables 6 for 8 ranks"),
        ({"task_order": "back"}, "task-order 'back' is unknown"),
        ({"algorithms": ("fused/multicast",)}, "algorithm 'fused/multicast' means nothing for op"),
        ({"clock": "measured"}, "clock 'measured' means nothing in the simulated world"),
        ({"size_bytes": 5}, "size 5 means nothing for fused"),
        ({"slice_bytes": 0}, "slice 0 is out of range: a whole number from 4 to 1073741824"),
        ({"batch_size": -8}, "batch-size -8 is out of range"),
    ],
)
def test_so_it_is_from_python(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        Scenario("fused", world="simulated", **asked)
    assert message in str(raised.value)


def test_a_ratio_beside_a_slowdown_is_refused_from_python_too() -> None:
    scenario = Scenario("fused", world="simulated", ratio=2.0, slowdown=3.0)
    with pytest.raises(InputError, match=r"ratio 2\.0 beside slowdown 3\.0: both say how slow the"):
        run(scenario)


@pytest.mark.parametrize("collective", ["allreduce", "flows", "pipeline"])
def test_options_of_fused_operators_are_for_them_alone(collective: str) -> None:
    workload: dict[str, Any] = {"workload": "gpt-7b"} if collective == "flows" else {}
    options: dict[str, Any] = {"operator": "gemv-allreduce", "tile_rows": 4, "senders": 2}
    for name, value in options.items():
        with pytest.raises(InputError) as raised:
            Scenario(collective, world="simulated", **workload, **{name: value})
        words = str(raised.value)
        assert f"{name.replace('_', '-')} " in words and "it is for fused" in words


@pytest.mark.parametrize("operator", [*OPERATORS])
def test_an_operator_has_the_sizes_that_its_message_lists(operator: str) -> None:
    with pytest.raises(InputError) as raised:
        wrong = {"tables": 5} if operator != "embedding-all-to-all" else {"experts": 5}
        with_defaults(operator, Sizes(**wrong))  # type: ignore[arg-type]
    listed = str(raised.value).partition("it has ")[2].partition(";")[0].split(", ")
    assert len(listed) > 3
    for each in fields(Sizes):
        value = {"dispatch": "unicast", "imbalance": 0.5}.get(each.name, 3)
        asked = Sizes(**{each.name: value})  # type: ignore[arg-type]
        if each.name.replace("_", "-") in listed:
            assert getattr(with_defaults(operator, asked), each.name) == value
        else:
            with pytest.raises(InputError, match=f"{each.name.replace('_', '-')} .* means nothing"):
                with_defaults(operator, asked)
