"""Preparation: it compiles everything that a run would otherwise compile when it first needs it.

All of it is kept in the cache (`weft.base.cache.cache_dir`) and made anew when its source changes.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

from weft.base.children import DIE_WITH_PARENT, python_command, python_path
from weft.base.native_code import make
from weft.base.outputs import killed
from weft.base.progress import Progress


def prepare(progress: Progress) -> None:
    """Fill the cache with the P4 program, its machine code, the packet loop and the agents'
    kernels, but for the sums of reduction servers, which are compiled where they are first used.

    A second process compiles one half of the kernels, by another core. Whatever comes of it, this
    one then finds them in the cache, or compiles them itself.
    """
    with progress.stage("program", "Compile the P4 program"):
        from weft.controller.features.program import featured_program

        featured_program()
    with _second_process() as second:
        with progress.stage("agents", "Compile the agents"):
            from weft.agents.drivers.rank import warm_up

            warm_up()
        with progress.stage("switch", "Compile the switch and the simulated world"):
            second.wait()
            _second_half()


def _second_half() -> None:
    """Compile the simulated world and the switch."""
    from weft.controller.features.program import featured_program
    from weft.switch.engine.switches import Dataplane
    from weft.switch.realtime.process import prepare as prepare_loop
    from weft.topo.worlds.simulated.fabric import prepare as prepare_simulator

    prepare_simulator()
    prepare_loop()
    Dataplane(1, 2).build(featured_program().json.read_text())


@contextlib.contextmanager
def _second_process() -> Iterator["subprocess.Popen[bytes]"]:
    """Start a process that compiles the second half, and end it with the block."""
    command = [*DIE_WITH_PARENT, *python_command("weft.experiments.runs.prepare")]
    environment = {**os.environ, "PYTHONPATH": python_path(os.environ.get("PYTHONPATH"))}
    no = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=no, stdout=no, stderr=no, env=environment)
    try:
        yield process
    finally:
        killed(process)


def _all() -> None:
    from weft.agents.collectives.sums import prepare as prepare_sums
    from weft.agents.drivers.rank import warm_up

    _second_half()
    warm_up()
    prepare_sums()


if __name__ == "__main__":
    if sys.argv[1:] == ["native"]:
        make(_all)
    else:
        _second_half()
