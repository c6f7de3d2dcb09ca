"""Ranks of the emulated world: processes, each in its host's namespace, and what watches them."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Protocol

from weft.agents.collectives.registry import named, needs_of
from weft.agents.collectives.sums import prepare as prepare_sums
from weft.agents.drivers.launcher import Launcher
from weft.agents.drivers.rendezvous import Rendezvous, RunProgress
from weft.agents.ranks import OperationConfig, RankConfig, RankReport
from weft.topo.network import Topology, slowest_bps
from weft.topo.worlds.emulated.outages import OutageNetwork, Outages
from weft.topo.worlds.emulated.runs import RunRecord
from weft.topo.worlds.processors import CpuTimes, read_cpu_times
from weft.topo.worlds.world import Advance, Order

CHECK_S = 0.1
"""The least time between two looks at the processes that a network consists of."""


class RanksNetwork(Protocol):
    """What ranks need of their network."""

    topology: Topology
    path_mtu: int

    @property
    def record(self) -> RunRecord: ...
    def host_pid(self, rank: int) -> int: ...
    def check_alive(self) -> None: ...
    def set_rates(self, rates_bps: Mapping[tuple[str, str], int]) -> None: ...
    def tell(self, request: str) -> None: ...


class Gathering:
    """Ranks that have been started, and where they meet. They end with the block."""

    def __init__(self, order: Order, network: RanksNetwork, launcher: Launcher) -> None:
        topology = network.topology
        self.wanted = order.name, order.operation, order.cast
        name, operation, cast = self.wanted
        names = [topology.hosts[host].name for host, _ in cast.roles]
        ranks = [cast.rank_of(process) for process in range(len(names))]
        with ExitStack() as stack:
            stack.callback(launcher.end_all)
            self.meeting = stack.enter_context(
                Rendezvous(
                    network.record.folder / f"{name}.sock",
                    names,
                    launcher,
                    ranks=sum(rank is not None for rank in ranks),
                    teams=len(cast.teams),
                )
            )
            for process, (host, members) in enumerate(cast.roles):
                launcher.spawn(
                    RankConfig(
                        rank=process,
                        host=names[process],
                        teams=list(cast.teams),
                        rendezvous=self.meeting.path,
                        members=list(members),
                        processes=len(names),
                        partners=sorted(cast.partners(process, operation.kinds)),
                        lanes={
                            peer: list(chosen)
                            for peer, chosen in cast.lanes.get(process, {}).items()
                        },
                        transport=cast.transport,
                        workers=needs_of(operation.request).workers,
                        path_mtu=network.path_mtu,
                        rate_bps=topology.outward(names[process])[0].link.rate_bps,
                        seed=operation.seed,
                        algorithms=sorted({kind.algorithm for kind in operation.kinds}),
                        collectives=sorted({kind.collective for kind in operation.kinds}),
                    ),
                    namespace=network.host_pid(host),
                )
            self._stack = stack.pop_all()

    def __enter__(self) -> Rendezvous:
        return self.meeting

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the ranks."""
        self._stack.close()


class Watch:
    """What watches an operation from the runner: it moves the progress bar, reads what the
    processors have done, and notices processes that have died."""

    def __init__(
        self, advance: Advance, check_alive: Callable[[], None], ended: Callable[[], None]
    ) -> None:
        """Read the processors' times.

        Args:
            ended: is called when all ranks are done.
        """
        self._advance = advance
        self._check_alive = check_alive
        self._ended = ended
        self._start = read_cpu_times()
        self._end: CpuTimes | None = None
        self._running = False
        self._checked_s = 0.0

    def __call__(self, state: RunProgress) -> None:
        now_s = time.monotonic()
        if now_s - self._checked_s >= CHECK_S:  # all ranks report at about the same time
            self._checked_s = now_s
            self._check_alive()
        if not self._running and not state.finished_ranks:
            # Before the first word of a running rank came filling buffers, which is no part of it.
            self._running = True
            self._start = read_cpu_times()
        if state.finished_ranks == len(state.received_bytes):
            self._end = read_cpu_times()
            self._ended()
        self._advance(state.fraction)

    def evidence(self) -> tuple[CpuTimes, CpuTimes]:
        """See `weft.topo.worlds.world.World.evidence`."""
        return self._start, self._end or read_cpu_times()


class Ranks:
    """The ranks of a network: those that run now, and what forks them."""

    def __init__(self, network: RanksNetwork) -> None:
        self._network = network
        self._launcher: Launcher | None = None
        self._early: Gathering | None = None
        """The ranks of the first order, which come up while the switches are programmed."""
        self._watch: Watch | None = None

    def take(self, launcher: Launcher | None) -> None:
        """Take what forks ranks, if it has been started, which loads what they need."""
        self._launcher = launcher

    def make_ready(self, operation: OperationConfig | None = None) -> Launcher:
        """Wait until all that ranks need is loaded: until then they cannot be ended at once. The
        sums of reduction servers are compiled here, where they have not been before, and not in
        every rank."""
        launcher = self._launcher
        if launcher is None:  # it loads what ranks need for all algorithms of Weft's
            record = self._network.record
            launcher = self._launcher = Launcher(record.folder, record.environment())
        launcher.wait_ready()
        used = [named(kind.algorithm) for kind in operation.kinds] if operation else []
        if any(each is not None and each.serves for each in used):
            prepare_sums()
        return launcher

    def expect(self, order: Order) -> None:
        """See `weft.topo.worlds.world.World.expect`."""
        self._early = Gathering(order, self._network, self.make_ready(order.operation))

    @contextmanager
    def gathered(self, order: Order, advance: Advance) -> Iterator[Callable[[], list[RankReport]]]:
        """See `weft.topo.worlds.world.World.gathered`."""
        network = self._network
        self._watch = watch = Watch(advance, network.check_alive, lambda: network.tell("loads end"))
        early, self._early = self._early, None
        if early is not None and early.wanted != (order.name, order.operation, order.cast):
            early.close()
            early = None
        with (
            early or Gathering(order, network, self.make_ready(order.operation)) as meeting,
            ExitStack() as stack,
        ):
            meeting.gather()
            network.tell("reset")
            hosts = (host for host, _ in order.cast.roles)
            pids = {host: meeting.pids[process] for process, host in enumerate(hosts)}
            outages = Outages(
                order.faults,
                OutageNetwork(network.topology, order.lead_around, network.set_rates, pids),
                order.notice_after_ns,
            )
            stack.callback(outages.end)

            def begin(start_ns: int) -> None:
                outages.begin(start_ns)
                network.tell(f"loads {start_ns} {order.load_bin_ns}")

            yield lambda: meeting.run(order.operation, watch, slowest_bps(network.topology), begin)

    def evidence(self) -> tuple[CpuTimes, CpuTimes]:
        """See `weft.topo.worlds.world.World.evidence`."""
        if self._watch is None:  # no ranks were ever gathered
            return read_cpu_times(), read_cpu_times()
        return self._watch.evidence()

    def close(self) -> None:
        """End all ranks, and what forks them."""
        early, self._early = self._early, None
        launcher, self._launcher = self._launcher, None
        with ExitStack() as stack:
            if launcher is not None:
                stack.callback(launcher.close)
            if early is not None:
                stack.callback(early.close)
