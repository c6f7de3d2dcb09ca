"""The ``weft`` command.

Exit status: 0 done, and every run's data verified; 1 a run failed or did not verify; 2 bad input,
or the machine lacks something; 130 interrupted; 143 terminated.
"""

from __future__ import annotations

import errno
import gc
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, Optional

import typer

from weft.base import signals, streams
from weft.base.command_line import (
    Flag,
    Place,
    Text,
    Texts,
    given,
    make_console,
    output_file,
    output_folder,
)
from weft.base.errors import InputError, MachineError, WeftError
from weft.experiments.bench import benchmarks
from weft.experiments.bench.benchmarks import NAMES
from weft.experiments.commands import network as cli_network
from weft.experiments.commands import testbed as cli_testbed
from weft.experiments.commands.network_options import (
    HostsPerLeaf,
    K,
    Leaves,
    MicroBatches,
    Oversubscription,
    PlacementOption,
    Rate,
    Spines,
    Tensor,
    Tiers,
    TopologyOption,
)
from weft.experiments.scenario.fsdp_models import MODELS, SLOWDOWN
from weft.switch.commands import command_line as cli_p4

if TYPE_CHECKING:
    from weft.experiments.scenario.sweep import Experiment

DEMO_RATE_BPS = 25_000_000
"""A new user's first run is to measure the network: at this rate a ring of 8 hosts takes less than
half of two processors' time, and at 100 Mbit/s all of it."""

app = typer.Typer(
    name="weft",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="A packet-level testbed for network-offloaded collectives on P4 switches.",
    epilog="Exit status: 0 done and verified; 1 a run failed or did not verify; 2 bad input or the "
    "machine lacks something; 130 interrupted; 143 terminated.",
)


