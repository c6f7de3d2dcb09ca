"""The P4 program that every switch of a fabric runs, and the macros that it is compiled with."""

from pathlib import Path

from weft.agents.collectives.names import AGGREGATION_VALUES
from weft.base.cache import PACKAGE
from weft.base.errors import InputError, MachineError, refuse
from weft.topo.network import Switch, Topology

_VALUES = (16, 32, 64, 128, 256)

_PROGRAM = PACKAGE / "p4" / "fabric.p4"


def fabric_program() -> Path:
    """Return the path of the fabric's P4 program, ``fabric.p4``, whose includes are in ``include/``
    beside it.

    Raises `MachineError` if it is not there.
    """
    if not _PROGRAM.is_file():
        raise MachineError(
            f"{_PROGRAM} is missing: run Weft from its checkout, or install it again with "
            "'pip install --force-reinstall'"
        )
    return _PROGRAM.resolve()


def fabric_macros(
    values: int = AGGREGATION_VALUES, priorities: bool = False
) -> dict[str, str | None]:
    """Return the macros to compile the fabric's program with, for aggregation packets of so many
    values, and for ports with queues of several priorities or not.

    Raises `InputError` for a number that the program does not take.
    """
    if values not in _VALUES:
        raise InputError(
            f"{values} values in an aggregation packet: the switch program takes "
            f"{', '.join(map(str, _VALUES[:-1]))} or {_VALUES[-1]}"
        )
    macros: dict[str, str | None] = {"AGGREGATION_VALUES": str(values)}
    return {**macros, "PRIORITIES": None} if priorities else macros


def check_carried(topology: Topology) -> None:
    """Raise InputError, which names the link, unless the fabric's program can do for the switches
    that run it: it forwards IPv4 alone, by gateways, and knows no port 0."""
    for direction in topology.directions:
        switch = topology.nodes[direction.source.node]
        if not isinstance(switch, Switch) or switch.program:
            continue
        what = (
            f"{topology.name}: link {direction.link.name}: {switch.name} runs the fabric's program"
        )
        instead = f"give {switch.name} a program of its own (programs, or --program)"
        refuse(
            direction.source.number == 0,
            f"{what}, which has no port 0: choose another port, or {instead}",
        )
        host = topology.nodes[direction.destination.node]
        interface = topology.interface_at(direction.destination)
        if interface is None:
            continue
        name = f"{host.name} has"
        if not interface.address:
            raise InputError(
                f"{what}, which forwards IPv4, and {name} {interface.addresses} there: give it an "
                f"address of IPv4, or {instead}"
            )
        refuse(
            interface.ipv6 is not None,
            f"{what}, which forwards IPv4 alone, and {name} {interface.ip6} there: leave that out, "
            f"or {instead}",
        )
        refuse(
            interface.gateway is None,
            f"{what}, by which hosts send to a gateway, and the subnet of {interface.ip}/"
            f"{interface.prefix_bits} has no free address for one: give ip a shorter prefix, or "
            f"{instead}",
        )
