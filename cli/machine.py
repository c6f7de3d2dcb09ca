"""Commands that look after this machine: ``weft doctor``, ``weft clean`` and ``weft prepare``."""

import sys
from typing import Annotated

import typer

from weft.base import cache
from weft.base.cache import BOUND_BYTES
from weft.base.console import make_console
from weft.base.errors import refuse
from weft.base.units import format_size, parse_size
from weft.cli.command_line import app


@app.command()
def doctor() -> None:
    """Say what this machine can do, what is missing, and how to get it."""
    from weft.cli.doctor import examine

    sys.exit(examine(make_console()))


@app.command()
def clean(
    of_cache: Annotated[
        bool,
        typer.Option(
            "--cache",
            help="Instead, remove what was not used for longest from the cache, until it takes at "
            "most SIZE.",
        ),
    ] = False,
    size: Annotated[
        str | None,
        typer.Argument(
            metavar="SIZE",
            help="Of --cache: like 200MiB, or 0.",
            show_default=format_size(BOUND_BYTES),
        ),
    ] = None,
) -> None:
    """Remove what killed runs left behind, and only that."""
    refuse(
        size is not None and not of_cache,
        f"clean takes a size ({size}) with --cache alone: weft clean --cache {size}",
    )
    if of_cache:
        most_bytes = BOUND_BYTES if size is None else parse_size(size)
        gone = cache.bound(most_bytes)
        print(f"removed {len(gone)} files, {cache.size_of(gone)}")
        print(f"left: {cache.size_of(cache.kept())} in {cache.cache_dir()}")
        return
    from weft.topo.worlds.emulated import cleanup

    removed = cleanup.clean()
    for what in removed:
        print(f"removed {what}")
    if not removed:
        print("nothing to remove")


@app.command(hidden=True)
def prepare() -> None:
    """Compile what the first run would otherwise compile; set-up calls it."""
    from weft.base.progress import Progress
    from weft.experiments.runs.prepare import prepare as fill_cache

    with Progress(make_console(stderr=True)) as progress:
        fill_cache(progress)
