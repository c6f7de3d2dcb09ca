"""The topologies of p4lang/tutorials: JSON with hosts, switches and links."""

import re
from ipaddress import IPv4Interface, IPv6Interface
from typing import Any

import msgspec

from weft.base.errors import did_you_mean
from weft.base.placed import PlacedDocument
from weft.base.units import shown
from weft.topo.labs.lab_format import (
    Programs,
    check_switches,
    check_unique,
    delay_of,
    file_beside,
    program_of,
    rate_of,
)
from weft.topo.network import MAX_PORTS
from weft.topo.network_document import NO_ADDRESS, LinkDocument, NetworkDocument

FIRST_INTERFACE = "eth0"
"""What every host calls its first interface; commands and scripts name it."""
_END = re.compile(r"(?P<switch>.+)-p(?P<port>[0-9]{1,3})")


class TutorialHost(msgspec.Struct, forbid_unknown_fields=True):
    """A host; its commands are run once the network is up."""

    ip: str
    mac: str
    commands: list[str] = []


class TutorialSwitch(msgspec.Struct, forbid_unknown_fields=True):
    """A switch, with the files of its entries."""

    program: str = ""
    runtime_json: str = ""
    cli_input: str = ""
    cpu_port: int | str | None = None
    priority_queues: int | str | None = None


class TutorialTopology(msgspec.Struct, forbid_unknown_fields=True):
    """A topology; a link has two ends, and may have a latency and a bandwidth."""

    hosts: dict[str, TutorialHost]
    switches: dict[str, TutorialSwitch]
    links: list[list[str | int | float | None]]


class Tutorials:
    """The format of p4lang/tutorials' ``topology.json``."""

    name = "a topology of p4lang/tutorials"
    links = "links"

    def fits(self, content: Any) -> bool:
        """Return whether a document is one: hosts and switches are at its top."""
        return isinstance(content, dict) and {"hosts", "switches", "links"} <= content.keys()

    def read(self, document: PlacedDocument, programs: Programs) -> NetworkDocument:
        """Return the network that a document describes."""
        found = document.typed(TutorialTopology)
        for field, what in (("ip", "address"), ("mac", "MAC address")):
            places = {
                f"hosts.{name}.{field}": str(getattr(host, field))
                for name, host in found.hosts.items()
            }
            check_unique(document, places, what)
        for name, host in found.hosts.items():
            _check_address(document, f"hosts.{name}.ip", host.ip)
        check_switches(document, programs, [*found.switches])
        links = [_link(document, found, index) for index in range(len(found.links))]
        described = NetworkDocument(
            document.path.stem,
            [*found.hosts],
            [*found.switches],
            {
                name: program_of(document, programs, name, f"switches.{name}", switch.program)
                for name, switch in found.switches.items()
            },
            first_device_id=0,
            entries={
                name: [
                    file_beside(document, f"switches.{name}.{field}", getattr(switch, field))
                    for field in ("cli_input", "runtime_json")
                    if getattr(switch, field)
                ]
                for name, switch in found.switches.items()
                if switch.cli_input or switch.runtime_json
            },
            commands={name: host.commands for name, host in found.hosts.items() if host.commands},
            links=_with_addresses(found, links),
        )
        numbers = _numbers(document, found)
        described.cpu_port = numbers.get("cpu_port", described.cpu_port)
        described.priority_queues = numbers.get("priority_queues", described.priority_queues)
        return described


def _check_address(document: PlacedDocument, place: str, value: str) -> None:
    """Raise InputError at a host's address that is none; errors of links would name the link."""
    try:
        (IPv6Interface if ":" in value else IPv4Interface)(value)
        if "/" not in value:
            raise ValueError(f"{value!r} has no prefix length")
    except ValueError as error:
        raise document.wrong(
            place, f"{shown(value)} is no address: {error}; write it like 10.0.1.7/24"
        ) from None


def _numbers(document: PlacedDocument, found: TutorialTopology) -> dict[str, int]:
    """Return what the file says of all switches alike."""
    numbers: dict[str, int] = {}
    for field in ("cpu_port", "priority_queues"):
        for name, switch in found.switches.items():
            value = getattr(switch, field)
            if value is None:
                continue
            place = f"switches.{name}.{field}"
            if not re.fullmatch("[0-9]{1,3}", str(value)):
                raise document.wrong(place, f"{shown(value)} is no whole number, like 255")
            if numbers.setdefault(field, int(value)) != int(value):
                raise document.wrong(
                    place,
                    f"{value}: another switch has {numbers[field]}, and Weft has one number for "
                    "all of a network: write the same",
                )
    return numbers


def _link(document: PlacedDocument, found: TutorialTopology, index: int) -> LinkDocument:
    place = f"links[{index}]"
    values = found.links[index]
    if not 2 <= len(values) <= 4:
        raise document.wrong(
            place,
            f"a link has 2 to 4 values, [END, END, LATENCY, BANDWIDTH], and not {len(values)}",
        )
    ports = {}
    ends = []
    for value in values[:2]:
        name, port = _end(document, found, place, value)
        ends.append(name)
        if port is not None:
            ports[name] = port
    link = LinkDocument(ends=(ends[0], ends[1]), ports=ports)
    latency, bandwidth = (*values[2:], None, None)[:2]
    if latency is not None:
        if isinstance(latency, (int, float)):
            latency = f"{latency}ms"
        link.delay = delay_of(document, f"{place}[2]", latency)
    if bandwidth is not None:
        link.rate = rate_of(document, f"{place}[3]", bandwidth)
    return link


def _end(
    document: PlacedDocument, found: TutorialTopology, place: str, value: object
) -> tuple[str, int | None]:
    """Return the node of a link's end, and the number of its port if it is a switch."""
    if isinstance(value, str) and value in found.hosts:
        return value, None
    parts = _END.fullmatch(value) if isinstance(value, str) else None
    if parts is not None and parts["switch"] in found.switches:
        return parts["switch"], int(parts["port"])
    if value in found.switches:
        raise document.wrong(place, f"{value!r} is a switch: name its port, like {value}-p1")
    switches = ", ".join(found.switches) or "of which the file has none"
    if parts is None and isinstance(value, str) and value.rpartition("-p")[0] in found.switches:
        raise document.wrong(place, f"{value!r}: a switch's port is 1 to {MAX_PORTS}")
    known = [*found.hosts, *(f"{name}-p1" for name in found.switches)]
    raise document.wrong(
        place,
        f"{shown(value)} is no end of a link{did_you_mean(value, known)}: write a host "
        f"({', '.join(found.hosts)}), or a switch ({switches}) with its port, "
        "like s1-p1",
    )


def _with_addresses(found: TutorialTopology, links: list[LinkDocument]) -> list[LinkDocument]:
    """Return the links with what is said of their hosts, whose first interfaces have it."""
    waiting = dict(found.hosts)
    for link in links:
        for name in link.ends:
            if name not in found.hosts:
                continue
            host = waiting.pop(name, None)
            both = all(end in found.hosts for end in link.ends)
            values = (
                {"ip": NO_ADDRESS}
                if host is None
                else {"ip": host.ip, "mac": host.mac, "interface": FIRST_INTERFACE}
            )
            for field, value in values.items():
                old = getattr(link, field)
                setattr(link, field, {**(old or {}), name: value} if both else value)
    return links
