"""What p4-utils' ``SimpleSwitchThriftAPI`` has of the switch itself: its session, queues, ports and
program."""

from typing import Any

from weft.base.errors import InputError, did_you_mean
from weft.controller.bmv2_cli.run import find_command
from weft.controller.bmv2_cli.switch import CommandSwitch
from weft.interface.p4utils.switches import THRIFT_PORT, SwitchName, session_of, told


class ThriftSwitch:
    """A switch by the commands of BMv2's command line.

    Args:
        thrift_port: in a network that is up, 9090 is the first switch, 9091 the second, and so on.
            Also a switch's name, or a handle on it (``net.switch("s1")``).
        thrift_ip, json_path: taken, and not needed.
        run: which network, if several are up.

    Raises:
        InputError: there is no such switch.
    """

    def __init__(
        self,
        thrift_port: SwitchName = THRIFT_PORT,
        thrift_ip: str = "127.0.0.1",
        json_path: str | None = None,
        *,
        run: str | None = None,
    ) -> None:
        self.switch = CommandSwitch(session_of(thrift_port, THRIFT_PORT, "thrift_port", run))
        self._is_own = isinstance(thrift_port, (int, str))

    @property
    def client(self) -> Any:
        """Refuse, since there is no Thrift behind this."""
        raise InputError(
            "client: there is no Thrift here; digests come by "
            "SimpleSwitchP4RuntimeAPI.get_digest_list"
        )

    def __getattr__(self, name: str) -> Any:
        """Refuse what p4-utils has beside, or nobody."""
        names = [one for one in dir(type(self)) if not one.startswith("_")]
        raise AttributeError(
            f"SimpleSwitchThriftAPI has no {name!r}{did_you_mean(name, names)}: its methods are "
            f"those of p4-utils that speak to the switch: {', '.join(names)}"
        )

    def close(self) -> None:
        """End the session with the switch, which keeps what it holds; one that was given stays."""
        if self._is_own:
            self.switch.access.session.close()

    def _run(self, name: str, *words: Any) -> list[str]:
        """Carry a command out, print its answer, and return it."""
        command = find_command(name)
        texts = [str(word) for word in words]
        command.check(texts)
        said: list[str] = []
        for answer in command.function(self.switch, texts):
            print(answer)
            said += answer.split("\n")
        return said

    # -- the switch

    @told
    def set_queue_depth(
        self, queue_depth: int, egress_port: int | None = None, priority: int | None = None
    ) -> None:
        """Set how many packets wait at most at a port, or at all ports."""
        self._run("set_queue_depth", queue_depth, *_given(egress_port, priority))

    @told
    def set_queue_rate(
        self, rate: int, egress_port: int | None = None, priority: int | None = None
    ) -> None:
        """Set how many packets a second leave at a port, or at all ports."""
        self._run("set_queue_rate", rate, *_given(egress_port, priority))

    @told
    def get_time_elapsed(self) -> None:
        """Print the time since the switch started, in us."""
        self._run("get_time_elapsed")

    @told
    def get_time_since_epoch(self) -> None:
        """Print the time since 1970, in us."""
        self._run("get_time_since_epoch")

    @told
    def show_ports(self) -> None:
        """Print the ports of the switch."""
        self._run("show_ports")

    @told
    def switch_info(self) -> None:
        """Print which switch this is."""
        self._run("switch_info")

    @told
    def reset_state(self) -> None:
        """Empty all tables, arrays and groups; the program stays."""
        self._run("reset_state")

    @told
    def write_config_to_file(self, filename: str) -> None:
        """Write the program's JSON to a file."""
        self._run("write_config_to_file", filename)

    @told
    def load_new_config_file(self, filename: str) -> None:
        """Save another program beside the one that runs: its JSON, with its P4Info beside it."""
        self._run("load_new_config_file", filename)

    @told
    def swap_configs(self) -> None:
        """Let the program run that was saved."""
        self._run("swap_configs")

    @told
    def serialize_state(self, filename: str) -> None:
        """Be refused: a switch does not write its state."""
        self._run("serialize_state", filename)

    @told
    def port_add(self, iface_name: str, port_num: int, pcap_path: str = "") -> None:
        """Be refused: a switch has the ports that it was started with."""
        self._run("port_add", iface_name, port_num)

    @told
    def port_remove(self, port_num: int) -> None:
        """Be refused: a switch has the ports that it was started with."""
        self._run("port_remove", port_num)

    @told
    def shell(self, line: str) -> None:
        """Be refused: commands of the shell are not run here."""
        self._run("shell", line)

    @told
    def set_crc16_parameters(
        self,
        name: str,
        polynomial: int | str,
        initial_remainder: int | str,
        final_xor_value: int | str,
        reflect_data: bool | str,
        reflect_remainder: bool | str,
    ) -> None:
        """Set the parameters of a calculation by ``crc16_custom``."""
        numbers = polynomial, initial_remainder, final_xor_value
        self._run("set_crc16_parameters", name, *numbers, reflect_data, reflect_remainder)

    @told
    def set_crc32_parameters(
        self,
        name: str,
        polynomial: int | str,
        initial_remainder: int | str,
        final_xor_value: int | str,
        reflect_data: bool | str,
        reflect_remainder: bool | str,
    ) -> None:
        """Set the parameters of a calculation by ``crc32_custom``."""
        numbers = polynomial, initial_remainder, final_xor_value
        self._run("set_crc32_parameters", name, *numbers, reflect_data, reflect_remainder)

    def get_custom_crc_calcs(self) -> dict[str, int]:
        """Return the calculations by a custom CRC, each with its bits."""
        view = self.switch.program
        return {name: width for width in (16, 32) for name in view.custom_crcs(width)}


def _given(port: int | None, priority: int | None) -> list[int]:
    return [] if port is None else [port] if priority is None else [port, priority]
