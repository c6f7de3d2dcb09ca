"""``weft top``: what links of a network that is up carry, and how often packets hit tables of its
switches, as it goes on."""

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
from rich.console import Group
from rich.live import Live
from rich.table import Table

from weft.base.command_line import Text
from weft.base.console import make_console
from weft.base.errors import InputError, RunError
from weft.base.units import format_rate, format_size, listed
from weft.cli.command_line import app
from weft.topo.worlds.emulated.watching import (
    SORTED_BY,
    Load,
    TableLoad,
    WatchedRun,
    find_run,
    in_order,
    table_loads,
)

LEAST_S, MOST_S = 0.1, 3600.0
"""The pause between two readings: each costs the switch process a millisecond or so."""
FRAME_ROWS = 4
"""The rows of a table's head and margins."""
KEYS = {"l": "link", "s": "load", "u": "queue", "d": "drops"}
"""By which key links are sorted how, while it goes on."""


@app.command()
def top(
    run: Annotated[
        Text, typer.Option("--run", metavar="ID", help="Which network, if several are up.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print once, and end.")] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print once, as JSON: a list of directions, or of tables."),
    ] = False,
    only_tables: Annotated[
        bool, typer.Option("--tables", help="Only tables of switches, without links.")
    ] = False,
    sort: Annotated[
        str, typer.Option(metavar="|".join(SORTED_BY), help="By what links are sorted.")
    ] = "link",
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", help="Of what time rates are.")
    ] = 1.0,
) -> None:
    """Show what links of a network that is up carry, queue and drop, and how often packets hit and
    miss tables of its switches, as it goes on."""
    if sort not in SORTED_BY:
        raise InputError(f"--sort {sort!r}: it is {listed(SORTED_BY, 'or')}")
    if not LEAST_S <= interval <= MOST_S:
        raise InputError(f"--interval {interval:g}: it is {LEAST_S:g} to {MOST_S:g} s")
    watched = find_run(run)
    if not (once or as_json) and sys.stdin.isatty() and sys.stdout.isatty():
        _go_on(watched, sort, interval, only_tables)
        return
    before = watched.read()
    time.sleep(interval)
    after = watched.read()
    loads, tables = in_order(watched.loads(before, after), sort), table_loads(before, after)
    if as_json:
        told = tables if only_tables else loads
        print(json.dumps([each.to_dict() for each in told], indent=1))
        return
    console = make_console()
    console.print(f"{watched.description}. Run {watched.id}.")
    if not only_tables:
        console.print_whole(loads_table(loads))
    if tables or only_tables:
        console.print_whole(tables_table(tables))


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


def tables_table(loads: Sequence[TableLoad]) -> Table:
    """Return the table of how often packets hit tables."""
    table = Table(box=box.SIMPLE)
    for column in ("switch", "table"):
        table.add_column(column)
    for column in ("hits/s", "misses/s", "hits", "misses"):
        table.add_column(column, justify="right")
    for each in loads:
        table.add_row(
            each.switch,
            each.table,
            f"{each.hits_per_s:,.0f}",
            f"{each.misses_per_s:,.0f}",
            f"{each.hits:,}",
            f"{each.misses:,}",
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


def _go_on(watched: WatchedRun, sort: str, interval_s: float, only_tables: bool) -> None:
    """Show the loads until q is pressed, or the run ends."""
    console = make_console()
    loads: list[Load] = []
    tables: list[TableLoad] = []
    with _keys_as_they_come(), Live(console=console, auto_refresh=False, screen=True) as live:
        before = watched.read()
        until = time.monotonic() + min(interval_s, LEAST_S)
        while (key := _key(max(0.0, until - time.monotonic()))) != "q":
            sort = KEYS.get(key, sort)
            only_tables ^= key == "t"
            if time.monotonic() >= until:
                try:
                    after = watched.read()
                except RunError:
                    break
                loads, tables = watched.loads(before, after), table_loads(before, after)
                before, until = after, time.monotonic() + interval_s
            shown = _screen([] if only_tables else in_order(loads, sort), tables, console.height)
            shown[0].title = f"{watched.description}. Run {watched.id}."
            shown[-1].caption = f"by {sort}; l link, s load, u queue, d drops; t tables; q quits"
            live.update(Group(*shown), refresh=True)
        else:
            return
    print(f"run {watched.id} has ended")


def _screen(links: Sequence[Load], tables: Sequence[TableLoad], height: int) -> list[Table]:
    """Return what fits: of links and of tables half of the rows each, or what the others leave."""
    if not links or not tables:
        room = max(1, height - FRAME_ROWS - 2)
        return [loads_table(links[:room]) if links else tables_table(tables[:room])]
    room = max(2, height - 2 * FRAME_ROWS - 2)
    of_links = min(len(links), max(room // 2, room - len(tables)))
    return [loads_table(links[:of_links]), tables_table(tables[: room - of_links])]
