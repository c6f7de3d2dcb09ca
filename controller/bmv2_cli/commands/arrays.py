"""Commands about counters, meters, registers and parsers' value sets."""

from collections.abc import Iterator, Sequence

from weft.base.units import parse_number
from weft.controller.bmv2_cli.arrays import MOST_VALUE, Rate, width_of
from weft.controller.bmv2_cli.command import Command, exactly
from weft.controller.bmv2_cli.refusals import CommandError
from weft.controller.bmv2_cli.switch import CommandSwitch
from weft.controller.bmv2_cli.values import whole_number

_MOST_COUNT = (1 << 63) - 1
_VALUE_SET = "parser value set"


def counter_read(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    counter, index = switch.counters.find(words[0]), whole_number(words[1], "index")
    table = switch.counters.table(counter)
    if table is not None:
        yield f"this is the direct counter for table {table.name}"
    packets, size_bytes = switch.counters.read(counter, index)
    yield f"{words[0]}[{index}]= ({size_bytes} bytes, {packets} packets)"


def counter_write(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    counter, index = switch.counters.find(words[0]), whole_number(words[1], "index")
    packets = whole_number(words[2], "packets", _MOST_COUNT)
    size_bytes = whole_number(words[3], "bytes", _MOST_COUNT)
    table = switch.counters.table(counter)
    if table is not None:
        yield f"writing to direct counter for table {table.name}"
    switch.counters.write(counter, index, packets, size_bytes)
    yield f"{words[0]}[{index}] has been updated"


def counter_reset(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    counter = switch.counters.find(words[0])
    table = switch.counters.table(counter)
    if table is not None:
        yield f"this is the direct counter for table {table.name}"
    switch.counters.write(counter, None, 0, 0)


def _rates(words: Sequence[str]) -> list[Rate]:
    if len(words) != 2:
        raise CommandError(
            f"Error: Invalid number of rates, expected 2 but got {len(words)}: the committed and "
            "the peak one, each as RATE:BURST"
        )
    return [_rate(word) for word in words]


def _rate(word: str) -> Rate:
    rate, _, burst = word.partition(":")
    number = parse_number(rate)
    if number is None or not 0 <= number < 1e12:
        raise CommandError(
            f"Error: Error while parsing rates: {word!r} is no RATE:BURST, in units a "
            "microsecond and units, like 0.001:1500"
        )
    return number, whole_number(burst, "burst", _MOST_COUNT)


def meter_set_rates(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    meter, index = switch.meters.find(words[0]), whole_number(words[1], "index")
    switch.meters.write(meter, index, _rates(words[2:]))
    yield from ()


def meter_array_set_rates(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    switch.meters.write(switch.meters.find(words[0]), None, _rates(words[1:]))
    yield from ()


def meter_get_rates(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    meter, index = switch.meters.find(words[0]), whole_number(words[1], "index")
    rates = switch.meters.read(meter, index)
    if not rates:
        yield "WARNING: expected 2 rates but only received 0"
    for number, (rate, burst) in enumerate(rates):
        yield f"{number}: info rate = {rate}, burst size = {burst}"


def register_read(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    register = switch.registers.find(words[0])
    if len(words) > 1:
        index = whole_number(words[1], "index")
        (value,) = switch.registers.read(register, index)
        yield f"{words[0]}[{index}]= {value}"
    else:
        yield f"{words[0]}= " + ", ".join(map(str, switch.registers.read(register)))


def register_write(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    register, index = switch.registers.find(words[0]), whole_number(words[1], "index")
    switch.registers.write(register, index, whole_number(words[2], "value", MOST_VALUE))
    yield from ()


def register_reset(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    switch.registers.write(switch.registers.find(words[0]), None, 0)
    yield from ()


def show_pvs(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    for name in switch.program.names(_VALUE_SET):
        yield f"{name:30} [compressed bitwidth:{width_of(switch.value_sets.find(name))}]"


def pvs_add(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    info = switch.value_sets.find(words[0])
    member = switch.value_sets.number(info, words[1])
    switch.value_sets.write(info, [*switch.value_sets.read(info), member])
    yield from ()


def pvs_remove(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    info = switch.value_sets.find(words[0])
    member = switch.value_sets.number(info, words[1])
    members = switch.value_sets.read(info)
    switch.value_sets.write(info, [one for one in members if one != member])
    yield from ()


def pvs_get(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    yield from (member.hex() for member in switch.value_sets.read(switch.value_sets.find(words[0])))


def pvs_clear(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    switch.value_sets.write(switch.value_sets.find(words[0]), [])
    yield from ()


_RATES = "<rate 1>:<burst 1> <rate 2>:<burst 2>"

COMMANDS = (
    exactly("counter_read", "<counter> <index>", "What a counter's cell has counted.",
            counter_read, "counter"),
    exactly("counter_write", "<counter> <index> <packets> <bytes>", "Set a counter's cell.",
            counter_write, "counter"),
    exactly("counter_reset", "<counter>", "Set all cells of a counter to 0.", counter_reset,
            "counter"),
    Command("meter_set_rates", f"<meter> <index> {_RATES}",
            "Set the rates of a meter's cell, in bytes or packets a microsecond.", meter_set_rates,
            2, None, ("meter",)),
    Command("meter_array_set_rates", f"<meter> {_RATES}", "Set the rates of all cells of a meter.",
            meter_array_set_rates, 1, None, ("meter",)),
    exactly("meter_get_rates", "<meter> <index>", "The rates of a meter's cell.", meter_get_rates,
            "meter"),
    Command("register_read", "<register> [index]", "What a register's cell holds, or all hold.",
            register_read, 1, 2, ("register",)),
    exactly("register_write", "<register> <index> <value>", "Set a register's cell.",
            register_write, "register"),
    exactly("register_reset", "<register>", "Set all cells of a register to 0.", register_reset,
            "register"),
    exactly("show_pvs", "", "The value sets of the program's parsers.", show_pvs),
    exactly("pvs_add", "<value set> <value>", "Add a value to a value set.", pvs_add, _VALUE_SET),
    exactly("pvs_remove", "<value set> <value>", "Take a value out of a value set.", pvs_remove,
            _VALUE_SET),
    exactly("pvs_get", "<value set>", "The values of a value set.", pvs_get, _VALUE_SET),
    exactly("pvs_clear", "<value set>", "Take all values out of a value set.", pvs_clear,
            _VALUE_SET),
)  # fmt: skip
