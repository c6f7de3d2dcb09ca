"""p4-utils' ``SimpleSwitchThriftAPI``: the commands of BMv2's command line as methods.

As there, methods print what the commands answer. A command that makes no sense, or that the switch
refuses, is printed, too, and the method returns None.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from weft.controller.bmv2_cli.refusals import CommandError, OperationRefused
from weft.interface.p4utils.switches import told
from weft.interface.p4utils.thrift_switch import ThriftSwitch

UIn_Error = CommandError
Rates = Sequence[tuple[float, int]]


class SimpleSwitchThriftAPI(ThriftSwitch):
    """The control plane of a switch."""

    # -- tables

    @told
    def table_add(
        self,
        table_name: str,
        action_name: str,
        match_keys: Sequence[Any],
        action_params: Sequence[Any] = (),
        prio: int = 0,
    ) -> int:
        """Add an entry, and return its handle; the least priority wins, as in BMv2."""
        priority = [prio] if self.switch.program.table(table_name).ranked else []
        words = [table_name, action_name, *match_keys, "=>", *action_params, *priority]
        return _handle(self._run("table_add", *words))

    @told
    def table_set_default(
        self, table_name: str, action_name: str, action_params: Sequence[Any] = ()
    ) -> None:
        """Set the default action of a table."""
        self._run("table_set_default", table_name, action_name, *action_params)

    @told
    def table_reset_default(self, table_name: str) -> None:
        """Go back to the default action of the program."""
        self._run("table_reset_default", table_name)

    @told
    def table_num_entries(self, table_name: str) -> int:
        """Return how many entries a table has."""
        return int(self._run("table_num_entries", table_name)[0])

    @told
    def table_clear(self, table_name: str) -> None:
        """Delete all entries of a table but the default one."""
        self._run("table_clear", table_name)

    @told
    def table_set_timeout(self, table_name: str, entry_handle: int, timeout_ms: int) -> None:
        """Set the timeout of an entry."""
        self._run("table_set_timeout", table_name, entry_handle, timeout_ms)

    @told
    def table_modify(
        self,
        table_name: str,
        action_name: str,
        entry_handle: int,
        action_params: Sequence[Any] = (),
    ) -> int:
        """Give an entry another action, and return its handle."""
        self._run("table_modify", table_name, action_name, entry_handle, *action_params)
        return int(entry_handle)

    @told
    def table_delete(self, table_name: str, entry_handle: int, quiet: bool = False) -> None:
        """Delete an entry."""
        if quiet:
            self.switch.entries.delete(self.switch.program.table(table_name), int(entry_handle))
        else:
            self._run("table_delete", table_name, entry_handle)

    def get_handle_from_match(
        self, table_name: str, match_keys: Sequence[Any], pop: bool = False
    ) -> int | None:
        """Return the handle of the first entry with this key, whatever its priority; None if there
        is none."""
        self.switch.forget()
        table = self.switch.program.table(table_name)
        with suppress(OperationRefused):
            return self.switch.entries.find(table, [str(key) for key in match_keys], None)
        return None

    def table_modify_match(
        self,
        table_name: str,
        action_name: str,
        match_keys: Sequence[Any],
        action_params: Sequence[Any] = (),
    ) -> int:
        """Give the entry with this key another action. Raises `UIn_Error` if there is none."""
        handle = self._need(table_name, match_keys)
        self.table_modify(table_name, action_name, handle, action_params)
        return handle

    def table_delete_match(self, table_name: str, match_keys: Sequence[Any]) -> None:
        """Delete the entry with this key. Raises `UIn_Error` if there is none."""
        self.table_delete(table_name, self._need(table_name, match_keys))

    def _need(self, table_name: str, match_keys: Sequence[Any]) -> int:
        handle = self.get_handle_from_match(table_name, match_keys)
        if handle is None:
            raise UIn_Error(f"Table {table_name} has no match {list(map(str, match_keys))}")
        return handle

    @told
    def table_dump(self, table_name: str) -> None:
        """Print all entries of a table."""
        self._run("table_dump", table_name)

    @told
    def table_dump_entry(self, table_name: str, entry_handle: int) -> None:
        """Print an entry."""
        self._run("table_dump_entry", table_name, entry_handle)

    @told
    def table_dump_entry_from_key(
        self, table_name: str, match_keys: Sequence[Any], prio: int = 0
    ) -> None:
        """Print the entry with this key."""
        priority = [prio] if self.switch.program.table(table_name).ranked else []
        self._run("table_dump_entry_from_key", table_name, *match_keys, *priority)

    @told
    def show_tables(self) -> None:
        """Print the tables of the program."""
        self._run("show_tables")

    @told
    def show_actions(self) -> None:
        """Print the actions of the program."""
        self._run("show_actions")

    @told
    def table_show_actions(self, table_name: str) -> None:
        """Print the actions of a table."""
        self._run("table_show_actions", table_name)

    @told
    def table_info(self, table_name: str) -> None:
        """Print a table and its actions."""
        self._run("table_info", table_name)

    def get_tables(self) -> list[str]:
        """Return the names of the program's tables."""
        return self.switch.program.names("table")

    def get_actions(self) -> list[str]:
        """Return the names of the program's actions."""
        return self.switch.program.names("action")

    def get_register_arrays(self) -> list[str]:
        """Return the names of the program's registers."""
        return self.switch.program.names("register")

    def get_counter_arrays(self) -> list[str]:
        """Return the names of the program's counters."""
        return self.switch.program.names("counter")

    def get_meter_arrays(self) -> list[str]:
        """Return the names of the program's meters."""
        return self.switch.program.names("meter")

    def get_action_profs(self) -> list[str]:
        """Return the names of the program's action profiles."""
        return self.switch.program.names("action profile")

    def get_parse_vsets(self) -> list[str]:
        """Return the names of the program's parser value sets."""
        return self.switch.program.names("parser value set")

    def load_table_entries_match_to_handle(self) -> None:
        """Do nothing: handles are asked of the switch whenever they are needed."""

    # -- action profiles

    @told
    def act_prof_create_member(
        self, act_prof_name: str, action_name: str, action_params: Sequence[Any] = ()
    ) -> int:
        """Make a member, and return its handle."""
        return _handle(
            self._run("act_prof_create_member", act_prof_name, action_name, *action_params)
        )

    @told
    def act_prof_delete_member(self, act_prof_name: str, mbr_handle: int) -> None:
        """Delete a member."""
        self._run("act_prof_delete_member", act_prof_name, mbr_handle)

    @told
    def act_prof_modify_member(
        self,
        act_prof_name: str,
        action_name: str,
        mbr_handle: int,
        action_params: Sequence[Any] = (),
    ) -> int:
        """Give a member another action, and return its handle."""
        self._run("act_prof_modify_member", act_prof_name, action_name, mbr_handle, *action_params)
        return int(mbr_handle)

    @told
    def act_prof_create_group(self, act_prof_name: str) -> int:
        """Make a group, and return its handle."""
        return _handle(self._run("act_prof_create_group", act_prof_name))

    @told
    def act_prof_delete_group(self, act_prof_name: str, grp_handle: int) -> None:
        """Delete a group."""
        self._run("act_prof_delete_group", act_prof_name, grp_handle)

    @told
    def act_prof_add_member_to_group(
        self, act_prof_name: str, mbr_handle: int, grp_handle: int
    ) -> None:
        """Add a member to a group."""
        self._run("act_prof_add_member_to_group", act_prof_name, mbr_handle, grp_handle)

    @told
    def act_prof_remove_member_from_group(
        self, act_prof_name: str, mbr_handle: int, grp_handle: int
    ) -> None:
        """Take a member out of a group."""
        self._run("act_prof_remove_member_from_group", act_prof_name, mbr_handle, grp_handle)

    @told
    def act_prof_dump(self, act_prof_name: str) -> None:
        """Print all members and groups."""
        self._run("act_prof_dump", act_prof_name)

    @told
    def act_prof_dump_member(self, act_prof_name: str, mbr_handle: int) -> None:
        """Print a member."""
        self._run("act_prof_dump_member", act_prof_name, mbr_handle)

    @told
    def act_prof_dump_group(self, act_prof_name: str, grp_handle: int) -> None:
        """Print a group."""
        self._run("act_prof_dump_group", act_prof_name, grp_handle)

    # -- replication

    @told
    def mc_mgrp_create(self, mgrp: int) -> int:
        """Make a multicast group, and return its number."""
        self._run("mc_mgrp_create", mgrp)
        return int(mgrp)

    @told
    def mc_mgrp_destroy(self, mgrp: int) -> None:
        """Delete a multicast group."""
        self._run("mc_mgrp_destroy", mgrp)

    @told
    def mc_node_create(self, rid: int, ports: Sequence[Any], lags: Sequence[Any] = ()) -> int:
        """Make a node, and return its handle."""
        return _handle(self._run("mc_node_create", rid, *ports, *(["|", *lags] if lags else [])))

    @told
    def mc_node_update(self, l1_hdl: int, ports: Sequence[Any], lags: Sequence[Any] = ()) -> None:
        """Give a node other ports."""
        self._run("mc_node_update", l1_hdl, *ports, *(["|", *lags] if lags else []))

    @told
    def mc_set_lag_membership(self, lag_index: int, ports: Sequence[Any]) -> None:
        """Set the ports of a LAG."""
        self._run("mc_set_lag_membership", lag_index, *ports)

    @told
    def mc_node_associate(self, mgrp: int, l1_hdl: int) -> None:
        """Add a node to a group."""
        self._run("mc_node_associate", mgrp, l1_hdl)

    @told
    def mc_node_dissociate(self, mgrp: int, l1_hdl: int) -> None:
        """Take a node out of a group."""
        self._run("mc_node_dissociate", mgrp, l1_hdl)

    @told
    def mc_node_destroy(self, l1_hdl: int) -> None:
        """Delete a node."""
        self._run("mc_node_destroy", l1_hdl)

    @told
    def mc_dump(self) -> None:
        """Print the multicast groups and their nodes."""
        self._run("mc_dump")

    @told
    def mirroring_add(self, mirror_id: int, egress_port: int) -> None:
        """Let clones of a session leave at a port."""
        self._run("mirroring_add", mirror_id, egress_port)

    @told
    def mirroring_add_mc(self, mirror_id: int, mgrp: int) -> None:
        """Let clones of a session go where a group's copies go."""
        self._run("mirroring_add_mc", mirror_id, mgrp)

    @told
    def mirroring_add_port_and_mgrp(self, mirror_id: int, egress_port: int, mgrp: int) -> None:
        """Let clones of a session leave at a port, and go where a group's copies go."""
        self.switch.replication.mirror(int(mirror_id), int(egress_port), int(mgrp))

    @told
    def mirroring_delete(self, mirror_id: int) -> None:
        """Let clones of a session go nowhere."""
        self._run("mirroring_delete", mirror_id)

    @told
    def mirroring_get(self, mirror_id: int) -> None:
        """Print where clones of a session go."""
        self._run("mirroring_get", mirror_id)

    # -- counters, meters, registers, value sets

    @told
    def counter_read(self, counter_name: str, index: int) -> tuple[int, int]:
        """Return the bytes and packets of a cell."""
        self._run("counter_read", counter_name, index)
        packets, size_bytes = self.switch.counters.read(
            self.switch.counters.find(counter_name), int(index)
        )
        return size_bytes, packets

    @told
    def counter_write(self, counter_name: str, index: int, pkts: int = 0, byts: int = 0) -> None:
        """Set a cell."""
        self._run("counter_write", counter_name, index, pkts, byts)

    @told
    def counter_reset(self, counter_name: str) -> None:
        """Set all cells to 0."""
        self._run("counter_reset", counter_name)

    @told
    def meter_set_rates(self, meter_name: str, index: int, rates: Rates) -> None:
        """Set the committed and the peak rate of a cell, each with its burst."""
        self._run("meter_set_rates", meter_name, index, *_rate_words(rates))

    @told
    def meter_array_set_rates(self, meter_name: str, rates: Rates) -> None:
        """Set the rates of all cells."""
        self._run("meter_array_set_rates", meter_name, *_rate_words(rates))

    @told
    def meter_get_rates(self, meter_name: str, index: int) -> list[tuple[float, int]]:
        """Return the committed and the peak rate of a cell, each with its burst."""
        self._run("meter_get_rates", meter_name, index)
        return self.switch.meters.read(self.switch.meters.find(meter_name), int(index))

    @told
    def register_read(
        self, register_name: str, index: int | None = None, show: bool = False
    ) -> int | list[int]:
        """Return what a cell holds, or what all hold."""
        if show:
            self._run("register_read", register_name, *([] if index is None else [index]))
        registers = self.switch.registers
        values = registers.read(
            registers.find(register_name), None if index is None else int(index)
        )
        return values if index is None else values[0]

    @told
    def register_write(self, register_name: str, index: int | list[int], value: int) -> None:
        """Set a cell; or, with a list of two indices, the cells from the first to the last one,
        which is not among them."""
        if isinstance(index, list):
            first, end = map(int, index)
            for each in range(first, end):
                self._run("register_write", register_name, each, value)
        else:
            self._run("register_write", register_name, index, value)

    @told
    def register_reset(self, register_name: str) -> None:
        """Set all cells to 0."""
        self._run("register_reset", register_name)

    @told
    def show_pvs(self, line: str = "") -> None:
        """Print the names of the value sets."""
        self._run("show_pvs")

    @told
    def pvs_add(self, pvs_name: str, value: Any) -> None:
        """Add a value to a value set."""
        self._run("pvs_add", pvs_name, value)

    @told
    def pvs_remove(self, pvs_name: str, value: Any) -> None:
        """Take a value out of a value set."""
        self._run("pvs_remove", pvs_name, value)

    @told
    def pvs_get(self, pvs_name: str) -> list[str]:
        """Return the values of a value set, as hexadecimal digits."""
        return self._run("pvs_get", pvs_name)

    @told
    def pvs_clear(self, pvs_name: str) -> None:
        """Take all values out of a value set."""
        self._run("pvs_clear", pvs_name)


def _handle(said: Sequence[str]) -> int:
    """Return the handle with which an answer ends."""
    return int(said[-1].rpartition(" ")[2])


def _rate_words(rates: Rates) -> list[str]:
    return [f"{rate}:{burst}" for rate, burst in rates]
