"""What ``weft torch run`` does."""

import secrets
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

from weft.base.console import make_console
from weft.base.progress import Progress
from weft.base.streams import raw
from weft.experiments.families.programs.asked import ProgramAsked, check_program
from weft.experiments.families.programs.results import TRACE
from weft.experiments.families.programs.table import (
    collectives_table,
    faults_table,
    lines,
    ranks_table,
)
from weft.experiments.families.programs.torch_run import check, torch_run
from weft.experiments.results.document import DOCUMENT
from weft.experiments.runs.folder import REPORT, ResultsFolder
from weft.experiments.scenario.options import from_options
from weft.interface.net import Net


def run_to_folder(
    network: Mapping[str, Any],
    script: str,
    arguments: Sequence[str],
    options: ProgramAsked,
    out: Path | None,
) -> NoReturn:
    """Bring a network up, run a program on its hosts, and write what came of it.

    Args:
        network: options of the network, as text.
        out: the results folder; None: a new one.

    Raises:
        InputError, MachineError: something of this makes no sense, or is not there; nothing has
            begun then.
    """
    check_program(script, arguments, options)
    scenario = from_options({"collective": "allgather", **network})
    folder = ResultsFolder(out or Path("results") / f"torch-{secrets.token_hex(4)}")
    console = make_console(stderr=True)
    with ExitStack() as stack:
        stack.callback(folder.close)
        with Progress(console) as progress:
            with progress.stage("program", "Compile the P4 program"):
                net = Net(scenario)
            check(net, script, arguments, options)
            folder.make(captures=False, traces=False)
            with progress.stage("bring_up", f"Bring up {net.topology.describe()}"):
                stack.enter_context(net)
        ranks_asked = options.ranks or len(net.topology.hosts)
        console.print(f"Load PyTorch and start {ranks_asked} ranks", markup=False, highlight=False)
        run = torch_run(
            net, script, arguments, options, output=raw(sys.stdout), errors=raw(sys.stderr),
            folder=folder,
        )  # fmt: skip
    shown = make_console()
    shown.print_whole(ranks_table(run))
    if run.collectives():
        shown.print_whole(collectives_table(run))
    if run.faults:
        shown.print_whole(faults_table(run))
    for line in lines(run):
        shown.print(line, markup=False, highlight=False, soft_wrap=True)
    if run.error:
        shown.print(run.error, style="red", markup=False, soft_wrap=True)
    for what, name in (("Results", DOCUMENT), ("Report", REPORT), ("Timeline", TRACE)):
        shown.print(f"{what + ':':9} {folder.path / name}", soft_wrap=True, markup=False)
    sys.stdout.flush()
    sys.exit(run.status)
