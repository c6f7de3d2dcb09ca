"""``weft torch run``: a program of PyTorch on all hosts of a network that is up."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import msgspec

from weft.agents.collectives.fixed_point import losses, saturation
from weft.agents.collectives.registry import named
from weft.base.children import how_it_ended, python_path
from weft.base.errors import refuse
from weft.controller import Plan
from weft.experiments.families.programs.asked import NAMES_FOR_WEFT, ProgramAsked, check_program
from weft.experiments.families.programs.group_trees import GroupTrees
from weft.experiments.families.programs.management import Management, management_network
from weft.experiments.families.programs.processes import RankServer
from weft.experiments.families.programs.ranks import Rank, Ranks, reason_of
from weft.experiments.families.programs.report import render
from weft.experiments.families.programs.results import TorchRank, TorchRun, rank_of, trace_of
from weft.experiments.families.programs.silence import Silences
from weft.experiments.results.document import DOCUMENT
from weft.experiments.results.results import tier_bytes
from weft.experiments.runs.folder import REPORT, ResultsFolder
from weft.experiments.runs.inputs import pace_bps, planner_of, transport_of
from weft.experiments.runs.measured import Counts
from weft.experiments.runs.up_network import UpNetwork
from weft.experiments.runs.verdict import verdict
from weft.pytorch import timeline
from weft.pytorch.choices import choices_of, parse_choice
from weft.pytorch.defaults import FALLBACKS
from weft.pytorch.fork_server import RankScript
from weft.pytorch.launch import reason_path
from weft.pytorch.messages import SETTINGS, GroupMade, MakeGroup, Settings
from weft.topo.reach import Reach
from weft.topo.worlds.processors import CpuTimes, read_cpu_times
from weft.topo.worlds.registry import has_real_time

PORT = 29500
TRACE = "timeline.trace.json"
MOST_SHOWN = 300
"""The most characters of a line that are shown for what a rank printed last."""
SLOTS = 64
"""N of the aggregation jobs of a program's groups: switches have room for eight at a time."""
GIVE_UP_NS = 10_000_000_000
"""After so long without an acknowledgement a peer is gone. Ends of processes are told by the runner
at once; but a program may hold Python's lock for seconds."""
CHECK_S = 0.5


def torch_run(
    net: UpNetwork,
    script: str,
    arguments: Sequence[str] = (),
    options: ProgramAsked | None = None,
    *,
    output: TextIO | None = None,
    errors: TextIO | None = None,
    folder: ResultsFolder | None = None,
) -> TorchRun:
    """Run a program of PyTorch on hosts of a network that is up, a rank on each.

    Args:
        net: the network, of the emulated world.
        script: the path of a script, or ``-m``, with a module as the first argument.
        arguments: the program's own.
        output, errors: where its labelled lines go; None: nowhere.
        folder: where its document, the timeline and the report are written; None: nowhere.

    Raises:
        InputError: something that is asked for makes no sense.
        MachineError: torch is not installed, or the machine lacks something.
        RunError: a process of the network has ended.
    """
    options = options or ProgramAsked()
    check(net, script, arguments, options)
    return _Program(net, script, list(arguments), options).run(output, errors, folder)


def check(net: UpNetwork, script: str, arguments: Sequence[str], options: ProgramAsked) -> None:
    """Raise InputError or MachineError for what could not be run; see `torch_run`."""
    refuse(
        not has_real_time(net.world),
        "torch run: programs of PyTorch are processes, and the simulated world has none; bring the "
        "network up with world='emulated'",
    )
    check_program(script, arguments, options)
    hosts = len(net.topology.hosts)
    refuse(
        options.ranks is not None and not 1 <= options.ranks <= hosts,
        f"--ranks {options.ranks}: the network has {hosts} hosts, and each runs one rank: choose 1 "
        f"to {hosts}",
    )


