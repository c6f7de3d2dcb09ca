"""``weft top``: what the links of a network that is up carry, as it goes on."""

import json
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer
from rich import box
from rich.live import Live
from rich.table import Table

from weft.base.command_line import Text
from weft.base.console import make_console
from weft.base.errors import InputError, RunError
from weft.base.units import format_rate, format_size, listed
from weft.cli.command_line import app
from weft.topo.worlds.emulated.watching import SORTED_BY, Load, WatchedRun, find_run, in_order

LEAST_S, MOST_S = 0.1, 3600.0
"""The pause between two readings: each costs the switch process a millisecond or so."""
KEYS = {"l": "link", "s": "load", "u": "queue", "d": "drops"}
"""By which key links are sorted how, while it goes on."""


@app.command()
def top(
    run: Annotated[
        Text, typer.Option("--run", metavar="ID", help="Which network, if several are up.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print once, and end.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print once, as JSON: a list of directions.")
    ] = False,
    sort: Annotated[
        str, typer.Option(metavar="|".join(SORTED_BY), help="By what links are sorted.")
    ] = "link",
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", help="Of what time rates are.")
    ] = 1.0,
) -> None:
    """Show what links of a network that is up carry, queue and drop, as it goes on."""
    if sort not in SORTED_BY:
        raise InputError(f"--sort {sort!r}: it is {listed(SORTED_BY, 'or')}")
    if not LEAST_S <= interval <= MOST_S:
        raise InputError(f"--interval {interval:g}: it is {LEAST_S:g} to {MOST_S:g} s")
    watched = find_run(run)
    if not (once or as_json) and sys.stdin.isatty() and sys.stdout.isatty():
        _go_on(watched, sort, interval)
        return
    before = watched.read()
    time.sleep(interval)
    loads = in_order(watched.loads(before, watched.read()), sort)
    if as_json:
        print(json.dumps([each.to_dict() for each in loads], indent=1))
        return
    console = make_console()
    console.print(f"{watched.description}. Run {watched.id}.")
    console.print_whole(loads_table(loads))


def loads_table(loads: Sequence[Load]) -> Table:
    """Return the table of what directions of links carry."""
    table = Table(box=box.SIMPLE)
    table.add_column("link")
    for column in ("rate", "load", "packets/s", "queue", "peak", "drops", "drops/s", "lost"):
        table.add_column(column, justify="right")
    for each in loads:
        table.add_row(
            each.link,
            format_rate(each.bits_per_s),
            f"{100 * each.load:.1f} %",
            f"{each.packets_per_s:,.0f}",
            format_size(each.queue_bytes),
            format_size(each.queue_peak_bytes),
            f"{each.drops:,}",
            f"{each.drops_per_s:,.0f}",
            f"{each.lost:,}",
        )
        for queue in reversed(each.queues):
            table.add_row(
                f"  priority {queue.priority}",
                format_rate(queue.bits_per_s),
                "",
                f"{queue.packets_per_s:,.0f}",
                format_size(queue.queue_bytes),
                format_size(queue.queue_peak_bytes),
                f"{queue.drops:,}",
                f"{queue.drops_per_s:,.0f}",
                "",
            )
    return table


@contextmanager
def _keys_as_they_come() -> Iterator[None]:
    """Let keys be read as they are pressed within the block."""
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _key(wait_s: float) -> str:
    """Return the key that is pressed within some time; nothing if none is."""
    ready, _, _ = select.select([sys.stdin], [], [], wait_s)
    return sys.stdin.read(1) if ready else ""


def _go_on(watched: WatchedRun, sort: str, interval_s: float) -> None:
    """Show the loads until q is pressed, or the run ends."""
    console = make_console()
    loads: list[Load] = []
    with _keys_as_they_come(), Live(console=console, auto_refresh=False, screen=True) as live:
        before = watched.read()
        until = time.monotonic() + min(interval_s, LEAST_S)
        while (key := _key(max(0.0, until - time.monotonic()))) != "q":
            sort = KEYS.get(key, sort)
            if time.monotonic() >= until:
                try:
                    after = watched.read()
                except RunError:
                    break
                loads, before = watched.loads(before, after), after
                until = time.monotonic() + interval_s
            table = loads_table(in_order(loads, sort)[: max(1, console.height - 6)])
            table.title = f"{watched.description}. Run {watched.id}."
            table.caption = f"by {sort}; l link, s load, u queue, d drops; q quits"
            live.update(table, refresh=True)
        else:
            return
    print(f"run {watched.id} has ended")