@app.command()
def run(
    what: Annotated[
        str,
        typer.Argument(
            metavar="COLLECTIVE|FILE.toml",
            help="allgather, broadcast, reduce-scatter, allreduce, alltoall, many-to-one, "
            "flows, fsdp-interleave, or a scenario file.",
        ),
    ],
    world: Annotated[Text, typer.Option(help="emulated or simulated. [emulated]")] = None,
    switch: Annotated[
        Text, typer.Option(help="weft (built in) or bmv2 (simple_switch_grpc). [weft]")
    ] = None,
    topology: TopologyOption = None,
    leaves: Leaves = None,
    spines: Spines = None,
    hosts_per_leaf: HostsPerLeaf = None,
    k: K = None,
    tiers: Tiers = None,
    oversubscription: Oversubscription = None,
    paths: Annotated[
        Text,
        typer.Option(
            help="How flows get to their paths: ecmp (hashed), ecmp-N (in N pieces), destination "
            "(a fixed way to each), spray, spray-round-robin, reps, plb, ethereal, "
            "ethereal-ports. [ecmp]"
        ),
    ] = None,
    placement: PlacementOption = None,
    congestion: Annotated[
        Text,
        typer.Option(help="Senders react to losses (window) or to marks (dctcp). [by paths]"),
    ] = None,
    recovery: Annotated[
        Text, typer.Option(help="go-back-n or selective. [selective where paths reorder]")
    ] = None,
    ecn_threshold: Annotated[
        Text,
        typer.Option(
            metavar="N",
            help="Switches mark from a queue of N packets on. [of dctcp: by rate, delay and hosts]",
        ),
    ] = None,
    reorder: Annotated[
        Text,
        typer.Option(
            metavar="N",
            help="Selective: lost is what N packets have overtaken. [3; 32 where paths reorder]",
        ),
    ] = None,
    retransmit_timeout: Annotated[
        Text,
        typer.Option(
            metavar="TIME",
            help="Least time without acknowledgement after which a packet is sent again. "
            "[by rate, delay, queue and world]",
        ),
    ] = None,
    control_timeout: Annotated[
        Text,
        typer.Option(
            metavar="TIME",
            help="The same of barriers' and other small messages, where flows do not meet. "
            "[by rate, delay and world]",
        ),
    ] = None,
    rate: Rate = None,
    mtu: Annotated[
        Text,
        typer.Option(
            metavar="N", help="Path MTU, bytes of payload: 256, 512, 1024, 2048, 4096. [4096]"
        ),
    ] = None,
    size: Annotated[
        Text,
        typer.Option(
            help="Bytes that each rank contributes; of Broadcast: the root's; of Reduce-Scatter: "
            "that each ends with; of FSDP: of a layer, in place of a model. [1MiB]"
        ),
    ] = None,
    sizes: Annotated[
        Text,
        typer.Option(
            metavar="SIZE,...",
            help="Sizes of ranks 0, 1 and so on, from the start again at the end.",
        ),
    ] = None,
    algorithm: Annotated[
        Texts,
        typer.Option(
            help="May be repeated. Allgather: multicast, ring, linear, recursive-doubling; "
            "Broadcast: multicast, k-nomial, binary-tree, pipelined-ring; Reduce-Scatter: ring, "
            "recursive-halving, optcast, switch; Allreduce: ring, switch, optcast, "
            "halving-doubling, double-binary-tree, direct; alltoall, many-to-one: direct; "
            "fsdp-interleave: ring, in-network. "
            "[the first two]"
        ),
    ] = None,
    dtype: Annotated[
        Text, typer.Option(help="Type of the elements. [uint8; of reductions float32]")
    ] = None,
    op: Annotated[Text, typer.Option(help="Of reductions: sum, min, max or average. [sum]")] = None,
    data: Annotated[
        Text,
        typer.Option(
            help="Of sums of floats: exact, or as gradients are, normal, heavy-tailed or mixed; "
            "their errors are in the results. [exact]"
        ),
    ] = None,
    root: Annotated[
        Text, typer.Option(metavar="RANK", help="Whose buffer a Broadcast brings to all. [0]")
    ] = None,
    radix: Annotated[Text, typer.Option(metavar="K", help="Of the k-nomial tree. [2]")] = None,
    block: Annotated[
        Text,
        typer.Option(
            metavar="SIZE",
            help="What unicast algorithms pass on at a time. [64KiB, or an eighth of a shard]",
        ),
    ] = None,
    chains: Annotated[
        Text,
        typer.Option(metavar="N", help="Chains of the multicast Allgather. [as many as ranks]"),
    ] = None,
    workers: Annotated[
        Text,
        typer.Option(
            metavar="W",
            help="Multicast: subgroups that share nothing, each with trees of its own. [1]",
        ),
    ] = None,
    chunk: Annotated[
        Text,
        typer.Option(metavar="SIZE", help="Multicast: unit of recovery, 64 B to 64KiB. [the MTU]"),
    ] = None,
    batch: Annotated[
        Text, typer.Option(metavar="N", help="Multicast: chunks that leave back to back. [1]")
    ] = None,
    cutoff: Annotated[
        Text, typer.Option(help="When to fetch: adaptive, paper or fetch-only. [adaptive]")
    ] = None,
    servers: Annotated[
        Text,
        typer.Option(metavar="S", help="Optcast: reduction servers. [as many as ranks]"),
    ] = None,
    server_placement: Annotated[
        Text,
        typer.Option(help="Optcast: servers have dedicated hosts, or the ranks'. [dedicated]"),
    ] = None,
    split: Annotated[
        Text, typer.Option(metavar="N", help="Optcast: pieces of a request. [one a server]")
    ] = None,
    fan_in: Annotated[
        Text,
        typer.Option(metavar="N", help="Optcast: most contributions to one server. [no limit]"),
    ] = None,
    slots: Annotated[
        Text, typer.Option(metavar="N", help="Switch: rounds under way at a time. [128]")
    ] = None,
    values: Annotated[
        Text, typer.Option(metavar="V", help="Switch: numbers in a packet. [256; BMv2 64]")
    ] = None,
    jobs: Annotated[
        Text, typer.Option(metavar="N", help="Communicators that share the network. [1]")
    ] = None,
    model: Annotated[
        Text, typer.Option(help=f"FSDP: whose layers, {', '.join(MODELS)}. [{MODELS[0]}]")
    ] = None,
    layers: Annotated[
        Text,
        typer.Option(
            metavar="N", help="FSDP: steps that are run [6]; flows of a model: layers. [all]"
        ),
    ] = None,
    workload: Annotated[
        Text,
        typer.Option(
            metavar="FILE|MODEL",
            help="Flows: a connection matrix (.cm), Chakra's traces (.0.et), or a step of gpt-7b, "
            "gpt-13b, gpt-small, gpt-medium, gpt-xl.",
        ),
    ] = None,
    tensor: Tensor = None,
    micro_batches: MicroBatches = None,
    slowdown: Annotated[
        Text,
        typer.Option(
            metavar="X",
            help="FSDP, flows: a layer takes X times as long as at 400 Gbit/s. "
            f"[{SLOWDOWN}; flows of a model 10]",
        ),
    ] = None,
    loss: Annotated[
        Text, typer.Option(help="Loss probability of every link and direction: 0.01 or 1%. [0]")
    ] = None,
    fault: Annotated[
        Texts,
        typer.Option(
            help="LINK:loss=P, like leaf0-spine1:loss=0.1, or WHERE:fail,at=TIME, "
            "WHERE:slow,rate=PART and more (docs/faults.md); may be repeated."
        ),
    ] = None,
    notice: Annotated[
        Text,
        typer.Option(help="Failed links are known and avoided never, at-once or late. [never]"),
    ] = None,
    notice_after: Annotated[
        Text, typer.Option(metavar="TIME", help="Of --notice late: after that time. [100ms]")
    ] = None,
    delay: Annotated[
        Text, typer.Option(help="Propagation delay of every link; simulated world alone. [0]")
    ] = None,
    queue: Annotated[Text, typer.Option(help="Bound of each switch port's queue. [512KiB]")] = None,
    timeout: Annotated[
        Text, typer.Option(help="Longest time an operation may take, in seconds. [by its size]")
    ] = None,
    operations: Annotated[
        Text, typer.Option(metavar="N", help="Operations of one run. [1]")
    ] = None,
    at_once: Annotated[
        Text, typer.Option(metavar="N", help="How many of them run at the same time. [1]")
    ] = None,
    seed: Annotated[
        Text, typer.Option(metavar="N", help="Seed of data, losses and hashes. [1]")
    ] = None,
    seeds: Annotated[
        Text,
        typer.Option(
            metavar="A..B", help="Run for each seed; tell means and ranges: 1..20 or 1,2,5."
        ),
    ] = None,
    repeat: Annotated[Text, typer.Option(metavar="N", help="Runs of each algorithm. [1]")] = None,
    pcap: Annotated[
        Flag, typer.Option("--pcap/--no-pcap", help="Capture at both ends of every link. [no]")
    ] = None,
    trace: Annotated[
        Text,
        typer.Option(metavar="SWITCH", help="Trace a switch's first packets, step by step. [none]"),
    ] = None,
    links: Annotated[
        Text,
        typer.Option(help="Between built-in switches: veth pairs, or patch, in process. [veth]"),
    ] = None,
    predict: Annotated[
        Flag, typer.Option("--predict/--no-predict", help="Simulate an emulated run first. [yes]")
    ] = None,
    out: Annotated[
        Place, typer.Option(metavar="DIR", help="Results folder. [results/COLLECTIVE-ID]")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the results document and nothing else.")
    ] = False,
) -> None:
    """Run a collective, or a scenario file, and verify every byte of its result."""
    from weft.experiments.scenario.checks import COLLECTIVES
    from weft.experiments.scenario.options import from_options
    from weft.experiments.scenario.sweep import Experiment, read_file

    folder = output_folder(out)
    options = given(
        world=world, switch=switch, topology=topology, leaves=leaves, spines=spines,
        hosts_per_leaf=hosts_per_leaf, k=k, tiers=tiers, paths=paths, rate=rate, mtu=mtu,
        oversubscription=oversubscription, placement=placement, congestion=congestion,
        recovery=recovery, ecn_threshold=ecn_threshold, reorder=reorder,
        retransmit_timeout=retransmit_timeout, control_timeout=control_timeout,
        size=size, sizes=sizes, algorithm=algorithm, dtype=dtype, op=op, data=data,
        root=root, radix=radix,
        block=block, chains=chains, workers=workers, chunk=chunk, batch=batch, cutoff=cutoff,
        servers=servers, server_placement=server_placement, split=split,
        fan_in=fan_in, slots=slots, values=values, jobs=jobs, model=model, layers=layers,
        workload=workload, tensor=tensor, micro_batches=micro_batches,
        slowdown=slowdown, loss=loss,
        fault=fault, notice=notice, notice_after=notice_after,
        delay=delay, queue=queue, operations=operations, at_once=at_once,
        timeout=timeout, seed=seed, seeds=seeds, repeat=repeat, pcap=pcap, links=links,
        trace=trace, predict=predict,
    )  # fmt: skip
    if what.endswith(".toml"):
        experiment = read_file(Path(what), options)
    elif what in COLLECTIVES:
        experiment = Experiment.of(from_options({"collective": what, **options}))
    else:
        raise InputError(
            f"cannot run {what!r}: name a collective ({', '.join(COLLECTIVES)}) or a "
            "scenario file that ends in .toml"
        )
    _run(experiment, folder, as_json)


