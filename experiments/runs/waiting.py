"""Waiting for machine code, so that nothing is measured in the plain form."""

from contextlib import nullcontext

from weft.base.console import make_console
from weft.base.progress import Progress
from weft.topo.worlds.world import World


def wait_for_code(world: World, progress: Progress | None = None) -> None:
    """Return once all switches are as fast as they can be, and say so where that takes time.

    Args:
        progress: where it is said; None: on standard error.

    Raises:
        RunError: a program cannot be compiled.
    """
    if plain := world.plain():
        with (
            nullcontext(progress) if progress else Progress(make_console(stderr=True)) as shown,
            shown.stage("machine_code", f"Wait for machine code of {', '.join(plain)}"),
        ):
            world.wait_for_code()
