"""The addresses that p4-utils gives hosts, by its strategies."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Interface, IPv4Network

from weft.base.placed import PlacedDocument
from weft.base.units import shown

STRATEGIES = ("l2", "mixed", "l3", "manual")
"""``l2``: all hosts in one subnet; ``mixed``: those of a switch in one; ``l3``: each in its own;
``manual``: as links say, and else the next free ones."""
NUMBERED = re.compile(r"h([0-9]+)")
"""A host whose number is part of its address."""
L2_BITS, SUBNET_BITS, MANUAL_BITS = 16, 24, 8


@dataclass(frozen=True)
class Attached:
    """A host's end of a link, and what is known of it."""

    link: int
    host: str
    switch: str
    ip: str = ""
    mac: str = ""
    interface: str = ""
    gateway: str = ""
    gateway_mac: str = ""


class Addresses:
    """The addresses of all hosts of a network."""

    def __init__(
        self,
        document: PlacedDocument,
        strategy: str,
        switches: Sequence[str],
        hosts: Sequence[str],
        attached: Sequence[Attached],
    ) -> None:
        """Give addresses. Raises InputError, with the line of the link.

        Args:
            switches: in the order of their device ids.
        """
        self._document = document
        self._ids = {name: number for number, name in enumerate(switches, 1)}
        self._taken: set[str] = {each.ip.partition("/")[0] for each in attached if each.ip}
        self._numbered = {
            name: int(found[1]) for name in hosts if (found := NUMBERED.fullmatch(name))
        }
        give: Callable[[Attached], Attached] = getattr(self, f"_{strategy}")
        self._attached = attached
        self.given = [give(each) for each in attached]
        """The ends with their addresses."""

    def neighbours(self, host: str, of_hosts: bool, of_gateway: bool) -> list[str]:
        """Return commands that tell a host the MAC addresses of the others of its subnets, and that
        of its gateway."""
        found: dict[str, str] = {}
        interface = self._interfaces(host)
        lines = []
        for each in (one for one in self.given if one.host == host):
            network = IPv4Interface(each.ip).network
            if of_hosts:
                found = {
                    other.ip.partition("/")[0]: other.mac
                    for other in self.given
                    if other.host != host and IPv4Interface(other.ip).network == network
                }
            if of_gateway and each.gateway:
                found[each.gateway] = each.gateway_mac
            name = next(interface)
            lines += [f"ip neighbour replace {ip} lladdr {mac} dev {name}"
                      for ip, mac in found.items()]  # fmt: skip
        return [" && ".join(lines)] if lines else []

    def _interfaces(self, host: str) -> Iterator[str]:
        own = (each for each in self.given if each.host == host)
        return (each.interface or f"{host}-eth{number}" for number, each in enumerate(own))

    def _l2(self, each: Attached) -> Attached:
        number = self._numbered.get(each.host)
        network = IPv4Network("10.0.0.0/16")
        if number is None:
            return self._with(each, self._free(network), L2_BITS)
        return self._with(each, f"10.0.{number >> 8 & 255}.{number & 255}", L2_BITS)

    def _mixed(self, each: Attached) -> Attached:
        switch = self._switch(each)
        subnet = f"10.{switch >> 8}.{switch & 255}"
        number = self._number(each)
        ip = self._free(IPv4Network(f"{subnet}.0/24")) if number is None else f"{subnet}.{number}"
        return self._with(each, ip, SUBNET_BITS, f"{subnet}.254")

    def _l3(self, each: Attached) -> Attached:
        switch = self._switch(each)
        number = self._number(each)
        if number is None:
            numbers = {self._numbered.get(other.host) for other in self._attached
                       if other.switch == each.switch}  # fmt: skip
            number = next(
                one for one in range(1, 254)
                if one not in numbers and f"10.{switch}.{one}.2" not in self._taken
            )  # fmt: skip
        subnet = f"10.{switch}.{number}"
        return self._with(each, f"{subnet}.2", SUBNET_BITS, f"{subnet}.1")

    def _manual(self, each: Attached) -> Attached:
        if each.ip:
            if "/" not in each.ip or not _is_address(each.ip):
                raise self._wrong(each, f"{shown(each.ip)} is no address with its prefix length")
            mac = each.mac or _mac(0, each.ip.partition("/")[0])
            gateway_mac = _mac(1, each.gateway) if each.gateway else ""
            return replace(each, mac=mac, gateway_mac=gateway_mac)
        return self._with(each, self._free(IPv4Network("10.0.0.0/8")), MANUAL_BITS)

    def _with(self, each: Attached, ip: str, bits: int, gateway: str = "") -> Attached:
        if ip in self._taken and not each.ip:
            raise self._wrong(each, f"{each.host} would have {ip}, which another host has")
        self._taken.add(ip)
        return replace(
            each, ip=f"{ip}/{bits}", mac=_mac(0, ip), gateway=gateway, gateway_mac=_mac(1, ip)
        )

    def _switch(self, each: Attached) -> int:
        if each.switch not in self._ids:
            raise self._wrong(each, f"{each.host} is linked to no switch, which gives it a subnet")
        return self._ids[each.switch]

    def _number(self, each: Attached) -> int | None:
        number = self._numbered.get(each.host)
        if number is not None and not 0 < number < 254:
            raise self._wrong(
                each, f"{each.host}: its number is part of its address, so it is 1 to 253"
            )
        return number

    def _free(self, network: IPv4Network) -> str:
        return next(ip for ip in map(str, network.hosts()) if ip not in self._taken)

    def _wrong(self, each: Attached, message: str) -> Exception:
        return self._document.wrong(f"topology.links[{each.link}]", message)


def _is_address(text: str) -> bool:
    try:
        IPv4Interface(text)
    except ValueError:
        return False
    return True


def _mac(kind: int, ip: str) -> str:
    """Return the MAC address of a host (0), or of the switch's port that it is linked to (1)."""
    return f"00:{kind:02x}:" + ":".join(f"{int(part):02x}" for part in ip.split("."))
