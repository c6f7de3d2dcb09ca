"""``weft demo``."""

from typing import Annotated

import typer

from weft.base.command_line import Place, output_file, output_folder
from weft.base.garbage import uncollected
from weft.cli.command_line import app
from weft.topo.worlds.emulated.loading import begun_early

ALGORITHMS = "ring", "multicast"


@app.command()
def demo(
    out: Annotated[
        Place, typer.Option(metavar="DIR", help="Results folder. [results/demo-ID]")
    ] = None,
    events: Annotated[
        Place,
        typer.Option(metavar="FILE", help="Write what happens to it as JSON lines, while it runs."),
    ] = None,
) -> None:
    """Allgather of 1 MiB per rank, ring and multicast, on 4 leaves, 2 spines and 8 hosts.

    Links have 100 Mbit/s, which two processors carry with room to spare.
    """
    folder, told = output_folder(out), output_file(events)
    with begun_early(tuple(sorted(ALGORITHMS))):
        with uncollected():
            from weft.cli.run import run_and_tell
            from weft.experiments.scenario.scenario import Scenario
            from weft.experiments.scenario.sweep import Experiment

        asked = Experiment.of(Scenario(algorithms=ALGORITHMS))
        run_and_tell(asked, folder, False, name="demo", events=told)