class _Program:
    """A program that runs on hosts, and what is measured meanwhile."""

    def __init__(
        self, net: UpNetwork, script: str, arguments: list[str], options: ProgramAsked
    ) -> None:
        self._net = net
        self._script = script
        self._arguments = arguments
        self._options = options
        self._world = net.backend
        self._scenario = net.scenario
        hosts = net.topology.hosts
        self._hosts = hosts[: options.ranks or len(hosts)]
        self._choices = choices_of(options.algorithms)
        self._epoch = next(net.epochs)
        self._begun: CpuTimes | None = None
        self._checked_s = 0.0
        self._trees = GroupTrees(
            net.controller.names,
            Reach(net.topology, net.down),
            SLOTS,
            self._scenario.program_values or 0,
            net.epochs,
            self._planner(),
            net.controller.apply,
        )
        self._silences = Silences([host.name for host in self._hosts], self._down)

    def _planner(self) -> Callable[[Mapping[str, Any]], Plan]:
        """Return what plans around the links that have failed by now."""
        net = self._net
        return planner_of(net.controller.names, self._scenario, net.topology, sorted(net.down))

    def _down(self) -> dict[str, str]:
        """Return the links that have failed, each with the host that it is of, if any."""
        hosts = {host.name for host in self._hosts}
        return {
            link.name: next((end.node for end in (link.a, link.b) if end.node in hosts), "")
            for link in self._net.topology.links
            if link.name in self._net.down
        }

    def _lead_around(self) -> None:
        """Plan around the links that have failed by now."""
        reach = Reach(self._net.topology, self._net.down)
        for name, epoch in self._trees.lead_around(reach, self._planner()).items():
            self._silences.moved(name, epoch)

    def run(
        self, output: TextIO | None, errors: TextIO | None, folder: ResultsFolder | None
    ) -> TorchRun:
        """Run it to its end, and return what came of it."""
        world, controller = self._world, self._net.controller
        run_folder = world.record.folder / "torch"
        run_folder.mkdir(mode=0o700, exist_ok=True)
        with ExitStack() as stack:
            for host in self._hosts:  # of a run before on the same network
                self._recorded(host.rank).unlink(missing_ok=True)
                reason_path(run_folder, host.rank).unlink(missing_ok=True)
            server = self._fork_server()
            stack.callback(server.close)
            management = stack.enter_context(management_network(world))
            stack.callback(self._clear)
            stack.enter_context(self._net.planned_by(self._lead_around))
            self._write_hosts(management, run_folder / "hosts")
            path = run_folder / "runner.sock"
            stack.callback(path.unlink, missing_ok=True)
            ranks = Ranks(
                path, server, self._silences, self._make_group, self._drop_group, output, errors,
                self._options.limit_s, lambda: self._look(ranks),
            )  # fmt: skip
            stack.callback(ranks.close)
            before = Counts.read(controller, world)
            managed = management.carried_bytes()
            world.reset_lateness()
            start = read_cpu_times()
            server.wait_ready()
            ranks.start(
                [host.name for host in self._hosts],
                lambda rank: server.begin(
                    rank, self._program(rank, management, run_folder), world.host_pid(rank)
                ),
            )
            with world.blaming_the_dead():
                ranks.run()
                after = Counts.read(controller, world)
            end = read_cpu_times()
            return self._result(
                ranks, before, after, (self._begun or start, end),
                management.carried_bytes() - managed, folder,
            )  # fmt: skip

    def _fork_server(self) -> RankServer:
        """Start what loads torch once and forks the ranks."""
        record, options = self._world.record, self._options
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **options.environment}
        environment["PYTHONPATH"] = python_path(os.environ.get("PYTHONPATH"))
        fallbacks = [parse_choice(name, text) for name, text in FALLBACKS.items()]
        choices = [*self._choices.values(), *fallbacks]
        used = {name for choice in choices for _, name in choice.steps}
        return RankServer(
            record, sys.executable, {**environment, **record.environment()},
            sorted({*used, "direct", "recursive-doubling"}),
        )  # fmt: skip

    def _program(self, rank: int, management: Management, folder: Path) -> RankScript:
        """Return what a rank runs."""
        return RankScript(
            [self._script, *self._arguments],
            {**self._environment(rank, management, folder), **self._world.record.environment()},
            os.getcwd(),
            str(folder),
        )

    def _write_hosts(self, management: Management, path: Path) -> None:
        """Write the names of hosts for the programs: there is no name server in their network."""
        with suppress(OSError):
            path.write_text(Path("/etc/hosts").read_text() + "\n")
        with path.open("a") as file:
            for host in self._hosts:
                managed = management.address(host.rank)
                for address, name in ((host.ip, host.name), (managed, f"{host.name}-management")):
                    file.write(f"{address} {name}\n::ffff:{address} {name}\n")

    def _environment(self, rank: int, management: Management, folder: Path) -> dict[str, str]:
        """Return the environment of a rank: that of this process, torchrun's variables, and where
        its settings are."""
        net, options = self._net, self._options
        host = self._hosts[rank]
        interface = self._world.host_interface(rank)
        settings = Settings(
            rank=rank,
            host=host.name,
            addresses=[each.ip for each in self._hosts],
            interface=interface,
            socket=str(folder / "runner.sock"),
            folder=str(folder),
            path_mtu=self._scenario.mtu,
            rate_bps=net.topology.outward(host.name)[0].link.rate_bps,
            pace_bps=pace_bps(net.topology),
            seed=self._scenario.seed,
            epoch=self._epoch,
            transport=replace(transport_of(self._scenario), give_up_ns=GIVE_UP_NS),
            algorithms=options.algorithms,
            backend=options.backend,
            as_weft=list(options.as_weft),
        )
        path = folder / f"settings-{rank}.json"
        path.write_bytes(msgspec.json.encode(settings))
        size = str(len(self._hosts))
        return {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            **options.environment,
            "PYTHONPATH": python_path(os.environ.get("PYTHONPATH")),
            "PYTHONUNBUFFERED": "1",
            "RANK": str(rank),
            "LOCAL_RANK": "0",
            "WORLD_SIZE": size,
            "LOCAL_WORLD_SIZE": "1",
            "GROUP_RANK": str(rank),
            "GROUP_WORLD_SIZE": size,
            "ROLE_RANK": str(rank),
            "ROLE_WORLD_SIZE": size,
            "ROLE_NAME": "default",
            "MASTER_ADDR": management.address(0),
            "MASTER_PORT": str(PORT),
            "TORCHELASTIC_RUN_ID": self._world.record.id,
            "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_MAX_RESTARTS": "0",
            "TORCHELASTIC_USE_AGENT_STORE": "False",
            "GLOO_SOCKET_IFNAME": interface,
            "TP_SOCKET_IFNAME": interface,
            "BACKEND": options.backend,
            "TORCH_DISTRIBUTED_BACKEND": options.backend,
            SETTINGS: str(path),
        }

    def _make_group(self, asked: MakeGroup) -> GroupMade:
        def names(ranks: Sequence[int]) -> list[str]:
            return [self._hosts[rank].name for rank in ranks]

        with self._net.planning:
            return self._trees.make(asked, names(asked.ranks), [*map(names, asked.subsets)])

    def _drop_group(self, name: str, rank: int) -> None:
        with self._net.planning:
            self._trees.drop(name, rank)

    def _clear(self) -> None:
        with self._net.planning:
            self._trees.clear()

    def _look(self, ranks: Ranks) -> None:
        """Look after the network now and then; the run begins once all ranks have come."""
        if self._begun is None and ranks.present == len(self._hosts):
            self._begun = read_cpu_times()
        now_s = time.monotonic()
        if now_s - self._checked_s >= CHECK_S:
            self._checked_s = now_s
            self._world.check_alive()

    def _result(
        self,
        ranks: Ranks,
        before: Counts,
        after: Counts,
        cpu: tuple[CpuTimes, CpuTimes],
        managed_bytes: int,
        folder: ResultsFolder | None,
    ) -> TorchRun:
        records = {
            rank.rank: timeline.read(path) for rank in ranks.ranks
            if (path := rank.recorded or self._recorded(rank.rank)).exists()
        }  # fmt: skip
        found = [
            rank_of(records.get(rank.rank), rank.rank, rank.host, rank.status or 0, _why(rank))
            for rank in ranks.ranks
        ]
        links = after.links_since(before, self._net.topology)
        failed = ranks.first_failed
        silent = [str(rank.rank) for rank in ranks.ranks if rank.rank not in records]
        if silent:
            ranks.notes.append(
                f"rank {', '.join(silent)} ended without a record of what it did: figures of ranks "
                "are without it"
            )
        notes = sorted({note for record in records.values() for note in record.notes})
        notes += self._trees.notes()
        made: dict[str, set[str]] = {}
        """The names of groups by their backends."""
        for record in records.values():
            for backend, names in record.groups.items():
                made.setdefault(backend, set()).update(names)
        groups = {backend: len(names) for backend, names in sorted(made.items())}
        notes += notes_on_backends(groups, self._options.backend)
        notes += fixed_point_notes(found)
        run = TorchRun(
            script=self._script,
            arguments=self._arguments,
            backend=self._options.backend,
            algorithms={name: str(choice) for name, choice in self._choices.items()},
            network=self._net.topology.describe(),
            scenario=self._scenario.to_dict(),
            status=0 if failed is None else _status(failed.status or 0),
            error="" if failed is None else failure(failed, reason_of(self._folder, failed.rank)),
            ranks=found,
            links=links,
            tiers=tier_bytes(links),
            fidelity=verdict(
                self._scenario,
                list(records.values()),
                (before, after),
                cpu,
                max((rank.total_ns for rank in found), default=0) or None,
            ),
            management_bytes=managed_bytes,
            groups_in_switches=self._trees.most_groups,
            groups=groups,
            notes=[*notes, *ranks.notes],
        )
        if folder is not None:
            folder.put(documents_of(run, list(records.values())))
        return run

    @property
    def _folder(self) -> Path:
        """Return where ranks find and leave files."""
        folder: Path = self._world.record.folder
        return folder / "torch"

    def _recorded(self, rank: int) -> Path:
        """Return where a rank that failed has written what it recorded, if it has."""
        return self._folder / f"rank-{rank}.json"


