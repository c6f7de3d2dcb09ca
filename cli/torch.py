"""``weft torch run``: a program of PyTorch on the hosts of a network."""

from typing import Annotated, Any, Optional

import typer

from weft.base.command_line import Place, output_folder
from weft.base.errors import InputError
from weft.cli.command_line import app as weft_app
from weft.cli.scenario_options import GroupedCommand, scenario_options
from weft.experiments.families.programs.asked import ProgramAsked
from weft.experiments.paths.names import unassigned_schemes

app = typer.Typer(
    name="torch",
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Run programs of PyTorch on the hosts of a network of P4 switches.",
)
weft_app.add_typer(app)


_ONE_EACH = (
    "each host runs one rank; choose the network, as by --leaves and --hosts-per-leaf, and of its "
    "hosts the first N by --ranks N"
)
_BY_ITSELF = "ranks find each other by themselves; leave it out"
_NOT_THERE = "there is no such thing here; leave it out"
TORCHRUN = {
    **dict.fromkeys(("nproc-per-node", "nnodes"), _ONE_EACH),
    **dict.fromkeys(
        ("node-rank", "master-addr", "master-port", "local-addr", "standalone", "rdzv-backend",
         "rdzv-endpoint", "rdzv-id", "rdzv-conf"), _BY_ITSELF,
    ),
    **dict.fromkeys(
        ("monitor-interval", "start-method", "role", "log-dir", "redirects", "tee",
         "local-ranks-filter", "run-path", "no-python"), _NOT_THERE,
    ),
}  # fmt: skip
"""What to say instead of torchrun's options, which have underscores or hyphens."""


class _LikeTorchrun(GroupedCommand):
    """A command that knows torchrun's options well enough to say what takes their place."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except typer.Exit:
            raise
        except Exception as error:
            given = str(getattr(error, "option_name", ""))
            instead = TORCHRUN.get(given.lstrip("-").replace("_", "-"))
            if instead is None:
                raise
            raise InputError(f"{given} is an option of torchrun: {instead}") from error


@app.callback()
def common() -> None:
    """What the commands of this group share: nothing."""


@app.command(
    cls=_LikeTorchrun,
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@scenario_options(
    "topology", "leaves", "spines", "hosts-per-leaf", "pods", "uplinks", "k", "tiers", "rate",
    "delay", "queue", "oversubscription", "core-oversubscription", "switch", "links",
    "mtu", "paths", "loss", "recovery", "seed", "module",
    more=ProgramAsked,
    paths=f"{', '.join(unassigned_schemes())}.",
    loss="Probability that each link and direction loses a packet.",
    seed="Seed of hashes and losses.",
)  # fmt: skip
def run(
    script: Annotated[
        str, typer.Argument(metavar="SCRIPT", help="A Python file; with -m the name of a module.")
    ],
    options: dict[str, Any],
    more: ProgramAsked,
    arguments: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(metavar="[ARGUMENT]...", help="The program's own."),
    ] = None,
    module: Annotated[
        bool, typer.Option("-m", "--module", help="SCRIPT is the name of a module.")
    ] = False,
    out: Annotated[
        Place, typer.Option(metavar="DIR", help="Results folder. [results/torch-ID]")
    ] = None,
) -> None:
    """Run a script on every host, as torchrun does; a bare init_process_group() gets the fabric.

    Each rank is a process in its host's namespace. Its collectives go over the network of P4
    switches, which multicast and add for it; the rendezvous goes by a network of its own.
    """
    from weft.cli.torch_run import run_to_folder

    words = [script, *(arguments or [])]
    name = "-m" if module else words.pop(0)
    run_to_folder(options, name, words, more, output_folder(out))
