"""``weft simulate``: flows of other programs in virtual time, as lines of JSON."""

import sys
from typing import Annotated, Any

import typer

from weft.base.command_line import Place, output_file
from weft.cli.command_line import app
from weft.cli.network_files import File, given_network
from weft.cli.scenario_options import scenario_options

SHAPE = (
    "topology", "leaves", "spines", "hosts-per-leaf", "pods", "uplinks", "k", "tiers",
    "oversubscription", "core-oversubscription", "rate", "delay", "queue",
)  # fmt: skip
TRANSPORT = (
    "paths", "mtu", "congestion", "recovery", "ecn-threshold", "reorder", "retransmit-timeout",
    "control-timeout", "loss", "seed",
)  # fmt: skip


@app.command()
@scenario_options(*SHAPE, *TRANSPORT, seed="Seed of hashes, losses and packets.")
def simulate(
    options: dict[str, Any],
    file: File = None,
    fast_forward: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Leave out packets where all flows were steady for windows of N round trips. "
            "[carry all]",
        ),
    ] = None,
    listen: Annotated[
        Place,
        typer.Option(
            metavar="SOCKET",
            help="Serve programs at this Unix socket, one after the other, each with a simulation "
            "of its own. [standard input and output]",
        ),
    ] = None,
) -> None:
    """Carry flows that other programs send as lines of JSON, in virtual time."""
    from weft.interface.flows import lines
    from weft.interface.flows.simulation import Simulation

    transport = {name.replace("-", "_") for name in TRANSPORT}
    network = {name: value for name, value in options.items() if name not in transport}
    asked = {name: value for name, value in options.items() if name in transport}
    topology = given_network(file, network).scenario.network()

    def make() -> Simulation:
        return Simulation(topology, fast_forward=fast_forward, **asked)

    if (path := output_file(listen, "--listen")) is not None:
        make()  # what is asked for makes sense
        lines.listen(path, make, lambda text: print(text, file=sys.stderr, flush=True))
        return
    lines.converse(make(), sys.stdin.buffer, lambda line: print(line.decode(), end="", flush=True))