@app.command()
def demo(
    out: Annotated[
        Place, typer.Option(metavar="DIR", help="Results folder. [results/demo-ID]")
    ] = None,
) -> None:
    """Allgather of 1 MiB per rank, ring and multicast, on 4 leaves, 2 spines and 8 hosts.

    Links have 25 Mbit/s, which two processors carry with room to spare.
    """
    from weft.experiments.scenario.scenario import Scenario
    from weft.experiments.scenario.sweep import Experiment

    asked = Experiment.of(Scenario(algorithms=("ring", "multicast"), rate_bps=DEMO_RATE_BPS))
    _run(asked, output_folder(out), False, name="demo")


def _run(asked: Experiment, out: Path | None, as_json: bool, name: str | None = None) -> NoReturn:
    from weft.base.progress import Progress
    from weft.experiments.results import table
    from weft.experiments.results.results import DOCUMENT
    from weft.experiments.results.summary import doubts, which_run
    from weft.experiments.runs import runner

    errors = make_console(stderr=True)
    with Progress(errors, quiet=as_json and not errors.is_terminal) as progress:
        outcome = runner.run_to_folder(asked, out=out, name=name, progress=progress)
    results = outcome.results
    if as_json:
        json.dump(results.to_dict(), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        console = make_console()
        found = table.summary_table(results)
        if not console.is_terminal:  # nothing is cut where lines may be of any length
            wide = console.options.update(width=1000)
            console.width = max(console.width, console.measure(found, options=wide).maximum)
        console.print()
        console.print(found)
        for single in results.runs:
            if single.error:
                named = which_run(results, single)
                console.print(f"{named}: {single.error}", style="red", markup=False)
        for named, verdict, reason in doubts(results):
            console.print(f"fidelity of {named}: {verdict}, since {reason}", markup=False)
        for note in results.notes:
            console.print(f"Note: {note}", markup=False)
        if not outcome.unwritten:
            document = outcome.folder / DOCUMENT
            console.print(f"Results: {document}", soft_wrap=True, markup=False)
            console.print(f"Report:  {outcome.report}", soft_wrap=True, markup=False)
            for plot in outcome.plots:
                console.print(f"Plot:    {plot}", soft_wrap=True, markup=False)
        if outcome.captures:
            console.print(f"Captures: {outcome.captures}", soft_wrap=True, markup=False)
    if outcome.unwritten:
        raise MachineError(outcome.unwritten)
    sys.exit(0 if results.verified else 1)


app.command()(cli_p4.p4c)
app.command()(cli_p4.stf)
app.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    help="Run one built-in switch in place of simple_switch_grpc: weft switch --help.",
)(cli_p4.switch)
app.command()(cli_network.topology)
app.command()(cli_network.paths)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A results folder.")],
    out: Annotated[
        Place,
        typer.Option("-o", "--out", metavar="FILE", help="HTML file. [DIR/report.html]"),
    ] = None,
) -> None:
    """Make one self-contained HTML page of a results folder."""
    from weft.experiments.report import write_report
    from weft.experiments.results.results import Results

    file = output_file(out)
    results = Results.read(folder)
    home = folder if folder.is_dir() else folder.parent
    print(write_report(results.to_dict(), file or home / "report.html").resolve())


