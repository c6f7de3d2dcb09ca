"""The ranks of a program, gathered on hosts of a network that is up, with all that they need."""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import msgspec

from weft.base.children import python_path
from weft.controller import Plan
from weft.experiments.families.programs.asked import ProgramAsked
from weft.experiments.families.programs.faults import Injection, faults_of
from weft.experiments.families.programs.group_trees import GroupTrees
from weft.experiments.families.programs.management import Management, management_network
from weft.experiments.families.programs.processes import RankServer
from weft.experiments.families.programs.ranks import GRACE_S, Ranks, failure, reason_of
from weft.experiments.families.programs.silence import Silences
from weft.experiments.runs.inputs import pace_bps, planner_of, transport_of
from weft.experiments.runs.up_network import UpNetwork
from weft.pytorch import timeline
from weft.pytorch.choices import choices_of, parse_choice
from weft.pytorch.defaults import FALLBACKS
from weft.pytorch.fork_server import RankScript
from weft.pytorch.launch import reason_path
from weft.pytorch.messages import SETTINGS, GroupMade, MakeGroup, Settings
from weft.topo.reach import Reach
from weft.topo.worlds.processors import CpuTimes

PORT = 29500
"""Where rank 0's store listens, the first time; each time that ranks are started anew it is one
more."""
SOCKET = "runner.sock"
SLOTS = 64
"""N of the aggregation jobs of a program's groups: switches have room for eight at a time."""
GIVE_UP_NS = 10_000_000_000
"""After so long without an acknowledgement a peer is gone. Ends of processes are told by the runner
at once; but a program may hold Python's lock for seconds."""
CHECK_S = 0.5


