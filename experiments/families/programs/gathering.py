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
from weft.experiments.families.programs.ranks import Ranks
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

PORT = 29500
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
        self.trees = GroupTrees(
            net.controller.names,
            Reach(net.topology, net.down),
            SLOTS,
            self._scenario.program_values or 0,
            net.epochs,
            self._planner(),
            net.controller.apply,
        )
        self._silences = Silences([host.name for host in self._hosts], self._down)
        self.managed_bytes = 0
        """What hosts have sent by the management network while they ran."""
        self.folder: Path = self._world.record.folder / "torch"
        """Where ranks find and leave files."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        with ExitStack() as stack:
            for host in self._hosts:  # of a run before on the same network
                self._recorded(host.rank).unlink(missing_ok=True)
                reason_path(self.folder, host.rank).unlink(missing_ok=True)
            self._server = self._fork_server()
            stack.callback(self._server.close)
            self._management = stack.enter_context(management_network(self._world))
            stack.callback(self._clear)
            stack.enter_context(net.planned_by(self._lead_around))
            faults = faults_of(options, net.topology, len(self._hosts))
            self.injection = Injection(faults, net, self._server)
            stack.callback(self.injection.close)
            self._write_hosts(self._management, self.folder / "hosts")
            path = self.folder / "runner.sock"
            stack.callback(path.unlink, missing_ok=True)
            self.ranks = Ranks(
                path, self._server, self._silences, self._make_group, self._drop_group, output,
                errors, options.limit_s, self._look, self.injection.stepped,
            )  # fmt: skip
            stack.callback(self.ranks.close)
            self._stack = stack.pop_all()

    def __enter__(self) -> Callable[[], list[timeline.RankTimeline]]:
        return self._run

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _run(self) -> list[timeline.RankTimeline]:
        """Run the program to its end, and return what its ranks have recorded."""
        management, world = self._management, self._world
        before = management.carried_bytes()
        world.reset_lateness()
        self._server.wait_ready()
        self.injection.begin()
        self.ranks.start(
            [host.name for host in self._hosts],
            lambda rank: self._server.begin(rank, self._program(rank), world.host_pid(rank)),
        )
        with world.blaming_the_dead():
            self.ranks.run()
        self.managed_bytes = management.carried_bytes() - before
        paths = (rank.recorded or self._recorded(rank.rank) for rank in self.ranks.ranks)
        return [timeline.read(path) for path in paths if path.exists()]

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
            socket=str(self.folder / "runner.sock"),
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
