"""What RECONCILE_AND_COMMIT carries over from one program to the next.

The engine keeps entries, members, groups, multicast groups and clone sessions. Value sets and the
cells of counters, meters and registers are taken here, and written to those of the same name.
"""

import contextlib
from collections.abc import Callable
from functools import partial

from weft.switch.engine.control.entities import CounterCell, Key
from weft.switch.engine.control.errors import ControlError
from weft.switch.engine.control.state import SwitchControl
from weft.switch.p4runtime.p4info import ProgramInfo
from weft.switch.p4runtime.p4info_objects import TableInfo

Write = Callable[[], None]

_ZERO = CounterCell(0, 0)


def check_fits(old: SwitchControl, info: ProgramInfo, trial: SwitchControl) -> None:
    """Write all that a switch with the program ``info`` holds to a switch with another program.

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
        if members := old.value_set(value_set.name):
            trial.set_value_set(value_set.name, members)


def taken(control: SwitchControl, info: ProgramInfo) -> list[Write]:
    """Return the writes that bring a switch's value sets and cells back under its next program."""
    values = control.values
    writes: list[Write] = [
        partial(control.set_value_set, value_set, control.value_set(value_set))
        for value_set in info.value_sets.by_name
    ]
    for counter in info.counters.by_name:
        writes += [
            partial(values.write_counter, counter, index, cell)
            for index, cell in enumerate(values.read_counters(counter))
            if cell != _ZERO
        ]
    for meter in info.meters.by_name:
        for index, config in enumerate(values.read_meters(meter)):
            if config is not None:
                writes.append(partial(values.write_meter, meter, index, config))
            counts = values.read_meter_counts(meter, index)
            if any(cell != _ZERO for cell in counts):
                writes.append(partial(values.write_meter_counts, meter, index, counts))
    for register in info.registers.values():
        for index in range(register.size):
            if value := values.read_register(register.name, index):
                writes.append(partial(values.write_register, register.name, index, value))
    for table in info.tables.values():
        for entry in control.entries(table.name):
            writes += restored(control, table, (table.name, entry.keys, entry.priority))
    return writes


def restored(
    control: SwitchControl, table: TableInfo, entry: tuple[str, tuple[Key, ...], int]
) -> list[Write]:
    """Return the writes that give an entry the direct counter and meter again that it has now."""
    values = control.values
    writes: list[Write] = []
    if table.direct_counter:
        writes.append(
            partial(values.write_direct_counter, *entry, values.read_direct_counter(*entry))
        )
    if table.direct_meter is not None:
        config = values.read_direct_meter(*entry)
        counts = values.read_direct_meter_counts(*entry)
        writes += [
            partial(values.write_direct_meter, *entry, config),
            partial(values.write_direct_meter_counts, *entry, counts),
        ]
    return writes


def give_back(control: SwitchControl, writes: list[Write]) -> None:
    """Do the writes of ``taken``. A write to what the next program does not have is left out."""
    for write in writes:
        with contextlib.suppress(ControlError):
            write()
    control.publish()


def free_entries(control: SwitchControl, info: ProgramInfo) -> None:
    """Let clients change the initial entries of tables whose ``entries`` are not const.

    BMv2's JSON does not tell them from const ones; the P4Info does.
    """
    for table in info.tables.values():
        if table.preinitialised:
            control.free_entries(table.name)
