"""What the ranks of a program of PyTorch see when one of them, or a link, fails: a RuntimeError
that can be caught, that names the rank, and that comes soon."""

from __future__ import annotations

import importlib.util
import io
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import weft as api
from weft import Net, TorchRun

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None,
        reason="torch is not installed: ./weft setup --torch",
    ),
]

PROGRAMS = Path(__file__).resolve().parent / "pytorch_programs"
FAILING, LINKS = 3, {"host link": ("h3", "leaf1"), "spine link": ("leaf0", "spine1")}
SOON_S = 15.0
GOES_ON_S = 20.0
"""How long training goes on if nothing happens to it."""


@pytest.fixture(scope="module")
def net() -> Iterator[Net]:
    with api.up(api.leaf_spine(leaves=2, spines=2, hosts_per_leaf=2)) as network:
        yield network


class Told(io.StringIO):
    """What ranks print, of which lines of JSON are kept. A link fails when they train."""

    def __init__(self, net: Net, link: tuple[str, str] | None) -> None:
        super().__init__()
        self._net = net
        self._link = link
        self.lines: list[dict[str, Any]] = []

    def write(self, text: str) -> int:
        """Take a line."""
        words = text.partition("] ")[2].strip()
        if words.startswith("{"):
            said = json.loads(words)
            if "under_way" in said and self._link is not None:
                self._net.set_link(*self._link, False)
                said |= {"fails": self._link, "at_s": time.monotonic()}
            self.lines.append(said)
        return super().write(text)

    def having(self, what: str) -> list[dict[str, Any]]:
        """Return the lines that say something of this."""
        return [each for each in self.lines if what in each]


def fail(net: Net, parallel: str, what: str) -> tuple[TorchRun, Told]:
    """Train until something fails."""
    link = LINKS.get(what)
    told = Told(net, link)
    try:
        run = net.torch_run(
            PROGRAMS / "failing.py", parallel, "nothing" if link else what, GOES_ON_S,
            output=told, errors=told, timeout=90,
        )  # fmt: skip
    finally:
        if link is not None:
            net.set_link(*link, True)
    return run, told


@pytest.mark.parametrize("what", ["raise", "kill", "stop", "host link", "spine link"])
@pytest.mark.parametrize("parallel", ["ddp", "fsdp", "pipeline"])
def test_every_survivor_gets_an_error_that_names_the_rank(
    net: Net, parallel: str, what: str
) -> None:
    """Where another spine carries what a link did, training may go on. The sums of DDP that were
    under way in switches may be lost with it; it is then said which link is down."""
    run, told = fail(net, parallel, what)
    (failure,) = told.having("fails")
    errors = told.having("error")
    if what == "spine link" and not errors:
        assert run.status == 0 and len(told.having("steps")) == 4, told.getvalue()
        return
    survivors = {0, 1, 2} if what in ("raise", "kill", "stop") else {0, 1, 2, 3}
    assert {each["rank"] for each in errors} == survivors, told.getvalue()
    named = "leaf0-spine1 is down" if what == "spine link" else f"rank {FAILING}"
    for each in errors:
        assert each["at_s"] - failure["at_s"] < SOON_S, each
        alone = what == "host link" and each["rank"] == FAILING  # it can tell no more than that
        assert named in each["error"] or (alone and "lost rank" in each["error"]), each
        assert "rank" in each["error"]
    if what == "raise":
        assert all("ValueError: bad batch" in each["error"] for each in errors), errors
    assert run.status != 0


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