class Gathering:
    """Ranks that are to run a program, a process on each host. They end with the block, which is
    given what runs them.

    Args:
        words: the script, or ``-m`` and a module, and the program's arguments.
        output, errors: where labelled lines go; None: nowhere.
    """

    def __init__(
        self,
        net: UpNetwork,
        words: Sequence[str],
        options: ProgramAsked,
        output: TextIO | None,
        errors: TextIO | None,
    ) -> None:
        self._net = net
        self._words = list(words)
        self._options = options
        self._world = net.backend
        self._scenario = net.scenario
        hosts = net.topology.hosts
        self._hosts = hosts[: options.ranks or len(hosts)]
        self.choices = choices_of(options.algorithms)
        """By which algorithm each collective goes."""
        self._epoch = next(net.epochs)
        self._checked_s = 0.0
        self.attempts: list[list[timeline.RankTimeline]] = []
        """What ranks have recorded, each time that all were started."""
        self.notes: list[str] = []
        """Why they were started anew."""
        self._begun: CpuTimes | None = None
        self.trees = GroupTrees(
            net.controller.names,
            Reach(net.topology, net.down),
            SLOTS,
            self._scenario.program_values or 0,
            net.epochs,
            self._planner(),
            net.controller.apply,
        )
        self.managed_bytes = 0
        """What hosts have sent by the management network while they ran."""
        self.folder: Path = self._world.record.folder / "torch"
        """Where ranks find and leave files."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        with ExitStack() as stack:
            self._server = self._fork_server()
            stack.callback(self._server.close)
            self._management = stack.enter_context(management_network(self._world))
            stack.callback(self._clear)
            stack.enter_context(net.planned_by(self._lead_around))
            faults = faults_of(options, net.topology, len(self._hosts))
            self.injection = Injection(faults, net, self._server)
            stack.callback(self.injection.close)
            self._write_hosts(self._management, self.folder / "hosts")
            self._output, self._errors = output, errors
            self._end_s = time.monotonic() + options.limit_s
            self.ranks = self._new_ranks()
            stack.callback(lambda: self._end_ranks())
            self._stack = stack.pop_all()

    def __enter__(self) -> Callable[[], list[timeline.RankTimeline]]:
        return self._run

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def restarts(self) -> int:
        """Return how often all ranks were started anew."""
        return max(0, len(self.attempts) - 1)

    @property
    def evidence(self) -> tuple[CpuTimes, CpuTimes] | None:
        """What the machine's processors had done when the ranks had come the first time, and when
        they had ended the last time; None until then."""
        last = self.ranks.evidence
        return last and (self._begun or last[0], last[1])

    def _new_ranks(self) -> Ranks:
        """Return ranks that are to be started; nothing is left of others."""
        for host in self._hosts:
            self._recorded(host.rank).unlink(missing_ok=True)
            reason_path(self.folder, host.rank).unlink(missing_ok=True)
        self._silences = Silences([host.name for host in self._hosts], self._down)
        may_restart = len(self.attempts) < self._options.max_restarts
        return Ranks(
            self.folder / SOCKET, self._server, self._silences, self._make_group, self._drop_group,
            self._output, self._errors, self._options.limit_s, self._end_s, self._look,
            self.injection.stepped, 0.0 if may_restart else GRACE_S,
        )  # fmt: skip

    def _end_ranks(self) -> None:
        self.ranks.close()
        (self.folder / SOCKET).unlink(missing_ok=True)

    def _run(self) -> list[timeline.RankTimeline]:
        """Run the program to its end, and return what its ranks have recorded, the last time that
        they were started."""
        management, world = self._management, self._world
        before = management.carried_bytes()
        world.reset_lateness()
        self._server.wait_ready()
        self._end_s = time.monotonic() + self._options.limit_s
        self.ranks.end_s = self._end_s
        self._attempt()
        while (
            (failed := self.ranks.first_failed) is not None
            and self.restarts < self._options.max_restarts
            and time.monotonic() < self._end_s
        ):
            why = failure(failed, reason_of(self.folder, failed.rank))
            self._begun = self._begun or (self.evidence and self.evidence[0])
            self._end_ranks()
            self._clear()
            self._epoch = next(self._net.epochs)
            self.ranks = self._new_ranks()
            self.notes.append(
                f"all ranks were started anew ({len(self.attempts)} of at most "
                f"{self._options.max_restarts} times): {why}"
            )
            self._attempt()
        self.managed_bytes = management.carried_bytes() - before
        return self.attempts[-1]

    def _attempt(self) -> None:
        """Start all ranks, and take what they have recorded when they have ended."""
        self.injection.begin()
        self.ranks.start(
            [host.name for host in self._hosts],
            lambda rank: self._server.begin(rank, self._program(rank), self._world.host_pid(rank)),
        )
        with self._world.blaming_the_dead():
            self.ranks.run()
        paths = (rank.recorded or self._recorded(rank.rank) for rank in self.ranks.ranks)
        self.attempts.append([timeline.read(path) for path in paths if path.exists()])

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
        for name, epoch in self.trees.lead_around(reach, self._planner()).items():
            self._silences.moved(name, epoch)

    def _fork_server(self) -> RankServer:
        """Start what loads torch once and forks the ranks."""
        record, options = self._world.record, self._options
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **options.environment}
        environment["PYTHONPATH"] = python_path(os.environ.get("PYTHONPATH"))
        fallbacks = [parse_choice(name, text) for name, text in FALLBACKS.items()]
        choices = [*self.choices.values(), *fallbacks]
        used = {name for choice in choices for _, name in choice.steps}
        return RankServer(
            record, sys.executable, {**environment, **record.environment()},
            sorted({*used, "direct", "recursive-doubling"}),
        )  # fmt: skip

    def _program(self, rank: int) -> RankScript:
        """Return what a rank runs."""
        return RankScript(
            self._words,
            {**self._environment(rank), **self._world.record.environment()},
            os.getcwd(),
            str(self.folder),
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

    def _environment(self, rank: int) -> dict[str, str]:
        """Return the environment of a rank: that of this process, torchrun's variables, and where
        its settings are."""
        net, options = self._net, self._options
        host = self._hosts[rank]
        interface = self._world.host_interface(rank)
        faults = self.injection.faults
        settings = Settings(
            rank=rank,
            host=host.name,
            addresses=[each.ip for each in self._hosts],
            interface=interface,
            socket=str(self.folder / SOCKET),
            folder=str(self.folder),
            path_mtu=self._scenario.mtu,
            rate_bps=net.topology.outward(host.name)[0].link.rate_bps,
            pace_bps=pace_bps(net.topology),
            seed=self._scenario.seed,
            epoch=self._epoch,
            transport=replace(transport_of(self._scenario), give_up_ns=GIVE_UP_NS),
            algorithms=options.algorithms,
            backend=options.backend,
            as_weft=list(options.as_weft),
            slow=faults.slow.get(rank, 1.0),
            pauses_ns=faults.pauses_ns.get(rank, {}),
            waits_at=faults.waits_at(rank),
        )
        path = self.folder / f"settings-{rank}.json"
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
            "MASTER_ADDR": self._management.address(0),
            "MASTER_PORT": str(PORT + len(self.attempts)),
            "TORCHELASTIC_RUN_ID": self._world.record.id,
            "TORCHELASTIC_RESTART_COUNT": str(len(self.attempts)),
            "TORCHELASTIC_MAX_RESTARTS": str(options.max_restarts),
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
            return self.trees.make(asked, names(asked.ranks), [*map(names, asked.subsets)])

    def _drop_group(self, name: str, rank: int) -> None:
        with self._net.planning:
            self.trees.drop(name, rank)

    def _clear(self) -> None:
        with self._net.planning:
            self.trees.clear()

    def _look(self) -> None:
        """Look after the network, and bring about faults that are due."""
        self.injection.look()
        now_s = time.monotonic()
        if now_s - self._checked_s >= CHECK_S:
            self._checked_s = now_s
            self._world.check_alive()

    def _recorded(self, rank: int) -> Path:
        """Return where a rank that failed has written what it recorded, if it has."""
        return self.folder / f"rank-{rank}.json"