@app.command()
def plot(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A results folder.")],
) -> None:
    """Draw the plots of a results folder anew, as SVG and PNG."""
    from weft.experiments.plots.draw import write_plots
    from weft.experiments.results.results import Results

    results = Results.read(folder)
    if not results.plots:
        raise InputError(
            f"the results in {str(folder)!r} ask for no plots: a scenario file does, with [[plot]]"
        )
    for file in write_plots(results, folder if folder.is_dir() else folder.parent):
        print(file.resolve())


@app.command()
def doctor() -> None:
    """Say what this machine can do, what is missing, and how to get it."""
    from weft.experiments.commands.doctor import examine

    sys.exit(examine(make_console()))


@app.command()
def clean() -> None:
    """Remove what killed runs left behind, and only that."""
    from weft.topo.worlds.emulated import cleanup

    removed = cleanup.clean()
    for what in removed:
        print(f"removed {what}")
    if not removed:
        print("nothing to remove")


@app.command()
def bench(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help=f"{', '.join(NAMES[:-1])} or {NAMES[-1]}."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    out: Annotated[
        Place,
        typer.Option(metavar="DIR", help="Write NAME.json, and plots where there are some, to it."),
    ] = None,
) -> None:
    """Measure something on this machine; figures come with something to compare them to."""
    from weft.experiments.runs.busyness import watched

    module = benchmarks.load(name)
    folder = output_folder(out)
    if folder is not None:
        benchmarks.check_writable(folder)
    figures, busyness = watched(module.measure)
    figures["machine"] = busyness.to_dict()
    if as_json:
        print(json.dumps(figures, indent=1))
    else:
        print("\n".join([*benchmarks.lines(name, figures), *busyness.lines()]))
    if folder is not None:
        for file in benchmarks.write(module, name, figures, folder):
            # What is asked for as JSON is JSON alone.
            print(f"Written: {file.resolve()}", file=sys.stderr if as_json else sys.stdout)


