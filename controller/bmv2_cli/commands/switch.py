"""Commands about the switch itself: its time, its ports, its program."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from weft.base.errors import did_you_mean
from weft.base.files import told_as_input, write_whole
from weft.base.units import shown
from weft.controller.bmv2_cli.command import Command, Function, exactly
from weft.controller.bmv2_cli.program_files import read_program
from weft.controller.bmv2_cli.refusals import CommandError
from weft.controller.bmv2_cli.switch import CommandSwitch
from weft.controller.bmv2_cli.values import whole_number


def get_time_elapsed(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    yield str(switch.access.own_call("clock")["elapsed_us"])


def get_time_since_epoch(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    yield str(switch.access.own_call("clock")["since_epoch_us"])


def show_ports(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    yield f"{'port #':^10}{'iface name':^20}{'status':^10}extra info"
    yield "=" * 50
    for each in switch.access.own_call("ports"):
        status = "UP" if each["up"] else "DOWN"
        yield f"{each['port']:^10}{each['interface']:^20}{status:^10}"


def _queue(switch: CommandSwitch, what: str, words: list[str]) -> None:
    names = ("nb_pkts" if what == "packets" else "rate_pps", "egress_port", "priority")
    numbers = [whole_number(word, name) for word, name in zip(words, names, strict=False)]
    where = dict(zip(("port", "priority"), numbers[1:], strict=False))
    switch.access.own_call("set_queue", **{what: numbers[0]}, **where)


def set_queue_depth(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    _queue(switch, "packets", words)
    yield from ()


def set_queue_rate(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    _queue(switch, "rate_pps", words)
    yield from ()


def switch_info(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    session = switch.access.session
    for name, value in (("device_id", session.client.device_id), ("switch", session.where)):
        yield f"{name:15}: {value}"


def reset_state(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    switch.reset()
    yield from ()


def write_config_to_file(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    with told_as_input(f"file {words[0]!r} cannot be written"):
        write_whole(Path(words[0]), switch.program.device_config)
    yield from ()


def load_new_config_file(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    file = Path(words[0])
    if not file.is_file():
        raise CommandError(f"Error: Not a valid filename: there is no file {words[0]!r}")
    p4info = file.with_suffix(".p4info.txtpb")
    if not p4info.is_file():
        raise CommandError(
            f"Error: {words[0]}: its P4Info, {p4info.name}, is not beside it: write both by "
            f"'weft p4c PROGRAM.p4 -o {file.parent}'"
        )
    program = read_program(file, p4info)
    yield "Loading new Json config"
    switch.access.set_config("VERIFY_AND_SAVE", program)
    switch.entries.forget()


def swap_configs(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    yield "Swapping configs"
    switch.access.set_config("COMMIT")
    switch.entries.forget()


def _crc(width: int) -> Function:
    def set_crc(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
        names = switch.program.names(f"crc{width}_custom")
        if words[0] not in names:
            raise CommandError(
                f"Error: Invalid crc{width}_custom name ({words[0]})"
                f"{did_you_mean(words[0], names)}: the program has {', '.join(names) or 'none'}"
            )
        numbers = ("polynomial", "initial remainder", "final xor value")
        values = [
            whole_number(word, name, (1 << width) - 1)
            for word, name in zip(words[1:4], numbers, strict=True)
        ]
        switch.access.own_call(
            "set_crc",
            **dict(zip(("polynomial", "initial", "final"), values, strict=True)),
            **dict(zip(("reflects_data", "reflects_result"), map(_flag, words[4:]), strict=True)),
            calculation=words[0],
            width=width,
        )
        yield from ()

    return set_crc


def _flag(word: str) -> bool:
    if word in ("true", "True"):
        return True
    if word in ("false", "False"):
        return False
    with suppress(CommandError):
        return bool(whole_number(word, "bool"))
    raise CommandError(
        f"Error: Invalid bool parameter: {shown(word)} is neither true, false nor a number"
    )


def greet(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    yield "hello"


def _not_there(why: str) -> Function:
    def refuse(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
        raise CommandError(f"Error: {why}")

    return refuse


_CRC = "<polynomial> <initial remainder> <final xor value> <reflect data?> <reflect remainder?>"
_TOEPLITZ = (
    "Toeplitz hashes have the key 0 here, and v1model has none: hash by crc32_custom, and set it "
    "by set_crc32_parameters"
)
_PORTS = "the ports of a switch are those that it was started with: weft switch -i PORT@INTERFACE"

COMMANDS = (
    exactly("get_time_elapsed", "", "The time since the switch started, in us.", get_time_elapsed),
    exactly("get_time_since_epoch", "", "The time since 1970, in us.", get_time_since_epoch),
    Command("set_queue_depth", "<packets> [egress port] [priority]",
            "Let at most so many packets wait in a queue, or in each of a port, or of all ports.",
            set_queue_depth, 1, 3),
    Command("set_queue_rate", "<packets a second> [egress port] [priority]",
            "Let at most so many packets a second leave a queue, or each of a port, or of all "
            "ports; 0 for no limit.",
            set_queue_rate, 1, 3),
    exactly("show_ports", "", "The ports of the switch.", show_ports),
    exactly("switch_info", "", "Which switch this is.", switch_info),
    exactly("reset_state", "", "Empty all tables, arrays and groups; the program stays.",
            reset_state),
    exactly("write_config_to_file", "<file>", "Write the program's JSON to a file.",
            write_config_to_file),
    exactly("load_new_config_file", "<JSON file>",
            "Save another program beside the one that runs; what follows is about the new one.",
            load_new_config_file),
    exactly("swap_configs", "", "Let the program run that was saved, with its entries.",
            swap_configs),
    exactly("set_crc16_parameters", f"<calculation> {_CRC}", "Set a custom CRC-16.",
            _crc(16), "crc16_custom"),
    exactly("set_crc32_parameters", f"<calculation> {_CRC}", "Set a custom CRC-32.",
            _crc(32), "crc32_custom"),
    exactly("set_toeplitz_hash_key", "<calculation> <key>", "Set the key of a Toeplitz hash.",
            _not_there(_TOEPLITZ)),
    exactly("greet", "", "See whether anybody is there.", greet),
    Command("port_add", "<interface> <port> [pcap file]", "Add a port.", _not_there(_PORTS), 2, 3),
    exactly("port_remove", "<port>", "Remove a port.", _not_there(_PORTS)),
    exactly("serialize_state", "<file>", "Write the state of the switch to a file.",
            _not_there("this switch does not write its state: table_dump tells what is there")),
    Command("shell", "<command>", "Run a command of the shell.",
            _not_there("commands of the shell are not run here")),
)  # fmt: skip
