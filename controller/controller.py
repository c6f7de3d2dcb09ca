"""The controller of a whole network: one session per switch, all switches at the same time."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

from weft.base.entry_points import blamed
from weft.base.garbage import uncollected
from weft.controller.claims import PLANS, Claims
from weft.controller.client import LoadableProgram, ProgramPaths, Session
from weft.controller.counters import Cell, LinkCells, LinkCounters
from weft.controller.entities import Entity
from weft.controller.features.registry import FEATURES
from weft.controller.plan import Plan, Update, diff
from weft.controller.remote import DEADLINE_S, Address, SwitchError
from weft.topo.clos import Topology

MAX_THREADS = 16

_T = TypeVar("_T")
_R = TypeVar("_R")


class Controller:
    """The owner of all tables of a network's switches.

    ::

        with Controller(topology, addresses, compile_cached(source)) as controller:
            controller.apply(fabric_plan(controller.names, topology, seed=1))
            before = controller.read_counters()
    """

    def __init__(
        self,
        topology: Topology,
        addresses: Mapping[str, Address],
        program: ProgramPaths | LoadableProgram,
        *,
        others: Mapping[str, ProgramPaths] | None = None,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        """Connect to all switches and make them run a program, with empty tables.

        ``addresses`` says by name where each switch serves P4Runtime. ``others`` has the programs
        of switches that run another one; no plan is for them. If a switch is not there
        within ``deadline_s`` or refuses, raises SwitchError after all that was opened has been
        closed.
        """
        loaded = program if isinstance(program, LoadableProgram) else LoadableProgram.read(program)
        self.topology = topology
        self.unmanaged = set(others or {})
        """The names of switches that run another program."""
        programs = {path: LoadableProgram.read(path) for path in set((others or {}).values())}
        self._loaded = loaded
        self.names = loaded.names
        """The names of what the switches' program has."""
        self.plan = Plan()
        """What the switches hold by plan; others may have written more (`write`)."""
        self._claims = Claims()
        self._sessions = {
            switch.name: Session(
                switch.name, switch.device_id, addresses[switch.name], deadline_s=deadline_s
            )
            for switch in topology.switches
        }
        self._pool: ThreadPoolExecutor | None = None
        """None if the switches are in this process, where they are asked one after the other."""
        if any(isinstance(address, str) for address in addresses.values()):
            threads = min(MAX_THREADS, len(topology.switches))
            self._pool = ThreadPoolExecutor(threads, thread_name_prefix="controller")

        def start(session: Session) -> None:
            session.connect()
            other = (others or {}).get(session.name)
            session.push_program(loaded if other is None else programs[other])

        try:
            self._together(start, list(self._sessions.values()))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Controller":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def session(self, switch: str) -> Session:
        """Return the session with one switch."""
        return self._sessions[switch]

    def apply(self, plan: Plan) -> None:
        """Bring all switches in place from the plan that they hold to another one; those that run
        another program are left as they are.

        What others have written stays (`write`).

        Raises InputError, with nothing written, if the plan has something that somebody else has
        written. Raises SwitchError; then nobody knows what the switches hold, and each needs its
        program anew.
        """
        changes = {
            switch: batches
            for switch, batches in diff(self.plan, plan).items()
            if switch not in self.unmanaged
        }

        for switch, batches in changes.items():
            for batch in batches:
                self._claims.check_planned(switch, batch)

        def send(item: tuple[str, list[list[Update]]]) -> None:
            switch, batches = item
            for batch in batches:
                self._sessions[switch].write(batch)

        with uncollected():  # a plan may be 100,000 messages
            self._together(send, list(changes.items()))
        self._loaded.messages.forget()
        self.plan = plan

    def write(self, switch: str, updates: Sequence[Update], owner: str) -> None:
        """Send updates that no plan knows of, for somebody else, ``owner``; plans leave what they
        write alone.

        Raises InputError, which names both owners, if a plan or somebody else has written what is
        to be changed; SwitchError if the switch refuses.
        """
        self.check(switch, updates, owner)
        self._sessions[switch].write(updates)
        self._claims.note(owner, switch, updates)

    def check(self, switch: str, updates: Sequence[Update], owner: str) -> None:
        """Raise InputError, which names both owners, if `write` may not make these updates."""
        planned = {entity.key: entity for entity in self.plan.entities.get(switch, ())}
        self._claims.check(owner, switch, updates, planned)

    def owner_of(self, switch: str, key: tuple[object, ...]) -> str:
        """Return who has written an entity of this key: a plan, somebody else, or "" if neither
        has."""
        if any(entity.key == key for entity in self.plan.entities.get(switch, ())):
            return PLANS
        return self._claims.held(switch, key)[0]

    def written(self, switch: str, key: tuple[object, ...]) -> Entity | None:
        """Return what has been written under a key by `write`, if it is still there."""
        return self._claims.held(switch, key)[1]

    def read_counters(self) -> dict[tuple[str, str], LinkCounters]:
        """Return the packets and bytes sent and lost on every direction of every link, by (from,
        to), as far as switches that run the fabric's program have counted them."""
        features = [each for each in FEATURES.values() if each.counters or each.host_counters]
        everywhere = [self.names.name(one) for each in features for one in each.counters]
        at_hosts = [self.names.name(one) for each in features for one in each.host_counters]
        cells: dict[str, list[Cell]] = {
            switch.name: []
            for switch in self.topology.switches
            if switch.name not in self.unmanaged
        }
        for direction in self.topology.directions:
            port = direction.source
            if port.node in cells:
                counters = everywhere + (at_hosts if direction.tier == "host_down" else [])
                cells[port.node] += [(counter, port.number) for counter in counters]
        counted = self.read_cells(cells)
        ends = [LinkCells(self.names, each, counted) for each in self.topology.directions]
        found = dict.fromkeys((each.direction.ends for each in ends), LinkCounters())
        for feature in features:
            with blamed(feature, "share"):
                for each in ends:
                    found[each.direction.ends] += feature.share(each)
        return found

    def read_cells(
        self, cells: Mapping[str, Sequence[Cell]]
    ) -> dict[str, dict[Cell, tuple[int, int]]]:
        """Return packets and bytes of cells of counters, which are given by switch."""

        def read(switch: str) -> dict[Cell, tuple[int, int]]:
            wanted = cells[switch]
            return dict(zip(wanted, self._sessions[switch].read_counters(wanted), strict=True))

        return dict(zip(cells, self._together(read, list(cells)), strict=True))

    def close(self) -> None:
        """End all sessions, whatever they are doing; the switches keep what they hold."""
        for session in self._sessions.values():
            session.close()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _together(self, work: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
        """Do something for every item at the same time; raise the first error once all are done."""
        if self._pool is None:
            return [work(item) for item in items]
        futures = [self._pool.submit(work, item) for item in items]
        errors = [error for error in (future.exception() for future in futures) if error]
        switch_errors = [error for error in errors if isinstance(error, SwitchError)]
        if len(switch_errors) == len(errors) > 1:
            raise SwitchError(f"{errors[0]}\n(and {len(errors) - 1} other switches failed too)")
        if errors:
            raise errors[0]
        return [future.result() for future in futures]
