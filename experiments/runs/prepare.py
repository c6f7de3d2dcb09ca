"""Preparation: it compiles everything that a run would otherwise compile when it first needs it.

All of it is kept in the cache (`weft.base.cache.cache_dir`) and made anew when its source changes.
"""

from weft.base.progress import Progress


def prepare(progress: Progress) -> None:
    """Fill the cache with the P4 program, its machine code, the packet loop and the agents'
    kernels."""
    with progress.stage("program", "Compile the P4 program"):
        from weft.controller.features.program import featured_program

        program = featured_program()
    with progress.stage("switch", "Compile the switch"):
        from weft.switch.engine.switches import Dataplane
        from weft.switch.realtime.process import prepare as prepare_loop

        prepare_loop()
        Dataplane(1, 2).build(program.json.read_text())
    with progress.stage("agents", "Compile the agents"):
        from weft.agents.drivers.rank import warm_up

        warm_up()
    with progress.stage("simulator", "Compile the simulated world"):
        from weft.topo.worlds.simulated.fabric import prepare as prepare_simulator

        prepare_simulator()
