"""``weft torch run``: a program of PyTorch on the hosts of a network."""

from typing import Annotated, Any, Optional

import typer

from weft.base.command_line import Place, Text, output_folder
from weft.base.units import parse_duration
from weft.experiments.commands.scenario_options import GroupedCommand, scenario_options
from weft.experiments.paths.names import unassigned_schemes

app = typer.Typer(
    name="torch",
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Run programs of PyTorch on the hosts of a network of P4 switches.",
)


@app.callback()
def common() -> None:
    """What the commands of this group share: nothing."""


def _algorithm(collective: str, listed: str) -> Any:
    from weft.pytorch.defaults import DEFAULTS

    return typer.Option(
        f"--{collective}",
        metavar="ALGORITHM",
        help=f"{listed}; by size: 'ring<64KiB,...'. [{DEFAULTS[collective]}]",
    )


@app.command(
    cls=GroupedCommand,
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@scenario_options(
    "topology", "leaves", "spines", "hosts-per-leaf", "k", "tiers", "rate", "delay", "queue",
    "oversubscription", "switch", "links", "mtu", "paths", "loss", "recovery", "seed",
    paths=f"{', '.join(unassigned_schemes())}.",
    loss="Probability that each link and direction loses a packet.",
    seed="Seed of hashes and losses.",
)  # fmt: skip
def run(
    script: Annotated[
        str, typer.Argument(metavar="SCRIPT", help="A Python file; with -m the name of a module.")
    ],
    options: dict[str, Any],
    arguments: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(metavar="[ARGUMENT]...", help="The program's own."),
    ] = None,
    module: Annotated[
        bool, typer.Option("-m", "--module", help="SCRIPT is the name of a module.")
    ] = False,
    ranks: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(metavar="N", help="Ranks, on the first hosts. [one on every host]"),
    ] = None,
    backend: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="What init_process_group() without a backend gets: weft or gloo."
        ),
    ] = "weft",
    allgather: Annotated[Text, _algorithm("allgather", "multicast, ring, ...")] = None,
    broadcast: Annotated[Text, _algorithm("broadcast", "multicast, k-nomial, ...")] = None,
    reduce_scatter: Annotated[
        Text, _algorithm("reduce-scatter", "ring, switch, optcast, ...")
    ] = None,
    allreduce: Annotated[Text, _algorithm("allreduce", "ring, switch, optcast, ...")] = None,
    timeout: Annotated[
        Text, typer.Option(metavar="TIME", help="After so long the program is ended. [1h]")
    ] = None,
    out: Annotated[
        Place, typer.Option(metavar="DIR", help="Results folder. [results/torch-ID]")
    ] = None,
) -> None:
    """Run a script on every host, as torchrun does; a bare init_process_group() gets the fabric.

    Each rank is a process in its host's namespace. Its collectives go over the network of P4
    switches, which multicast and add for it; the rendezvous goes by a network of its own.
    """
    from weft.experiments.training.command import run_to_folder

    asked = {
        "allgather": allgather,
        "broadcast": broadcast,
        "reduce-scatter": reduce_scatter,
        "allreduce": allreduce,
    }
    given = [*(arguments or [])]
    name, words = ("-m", [script, *given]) if module else (script, given)
    limit_s = None if timeout is None else parse_duration(timeout, "timeout") / 1e9
    run_to_folder(
        options,
        name,
        words,
        algorithms={collective: text for collective, text in asked.items() if text is not None},
        backend=backend,
        ranks=ranks,
        limit_s=limit_s,
        out=output_folder(out),
    )