def documents_of(
    run: TorchRun, records: Sequence[timeline.RankTimeline]
) -> Iterator[tuple[str, str]]:
    """Yield, by name, the files that a run leaves behind."""
    yield DOCUMENT, run.text()
    yield TRACE, json.dumps(trace_of(records))
    yield REPORT, render(run, records)


def _status(status: int) -> int:
    """Return an exit status as a shell has it, from one as subprocess has it."""
    return status if status >= 0 else 128 - status


def _why(rank: Rank) -> str:
    return "" if rank.status == 0 else "\n".join(rank.last_lines)


def failure(rank: Rank, reason: str) -> str:
    """Return how a rank has ended.

    Args:
        reason: the exception that has ended its program, or empty: what it printed last is not why
            it ended, but may help.
    """
    last = next((line.strip() for line in reversed(rank.last_lines) if line.strip()), "")
    said = f": {reason}" if reason else f"; it printed last: {last[:MOST_SHOWN]}" if last else ""
    return f"rank {rank.rank} (host {rank.host}) {how_it_ended(rank.status or 0)}{said}"


def fixed_point_notes(ranks: Sequence[TorchRank]) -> list[str]:
    """Return notes if blocks of sums lost something to the fixed point of switches, or did not fit
    into their 32 bits."""
    lost = losses(rank.statistics for rank in ranks)
    too_large = saturation(rank.statistics for rank in ranks)
    done = [each for rank in ranks for each in rank.collectives]
    names = [each.name for each in done if (kind := named(each.algorithm)) and kind.adds]
    options = {
        f"--{'reduce-scatter' if 'reduce_scatter' in name else 'allreduce'} ring" for name in names
    }
    instead = " ".join(sorted(options))
    found = [f"{lost}; with {instead} all is added in floating point"] if lost else []
    if too_large:
        found.append(f"switches add int32: {too_large}; with {instead} it wraps around")
    return found


def notes_on_backends(groups: Mapping[str, int], asked: str) -> list[str]:
    """Return what is to be said of groups that are not of the backend that was asked for.

    Args:
        groups: how many there were, by backend.
        asked: what `init_process_group` without a backend gets.
    """
    found = []
    for backend, count in groups.items():
        if backend in ("weft", asked):
            continue
        advice = f"; --as {backend} makes them Weft's" if backend in NAMES_FOR_WEFT else ""
        groups_are = "1 group of ranks is" if count == 1 else f"{count} groups of ranks are"
        found.append(
            f"{groups_are} of the backend {backend}, which the program named: what they carried "
            "went over the links as the kernel's TCP, not by Weft's collectives, and is in no "
            f"table of these{advice}"
        )
    return found
