"""p4-utils' ``SimpleSwitchP4RuntimeAPI``.

Methods return True, or what they read. What the switch refuses is printed, and the method returns
None, as in p4-utils.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weft.base.errors import InputError, RunError, refuse
from weft.base.units import shown
from weft.controller.bmv2_cli.entries import MOST_PRIORITY, check_direct, direct_action
from weft.controller.bmv2_cli.program import TableView
from weft.controller.bmv2_cli.program_files import read_program
from weft.controller.bmv2_cli.refusals import OperationRefused
from weft.controller.bmv2_cli.switch import CommandSwitch
from weft.controller.remote import SwitchError
from weft.interface.p4utils.switches import GRPC_PORT, SwitchName, session_of, told
from weft.switch.messages import p4runtime_pb2

POLL_S = 0.01
"""Between two looks for a digest."""

Rates = Sequence[tuple[int, int]]


class SimpleSwitchP4RuntimeAPI:
    """The control plane of a switch by P4Runtime: the greatest priority wins here, and rates are in
    bytes or packets a second.

    Args:
        device_id: taken, and not needed: the network knows it.
        grpc_port: in a network that is up, 9559 is the first switch, 9560 the second, and so on.
            Also a switch's name, or a handle on it (``net.switch("s1")``).
        p4rt_path, json_path: the program, for a switch that has none yet.
        run: which network, if several are up.

    Raises:
        InputError: there is no such switch.
        SwitchError: it has no program, and none was given.
    """

    def __init__(
        self,
        device_id: int,
        grpc_port: SwitchName = GRPC_PORT,
        grpc_ip: str = "127.0.0.1",
        p4rt_path: str | None = None,
        json_path: str | None = None,
        *,
        run: str | None = None,
    ) -> None:
        self.device_id = device_id
        self.session = session_of(grpc_port, GRPC_PORT, "grpc_port", run)
        self.switch = CommandSwitch(self.session)
        self._is_own = isinstance(grpc_port, (int, str))
        self._digests: list[Any] = []
        try:
            self.session.learn_program()
        except SwitchError as error:
            if error.code != "FAILED_PRECONDITION" or p4rt_path is None or json_path is None:
                raise
            program = read_program(Path(json_path), Path(p4rt_path))
            self.session.take_over()
            self.session.push_program(program)

    def teardown(self) -> None:
        """End the session with the switch, which keeps what it holds; one that was given stays."""
        if self._is_own:
            self.session.close()

    @told
    def reset_state(self) -> bool:
        """Empty all tables, arrays and groups; the program stays."""
        self.switch.reset()
        return True

    # -- tables

    def _entry(self, table: TableView, match_keys: Sequence[Any], prio: int | None) -> Any:
        words = [str(key).replace("..", "->", 1) for key in match_keys]
        _, entry = self.switch.entries.read_entry(table, words, MOST_PRIORITY - int(prio or 0))
        return entry

    def _handle(self, table: TableView, match_keys: Sequence[Any], prio: int | None) -> int:
        words = [str(key).replace("..", "->", 1) for key in match_keys]
        return self.switch.entries.find(table, words, MOST_PRIORITY - prio if prio else None)

    @told
    def table_add(
        self,
        table_name: str,
        action_name: str,
        match_keys: Sequence[Any],
        action_params: Sequence[Any] = (),
        prio: int = 0,
        rates: Rates | None = None,
        pkts: int | None = None,
        byts: int | None = None,
    ) -> bool:
        """Add an entry, with the rates of its direct meter and the counts of its direct counter."""
        print(f"Adding entry to: {table_name}")
        table = self.switch.program.table(table_name)
        check_direct(table)
        _, fill = direct_action(table, action_name, [str(param) for param in action_params])
        handle = self.switch.entries.add(table, self._entry(table, match_keys, prio), fill)
        self._set_direct(table, handle, rates, pkts, byts)
        return True

    @told
    def table_modify_match(
        self,
        table_name: str,
        action_name: str,
        match_keys: Sequence[Any],
        action_params: Sequence[Any] = (),
        prio: int = 0,
        rates: Rates | None = None,
        pkts: int | None = None,
        byts: int | None = None,
    ) -> bool:
        """Give the entry with this key another action."""
        print(f"Modifying entry of: {table_name}")
        table = self.switch.program.table(table_name)
        handle = self._handle(table, match_keys, prio)
        _, fill = direct_action(table, action_name, [str(param) for param in action_params])
        self.switch.entries.modify(table, handle, fill)
        self._set_direct(table, handle, rates, pkts, byts)
        return True

    @told
    def table_delete_match(
        self, table_name: str, match_keys: Sequence[Any], prio: int | None = None
    ) -> bool:
        """Delete the entry with this key."""
        print(f"Deleting entry from: {table_name}")
        table = self.switch.program.table(table_name)
        self.switch.entries.delete(table, self._handle(table, match_keys, prio))
        return True

    @told
    def table_set_default(
        self, table_name: str, action_name: str, action_params: Sequence[Any] = ()
    ) -> bool:
        """Set the default action of a table."""
        print(f"Setting default action for: {table_name}")
        table = self.switch.program.table(table_name)
        _, fill = direct_action(table, action_name, [str(param) for param in action_params])
        self.switch.entries.set_default(table, fill)
        return True

    @told
    def table_reset_default(self, table_name: str) -> bool:
        """Go back to the default action of the program."""
        self.switch.entries.set_default(self.switch.program.table(table_name), None)
        return True

    @told
    def table_clear(self, table_name: str) -> bool:
        """Delete all entries of a table but the default one."""
        self.switch.entries.clear(self.switch.program.table(table_name))
        return True

    def _set_direct(
        self,
        table: TableView,
        handle: int,
        rates: Rates | None,
        pkts: int | None,
        byts: int | None,
    ) -> None:
        program = self.switch.program
        direct = {one.preamble.id: one for kind in ("counter", "meter")
                  for one in program.of_kind(kind)}  # fmt: skip
        own = [direct[number] for number in table.info.direct_resource_ids if number in direct]
        counters = [one for one in own if one in list(program.p4info.direct_counters)]
        meters = [one for one in own if one in list(program.p4info.direct_meters)]
        refuse(rates and not meters, f"table {table.name} has no direct meter attached")
        refuse(
            (pkts or byts) and not counters, f"table {table.name} has no direct counter attached"
        )
        if rates:
            self.switch.meters.write(meters[0], handle, _micro(rates))
        if pkts or byts:
            self.switch.counters.write(counters[0], handle, pkts or 0, byts or 0)

    # -- direct counters and meters, by the keys of entries

    def _direct(
        self, name: str, kind: str, match_keys: Sequence[Any], prio: int
    ) -> tuple[Any, int]:
        cells = self.switch.counters if kind == "counter" else self.switch.meters
        info = cells.find(name)
        table = cells.table(info)
        if table is None:
            raise InputError(
                f"{kind} {info.preamble.name} is not direct: use {kind}_read and so on"
            )
        return info, self._handle(table, match_keys, prio or None)

    @told
    def direct_counter_read(
        self, direct_counter_name: str, match_keys: Sequence[Any], prio: int = 0
    ) -> tuple[int, int]:
        """Return the bytes and packets of an entry."""
        found = self._direct(direct_counter_name, "counter", match_keys, prio)
        packets, size_bytes = self.switch.counters.read(*found)
        return size_bytes, packets

    @told
    def direct_counter_write(
        self,
        direct_counter_name: str,
        match_keys: Sequence[Any],
        prio: int = 0,
        pkts: int = 0,
        byts: int = 0,
    ) -> bool:
        """Set the counts of an entry."""
        found = self._direct(direct_counter_name, "counter", match_keys, prio)
        self.switch.counters.write(*found, pkts, byts)
        return True

    @told
    def direct_counter_reset(self, direct_counter_name: str) -> bool:
        """Set the counts of all entries to 0."""
        self.switch.counters.write(self.switch.counters.find(direct_counter_name), None, 0, 0)
        return True

    @told
    def direct_meter_set_rates(
        self,
        direct_meter_name: str,
        match_keys: Sequence[Any],
        prio: int = 0,
        rates: Rates = (),
    ) -> bool:
        """Set the rates of an entry."""
        found = self._direct(direct_meter_name, "meter", match_keys, prio)
        self.switch.meters.write(*found, _micro(rates))
        return True

    @told
    def direct_meter_array_set_rates(self, direct_meter_name: str, rates: Rates) -> bool:
        """Set the rates of all entries."""
        self.switch.meters.write(self.switch.meters.find(direct_meter_name), None, _micro(rates))
        return True

    @told
    def direct_meter_get_rates(
        self, direct_meter_name: str, match_keys: Sequence[Any], prio: int = 0
    ) -> list[tuple[int, int]]:
        """Return the rates of an entry."""
        found = self._direct(direct_meter_name, "meter", match_keys, prio)
        return _seconds(self.switch.meters.read(*found))

    # -- counters and meters

    @told
    def counter_read(self, counter_name: str, index: int) -> tuple[int, int]:
        """Return the bytes and packets of a cell."""
        counter = self.switch.counters.find(counter_name)
        packets, size_bytes = self.switch.counters.read(counter, int(index))
        return size_bytes, packets

    @told
    def counter_write(self, counter_name: str, index: int, pkts: int = 0, byts: int = 0) -> bool:
        """Set a cell."""
        counter = self.switch.counters.find(counter_name)
        self.switch.counters.write(counter, int(index), pkts, byts)
        return True

    @told
    def counter_reset(self, counter_name: str) -> bool:
        """Set all cells to 0."""
        self.switch.counters.write(self.switch.counters.find(counter_name), None, 0, 0)
        return True

    @told
    def meter_set_rates(self, meter_name: str, index: int, rates: Rates) -> bool:
        """Set the committed and the peak rate of a cell, each with its burst."""
        self.switch.meters.write(self.switch.meters.find(meter_name), int(index), _micro(rates))
        return True

    @told
    def meter_array_set_rates(self, meter_name: str, rates: Rates) -> bool:
        """Set the rates of all cells."""
        self.switch.meters.write(self.switch.meters.find(meter_name), None, _micro(rates))
        return True

    @told
    def meter_get_rates(self, meter_name: str, index: int) -> list[tuple[int, int]]:
        """Return the committed and the peak rate of a cell, each with its burst."""
        return _seconds(self.switch.meters.read(self.switch.meters.find(meter_name), int(index)))

    # -- replication

    def _replicate(self, kind: str, entry: dict[str, Any], operation: str) -> bool:
        entity = p4runtime_pb2.Entity(packet_replication_engine_entry=entry)
        (number,) = (next(iter(each.values())) for each in entry.values())
        self.switch.access.write(kind, [entity], f"{kind} {operation} {number}", "PRE", {})
        return True

    @told
    def mc_mgrp_create(
        self, mgrp: int, ports: Sequence[int] = (), instances: Sequence[int] | None = None
    ) -> bool:
        """Make a multicast group with copies to ports."""
        entry = {"multicast_group_id": int(mgrp), "replicas": _replicas(ports, instances)}
        return self._replicate("insert", {"multicast_group_entry": entry}, "multicast group")

    @told
    def mc_set_replicas(
        self, mgrp: int, ports: Sequence[int] = (), instances: Sequence[int] | None = None
    ) -> bool:
        """Give a multicast group other copies."""
        entry = {"multicast_group_id": int(mgrp), "replicas": _replicas(ports, instances)}
        return self._replicate("modify", {"multicast_group_entry": entry}, "multicast group")

    @told
    def mc_mgrp_destroy(self, mgrp: int) -> bool:
        """Delete a multicast group."""
        entry = {"multicast_group_entry": {"multicast_group_id": int(mgrp)}}
        return self._replicate("delete", entry, "multicast group")

    @told
    def mc_get_replicas(self, mgrp: int) -> tuple[list[int], list[int]]:
        """Return the ports and the instances of a multicast group."""
        return self._copies("multicast_group_entry", {"multicast_group_id": int(mgrp)})

    @told
    def cs_create(
        self,
        session_id: int,
        ports: Sequence[int] = (),
        instances: Sequence[int] | None = None,
        cos: int = 0,
        packet_length: int = 0,
    ) -> bool:
        """Make a clone session with copies to ports."""
        entry = _session(session_id, ports, instances, cos, packet_length)
        return self._replicate("insert", {"clone_session_entry": entry}, "clone session")

    @told
    def cs_set_replicas(
        self,
        session_id: int,
        ports: Sequence[int] = (),
        instances: Sequence[int] | None = None,
        cos: int = 0,
        packet_length: int = 0,
    ) -> bool:
        """Give a clone session other copies."""
        entry = _session(session_id, ports, instances, cos, packet_length)
        return self._replicate("modify", {"clone_session_entry": entry}, "clone session")

    @told
    def cs_destroy(self, session_id: int) -> bool:
        """Delete a clone session."""
        entry = {"clone_session_entry": {"session_id": int(session_id)}}
        return self._replicate("delete", entry, "clone session")

    @told
    def cs_get_replicas(self, session_id: int) -> tuple[list[int], list[int]]:
        """Return the ports and the instances of a clone session."""
        return self._copies("clone_session_entry", {"session_id": int(session_id)})

    def _copies(self, field: str, query: dict[str, int]) -> tuple[list[int], list[int]]:
        found = self.switch.access.read(packet_replication_engine_entry={field: query})
        if not found or 0 in query.values():
            raise OperationRefused("PRE", "NOT_FOUND", f"there is no {field} {query}")
        replicas = getattr(found[0].packet_replication_engine_entry, field).replicas
        return [one.egress_port for one in replicas], [one.instance for one in replicas]

    # -- digests

    @told
    def digest_enable(
        self,
        digest_name: str,
        max_timeout_ns: int = 0,
        max_list_size: int = 1,
        ack_timeout_ns: int = 0,
    ) -> bool:
        """Have the switch send a digest."""
        return self._digest("insert", digest_name, max_timeout_ns, max_list_size, ack_timeout_ns)

    @told
    def digest_set_conf(
        self,
        digest_name: str,
        max_timeout_ns: int = 0,
        max_list_size: int = 1,
        ack_timeout_ns: int = 0,
    ) -> bool:
        """Set how the switch sends a digest."""
        return self._digest("modify", digest_name, max_timeout_ns, max_list_size, ack_timeout_ns)

    @told
    def digest_get_conf(self, digest_name: str) -> dict[str, int]:
        """Return how the switch sends a digest."""
        query = {"digest_id": self._digest_id(digest_name)}
        found = self.switch.access.read(digest_entry=query)
        if not found:
            raise RunError(f"digest {digest_name} is not enabled: call digest_enable first")
        config = found[0].digest_entry.config
        return {
            "max_timeout_ns": config.max_timeout_ns,
            "max_list_size": config.max_list_size,
            "ack_timeout_ns": config.ack_timeout_ns,
        }

    def get_digest_list(self, timeout: float | None = None) -> Any | None:
        """Return the next ``DigestList`` that comes, which is acknowledged; None if none comes
        within ``timeout`` seconds. Without ``timeout`` it is waited for."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            for notice in self.session.take_notices():
                if notice.WhichOneof("update") == "digest":
                    self._digests.append(notice.digest)
            if self._digests:
                digest = self._digests.pop(0)
                ack = {"digest_id": digest.digest_id, "list_id": digest.list_id}
                self.session.tell(p4runtime_pb2.StreamMessageRequest(digest_ack=ack))
                return digest
            if end is not None and time.monotonic() >= end:
                return None
            time.sleep(POLL_S)

    def _digest_id(self, name: str) -> int:
        digests = list(self.switch.program.p4info.digests)
        found = [one for one in digests if f".{one.preamble.name}".endswith(f".{name}")]
        if len(found) != 1:
            names = ", ".join(one.preamble.name for one in digests) or "none"
            raise InputError(f"digest {name!r}: the program has {names}")
        return int(found[0].preamble.id)

    def _digest(self, kind: str, name: str, timeout_ns: int, size: int, ack_ns: int) -> bool:
        config = {
            "max_timeout_ns": timeout_ns, "max_list_size": size, "ack_timeout_ns": ack_ns
        }  # fmt: skip
        entry = {"digest_id": self._digest_id(name), "config": config}
        entity = p4runtime_pb2.Entity(digest_entry=entry)
        self.switch.access.write(kind, [entity], f"{kind} digest {name}", "digest", {})
        return True


def _micro(rates: Rates) -> list[tuple[float, int]]:
    """Return rates a second as rates a microsecond."""
    if len(rates) != 2:
        raise InputError(f"rates are [(cir, cburst), (pir, pburst)], two pairs, not {shown(rates)}")
    return [(rate / 1e6, burst) for rate, burst in rates]


def _seconds(rates: Sequence[tuple[float, int]]) -> list[tuple[int, int]]:
    return [(round(rate * 1e6), burst) for rate, burst in rates]


def _replicas(ports: Sequence[int], instances: Sequence[int] | None) -> list[dict[str, int]]:
    numbers = [0] * len(ports) if instances is None else list(instances)
    refuse(len(numbers) != len(ports), "instances and ports have different lengths")
    return [
        {"egress_port": int(port), "instance": int(instance)}
        for port, instance in zip(ports, numbers, strict=True)
    ]


def _session(
    session_id: int, ports: Sequence[int], instances: Sequence[int] | None, cos: int, length: int
) -> dict[str, Any]:
    return {
        "session_id": int(session_id), "replicas": _replicas(ports, instances),
        "class_of_service": cos, "packet_length_bytes": length,
    }  # fmt: skip