@app.command()
def docs(
    names: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(metavar="[NAME]...", help="Scenario files in experiments/scenarios."),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Run them under ten seeds and keep their figures.")
    ] = False,
    world: Annotated[
        Text, typer.Option(help="Measure in this one alone: emulated or simulated. [both]")
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Change nothing: fail where a page or a figure has moved. [the quick]"
        ),
    ] = False,
) -> None:
    """Make the tables and plots of docs/ anew, from figures that are kept in docs/figures."""
    from weft.base.progress import Progress
    from weft.experiments.figures import command
    from weft.experiments.figures.measure import WORLDS

    chosen = names or []
    if measure and (check or not chosen):
        raise InputError("docs --measure: name the scenario files to measure, and leave --check")
    if world and (not measure or world not in WORLDS):
        raise InputError(f"docs --world {world!r}: it is emulated or simulated, with --measure")
    if chosen and not (measure or check):
        raise InputError("docs NAME: say --measure or --check; without names all pages are made")
    with Progress(make_console(stderr=True)) as progress:
        if check:
            command.check(chosen, progress)
            return
        for file in command.keep(chosen, progress, [world] if world else WORLDS):
            print(f"Kept: {file}")
        for page in command.make_pages():
            print(f"Changed: {page}")


@app.command(hidden=True)
def prepare() -> None:
    """Compile what the first run would otherwise compile; set-up calls it."""
    from weft.base.progress import Progress
    from weft.experiments.runs.prepare import prepare as fill_cache

    with Progress(make_console(stderr=True)) as progress:
        fill_cache(progress)


for command in (cli_testbed.up, cli_testbed.shell, cli_testbed.load):
    app.command()(command)


def main() -> NoReturn:
    """Run the command line; never returns."""
    signals.end_on_signals()
    streams.guard()
    try:
        try:
            app(prog_name="weft")
        except WeftError as error:
            _fail(error)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            place = error.filename or "a file of the run or of the cache"
            _fail(MachineError(f"{place} cannot be written: {error.strerror}; make room"))
        finally:
            streams.flush()
            gc.freeze()  # what there is goes with the process, and need not be looked through
    except WeftError as error:  # standard output takes no more
        _fail(error)
    finally:
        signals.leave()
    sys.exit(0)


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _fail(error: WeftError) -> NoReturn:
    print(f"weft: {error}", file=sys.stderr)
    sys.exit(error.exit_status)


if __name__ == "__main__":
    main()
