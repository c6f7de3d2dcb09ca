"""What RECONCILE_AND_COMMIT carries over from one program to the next.

The engine keeps entries, members, groups, multicast groups and clone sessions. Value sets and the
cells of counters, meters and registers are taken here, and written to those of the same name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from weft.switch.engine.control import ControlError, CounterCell, SwitchControl
from weft.switch.p4runtime.p4info import ProgramInfo

Write = Callable[[SwitchControl], None]


def check_fits(old: SwitchControl, info: ProgramInfo, trial: SwitchControl) -> None:
    """Write all that a switch with the program ``info`` holds to one with another program.

    Raises ControlError for the first thing that does not fit.
    """
    for profile in info.profiles.values():
        for member in old.members(profile.name):
            trial.insert_member(member)
        for group in old.groups(profile.name) if profile.selector else ():
            trial.insert_group(group)
    for table in info.tables.values():
        given = {(entry.keys, entry.priority) for entry in trial.entries(table.name)}
        for entry in () if table.is_const else old.entries(table.name):
            identity = (entry.keys, entry.priority)
            if identity not in given and not old.is_const(table.name, *identity):
                trial.insert_entry(entry)
        default = old.default(table.name)
        if default is not None and not table.const_default and not table.profile_id:
            trial.set_default(table.name, default)
    for value_set in info.value_sets.values():
        members = old.value_set(value_set.name)
        if members:
            trial.set_value_set(value_set.name, members)


def taken(control: SwitchControl, info: ProgramInfo) -> list[Write]:
    """Writes that bring the value sets and cells of a switch back under its next program."""
    writes: list[Write] = []

    def add(method: str, *arguments: Any) -> None:
        writes.append(partial(_call, method, arguments))

    for value_set in info.value_sets.values():
        add("set_value_set", value_set.name, control.value_set(value_set.name))
    for counter in info.counters.values():
        for index, cell in enumerate(control.read_counters(counter.name)):
            if cell != CounterCell(0, 0):
                add("write_counter", counter.name, index, cell)
    for meter in info.meters.values():
        for index, config in enumerate(control.read_meters(meter.name)):
            if config is not None:
                add("write_meter", meter.name, index, config)
            counts = control.read_meter_counts(meter.name, index)
            if any(cell != CounterCell(0, 0) for cell in counts):
                add("write_meter_counts", meter.name, index, counts)
    for register in info.registers.values():
        for index in range(register.size):
            value = control.read_register(register.name, index)
            if value:
                add("write_register", register.name, index, value)
    for table in info.tables.values():
        for entry in control.entries(table.name):
            identity = (table.name, entry.keys, entry.priority)
            if table.direct_counter:
                add("write_direct_counter", *identity, control.read_direct_counter(*identity))
            if table.direct_meter is not None:
                add("write_direct_meter", *identity, control.read_direct_meter(*identity))
                counts = control.read_direct_meter_counts(*identity)
                add("write_direct_meter_counts", *identity, counts)
    return writes


def _call(method: str, arguments: tuple[Any, ...], control: SwitchControl) -> None:
    getattr(control, method)(*arguments)


def give_back(control: SwitchControl, writes: list[Write]) -> None:
    """Do the writes of ``taken``; what the next program does not have is left out."""
    for write in writes:
        try:
            write(control)
        except ControlError:
            continue
    control.publish()


def free_entries(control: SwitchControl, info: ProgramInfo) -> None:
    """Let clients change the initial entries of tables whose ``entries`` are not const.

    BMv2's JSON does not tell them from const ones; the P4Info does.
    """
    for table in info.tables.values():
        if table.preinitialised:
            control.free_entries(table.name)
