"""``weft bench torch-failures``: what a program of PyTorch sees when one of its ranks, or a link,
fails, with Weft's backend and with Gloo's.

Rank 3 of four raises, is killed or is stopped, the link of its host fails or one of a spine, while
all train by DDP (also with ``no_sync``), by FSDP2 or by a pipeline. Of each survivor it is said
after how long a RuntimeError came, and whether this names what failed. The timeout of the groups is
`GLOO_TIMEOUT_S` under Gloo, which learns of some failures in no other way.
"""

import io
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from weft.base.cache import CHECKOUT
from weft.base.errors import MachineError
from weft.experiments.families.programs.results import TorchRun
from weft.interface.net import Net
from weft.interface.up import up
from weft.tools.bench.benchmarks import table_lines
from weft.topo.clos import leaf_spine

SCRIPT = CHECKOUT / "tests" / "pytorch_programs" / "failing.py"
BACKENDS = ("weft", "gloo")
PARALLEL = ("ddp", "no_sync", "fsdp", "pipeline")
FAILURES = ("raise", "kill", "stop", "host link", "spine link")
RANKS, FAILING = 4, 3
LINKS = {"host link": ("h3", "leaf1"), "spine link": ("leaf0", "spine1")}
NAMED = {"host link": f"rank {FAILING}", "spine link": "leaf0-spine1"}
GOES_ON_S = 20.0
"""How long training goes on if nothing happens to it."""
GLOO_TIMEOUT_S = 12.0
MOST_S = 90.0
"""After so long a run is ended."""


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
                said |= {"fails": self._link, "at_s": time.monotonic()}
                self._net.set_link(*self._link, False)
            self.lines.append(said)
        return super().write(text)

    def having(self, what: str) -> list[dict[str, Any]]:
        """Return the lines that say something of this."""
        return [each for each in self.lines if what in each]


def fail(
    net: Net,
    parallel: str,
    what: str,
    backend: str = "weft",
    goes_on_s: float = GOES_ON_S,
    timeout_s: float = 0.0,
) -> tuple[TorchRun, Told]:
    """Train until something fails; it is made whole again behind that.

    Args:
        parallel, what: of `PARALLEL` and `FAILURES`.
        goes_on_s: how long training goes on if nothing happens.
        timeout_s: of its groups; 0: the same.
    """
    link = LINKS.get(what)
    told = Told(net, link)
    try:
        run = net.torch_run(
            SCRIPT, parallel, "nothing" if link else what, goes_on_s, timeout_s or goes_on_s,
            backend=backend, output=told, errors=told, timeout=MOST_S,
        )  # fmt: skip
    finally:
        if link is not None:
            net.set_link(*link, True)
    return run, told


def measure(
    backends: Sequence[str] = BACKENDS,
    parallel: Sequence[str] = PARALLEL,
    failures: Sequence[str] = FAILURES,
) -> dict[str, Any]:
    """Return a row for each backend, way to train and failure.

    Raises:
        MachineError: torch is not installed, or this is not a checkout.
        RunError: a network could not be brought up.
    """
    if not SCRIPT.exists():
        raise MachineError(f"{SCRIPT} is not there: run this in a checkout")
    rows = []
    with up(leaf_spine(leaves=2, spines=2, hosts_per_leaf=2)) as net:
        for backend in backends:
            for way in parallel:
                for what in failures:
                    print(f"{backend}, {way}: {what}", file=sys.stderr, flush=True)
                    goes_on_s = GOES_ON_S if backend == "weft" else GLOO_TIMEOUT_S
                    run, told = fail(net, way, what, backend, goes_on_s)
                    rows.append(
                        {"backend": backend, "parallel": way, "failure": what, **seen(what, told)}
                    )
                    rows[-1]["status"] = run.status
    return {"gloo_timeout_s": GLOO_TIMEOUT_S, "most_s": MOST_S, "rows": rows}


def seen(what: str, told: Told) -> dict[str, Any]:
    """Return what the ranks saw that go on: how many got an error and after how long, how many of
    these name what failed, how many trained to the end; `hang` are those to which nothing came
    until they were ended."""
    begun = told.having("fails")
    ranks = set(range(RANKS)) - ({FAILING} if what not in LINKS else set())
    errors = [each for each in told.having("error") if each["rank"] in ranks]
    ended = {each["rank"] for each in told.having("steps")}
    after_s = [round(each["at_s"] - begun[0]["at_s"], 1) for each in errors] if begun else []
    name = NAMED.get(what, f"rank {FAILING}")
    return {
        "errors": len(errors),
        "least_s": min(after_s, default=None),
        "greatest_s": max(after_s, default=None),
        "naming": sum(name in each["error"] for each in errors),
        "trained_on": len(ended),
        "hang": sorted(ranks - ended - {each["rank"] for each in errors}),
        "example": errors[0]["error"][:300] if errors else "",
    }


def cell(row: dict[str, Any]) -> str:
    """Return what the ranks saw, in words."""
    words = []
    if row["errors"]:
        first, last = row["least_s"], row["greatest_s"]
        time_s = f"{first:g} s" if first == last else f"{first:g} to {last:g} s"
        words.append(f"{time_s}, named by {row['naming']} of {row['errors']}")
    if row["trained_on"]:
        words.append("goes on" if not words else f"{row['trained_on']} go on")
    if row["hang"]:
        words.append(f"rank {', '.join(map(str, row['hang']))} hangs until it is ended")
    return "; ".join(words)


def lines(figures: dict[str, Any]) -> list[str]:
    """Return the figures as a table."""
    return table_lines(
        f"When a RuntimeError comes; timeout of Gloo's groups {figures['gloo_timeout_s']:g} s",
        {
            "backend": "{backend!s}", "training": "{parallel!s}", "failure": "{failure!s}",
            "survivors": "{cell!s}",
        },
        [{**row, "cell": cell(row)} for row in figures["rows"]],
    )  # fmt: skip
