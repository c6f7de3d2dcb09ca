"""The addresses of hosts' interfaces in a network of one's own: those that are asked for, or free
ones."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import (
    AddressValueError,
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
)
from typing import TypeVar

from weft.base.errors import InputError, did_you_mean, refuse
from weft.base.units import shown
from weft.topo.addresses import SUBNET_BITS, Interface, Ipv6, format_mac, host_address
from weft.topo.network import MAX_HOSTS_PER_LEAF
from weft.topo.network_document import (
    INTERFACE_NAME,
    MAC_ADDRESS,
    NO_ADDRESS,
    LinkDocument,
)

PAIR_BITS = 31
"""The prefix length of a subnet of two addresses, each of which a host may have (RFC 3021)."""
IPV6_BITS = (8, 127)
"""The least and the greatest prefix length of an IPv6 subnet; that of two addresses is the greatest
(RFC 6164)."""
SWITCH_ADDRESSES = IPv4Network("10.254.0.0/16")
"""The addresses of switches that send packets of their own (`weft.controller`)."""
HOST_LINKS = 253 << 8
"""The number of the /24, as switches count theirs, of the first link between two hosts."""
MOST_HOST_LINKS = 256
UNADDRESSED_MACS = 0x0201 << 32
"""MAC addresses of interfaces without an IPv4 address count from here."""

Four = TypeVar("Four")
Six = TypeVar("Six")


@dataclass(frozen=True)
class Attachment:
    """An end of a link that is a host's."""

    place: str
    """The place of the link in the document."""
    document: LinkDocument
    host: str
    switch: str
    """The switch at the other end; empty if there is another host."""
    on_link: bool
    """Whether others are found by ARP: the other end is a host, or runs a program of its own."""
    between: int | None = None
    """The number of the link among those between hosts."""
    position: int = 0
    """0 or 1: which end of such a link it is."""

    @property
    def other_host(self) -> bool:
        """Return whether there is a host at the other end."""
        return self.between is not None

    def asked(self, field: str) -> tuple[str, list[str] | None]:
        """Return what the document says of this interface, and the place; None if nothing."""
        value = getattr(self.document, field)
        place = f"{self.place}.{field}"
        if isinstance(value, dict):
            place, value = f"{place}.{self.host}", value.get(self.host)
        elif value is not None and self.other_host:
            raise InputError(
                f"{place} {shown(value)}: both ends are hosts, so say whose it is: "
                f'{field} = {{ {self.host} = "..." }}'
            )
        if value is None:
            return place, None
        texts = [value] if isinstance(value, str) else value
        if not texts:
            raise InputError(f"{place} is empty: leave it out, or write {NO_ADDRESS!r}")
        return place, texts


@dataclass(frozen=True)
class _Addresses:
    """The addresses of an interface, at most one of each kind."""

    ipv4: IPv4Interface | None = None
    ipv6: IPv6Interface | None = None


class HostAddresses:
    """The addresses of interfaces, none of which two of them have."""

    def __init__(self, switches: Mapping[str, int], attachments: Iterable[Attachment]) -> None:
        """Read what is asked for. Raises InputError, which names the place.

        Args:
            switches: the numbers of switches, by name, by which their /24s go.
            attachments: all ends of links that are hosts', in the order of the links.
        """
        self._switches = switches
        self._positions = dict.fromkeys(switches, 0)
        self._attachments = list(attachments)
        self._given: dict[int, str] = {}
        self._given6: dict[int, str] = {}
        self._macs: dict[int, str] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._unaddressed = 0
        self._asked = [self._read(each) for each in self._attachments]

    def _read(self, attachment: Attachment) -> _Addresses | None:
        place, texts = attachment.asked("ip")
        if texts is None:
            return None
        if texts == [NO_ADDRESS]:
            return _Addresses()
        four, six = _of_each_kind(place, texts, _ipv4_interface, _ipv6_interface)
        taken = f"{attachment.place}.ip"
        if four is not None:
            self._take(self._given, int(four.ip), attachment, f"{taken} {four.ip}")
        if six is not None:
            self._take(self._given6, int(six.ip), attachment, f"{taken} {six.ip}")
        return _Addresses(four, six)

    @staticmethod
    def _take(given: dict[int, str], value: int, attachment: Attachment, what: str) -> None:
        own = f"{attachment.place} of {attachment.host}" if attachment.other_host else ""
        own = own or attachment.place
        other = given.setdefault(value, own)
        refuse(other != own, f"{what}: {other} has that address already")

    def interfaces(self) -> Iterator[tuple[str, Interface]]:
        """Yield each interface with the name of its host, in the order of the attachments."""
        numbers: dict[str, int] = {}
        for each, asked in zip(self._attachments, self._asked, strict=True):
            found = asked if asked is not None else _Addresses(self._free_address(each))
            four, six = found.ipv4, found.ipv6
            gateway, gateway6 = self._gateways(each, found)
            if four is not None and gateway is None and not each.on_link:
                gateway = self._free_gateway(four)
            numbers[each.host] = number = numbers.get(each.host, 0) + 1
            yield (
                each.host,
                Interface(
                    number,
                    int(four.ip) if four is not None else 0,
                    self._mac(each, four),
                    each.switch,
                    gateway,
                    four.network.prefixlen if four is not None else SUBNET_BITS,
                    on_link=each.on_link,
                    ipv6=None
                    if six is None
                    else Ipv6(int(six.ip), six.network.prefixlen, gateway6),
                    name=self._name(each),
                ),
            )

    def _name(self, attachment: Attachment) -> str:
        """Return what a host calls an interface; empty where nothing says so."""
        place, texts = attachment.asked("interface")
        if texts is None:
            return ""
        (name,) = texts
        if not INTERFACE_NAME.fullmatch(name) or name == "lo":
            raise InputError(
                f"{place} {shown(name)} is no name of an interface: write a letter, and then "
                "letters, digits, underscores, dots and hyphens, 15 at most"
            )
        other = self._names.setdefault((attachment.host, name), attachment.place)
        refuse(
            other != attachment.place,
            f"{place} {name!r}: {other} is called so on {attachment.host}, too",
        )
        return name

    def _free_address(self, attachment: Attachment) -> IPv4Interface:
        """Return the next address that no interface has, in the /24 of the switch or of the link
        between two hosts."""
        if attachment.between is not None:
            return self._address_between(attachment, attachment.between)
        place, switch = attachment.place, attachment.switch
        while True:
            position = self._positions[switch]
            self._positions[switch] += 1
            refuse(
                position >= MAX_HOSTS_PER_LEAF,
                f"{place}: {switch} has {MAX_HOSTS_PER_LEAF} interfaces, and its /24 no more "
                "addresses: give others by ip",
            )
            address = host_address(self._switches[switch], position)
            refuse(
                IPv4Address(address) in SWITCH_ADDRESSES,
                f"{place}: {switch} has no /24 of its own among so many switches: give ip",
            )
            if self._given.setdefault(address, place) == place:
                return IPv4Interface((address, 24))

    def _address_between(self, attachment: Attachment, number: int) -> IPv4Interface:
        place, host = attachment.place, attachment.host
        if attachment.document.ip is not None:
            raise InputError(
                f"{place}.ip says nothing of {host}: give both hosts an address, or write "
                f"{host} = {NO_ADDRESS!r}"
            )
        refuse(
            number >= MOST_HOST_LINKS,
            f"{place}: {MOST_HOST_LINKS} links between hosts get addresses by themselves: give ip",
        )
        address = host_address(HOST_LINKS + number, attachment.position)
        self._take(self._given, address, attachment, f"{place}: {IPv4Address(address)}")
        return IPv4Interface((address, 24))

    def _mac(self, attachment: Attachment, own: IPv4Interface | None) -> int:
        place, texts = attachment.asked("mac")
        if texts is not None:
            mac = _read_mac(place, texts[0])
        elif own is not None:
            mac = 0x0200 << 32 | int(own.ip)
        else:
            self._unaddressed += 1
            mac = UNADDRESSED_MACS + self._unaddressed
        self._take(self._macs, mac, attachment, f"{attachment.place}.mac {format_mac(mac)}")
        return mac

    def _gateways(self, attachment: Attachment, own: _Addresses) -> tuple[int | None, int | None]:
        """Return the addresses by which an interface is asked to send to others."""
        place, texts = attachment.asked("gateway")
        if texts is None:
            return None, None
        four, six = _of_each_kind(place, texts, _ipv4_address, _ipv6_address)
        for asked, mine in ((four, own.ipv4), (six, own.ipv6)):
            refuse(
                asked is not None and mine is None,
                f"{place} '{asked}': the interface has no IPv{asked.version if asked else 4} "
                "address, by which it could send there",
            )
            refuse(
                asked is not None and mine is not None and asked == mine.ip,
                f"{place} '{asked}': {attachment.place} has that address",
            )
        if four is not None and own.ipv4 is not None:
            if not attachment.on_link and int(four) in self._given:
                raise InputError(f"{place} '{four}': {self._given.get(int(four))} has that address")
            refuse(
                attachment.on_link and four not in own.ipv4.network,
                f"{place} '{four}' is not in the subnet {own.ipv4.network}, so it cannot be found "
                "by ARP",
            )
        refuse(
            six is not None
            and own.ipv6 is not None
            and not six.is_link_local
            and six not in own.ipv6.network,
            f"{place} '{six}' is neither in the subnet "
            f"{own.ipv6.network if own.ipv6 is not None else ''} nor a link-local address, so "
            "neighbour discovery cannot find it",
        )
        return (
            int(four) if four is not None else None,
            int(six) if six is not None else None,
        )

    def _free_gateway(self, own: IPv4Interface) -> int | None:
        """Return the last address of a subnet that no interface has; None if there is none."""
        network, pair = own.network, own.network.prefixlen == PAIR_BITS
        last = int(network.broadcast_address) - (not pair)
        first = int(network.network_address) + (not pair)
        return next((one for one in range(last, first - 1, -1) if one not in self._given), None)


def _of_each_kind(
    place: str,
    texts: Iterable[str],
    four: Callable[[str, str], Four],
    six: Callable[[str, str], Six],
) -> tuple[Four | None, Six | None]:
    """Read texts of which at most one is of IPv4, and at most one of IPv6."""
    fours: list[Four] = []
    sixes: list[Six] = []
    for text in texts:
        what = f"{place} {shown(text)}"
        if ":" in text:
            sixes.append(six(what, text))
        else:
            fours.append(four(what, text))
    for kind, count in (("IPv4", len(fours)), ("IPv6", len(sixes))):
        refuse(
            count > 1,
            f"{place} has {count} addresses of {kind}: an interface gets one of each kind; add "
            "others on the host ('ip address add')",
        )
    return (fours[0] if fours else None), (sixes[0] if sixes else None)


def _ipv4_interface(what: str, text: str) -> IPv4Interface:
    try:
        found = IPv4Interface(text)
    except ValueError as error:
        raise InputError(
            f"{what} is no IPv4 address and prefix length: {error}; write it like 10.0.1.7/24, or "
            f"2001:db8::7/64 for IPv6, or {NO_ADDRESS!r}"
        ) from None
    refuse("/" not in text, f"{what} has no prefix length: write it like 10.0.1.7/24")
    if not 8 <= found.network.prefixlen <= PAIR_BITS:
        raise InputError(
            f"{what}: a prefix length is 8 to {PAIR_BITS}, so that there is room for a gateway"
        )
    refuse(
        found.ip.is_multicast
        or found.ip.is_loopback
        or found.ip.is_reserved
        or found.ip.is_unspecified
        or int(found.ip) >> 24 == 0,
        f"{what} is no address of a host",
    )
    refuse(
        found.network.prefixlen < PAIR_BITS
        and found.ip in (found.network.network_address, found.network.broadcast_address),
        f"{what} is the address of a whole subnet, {found.network}, or its broadcast address",
    )
    refuse(
        found.ip in SWITCH_ADDRESSES,
        f"{what}: {SWITCH_ADDRESSES} is for packets that switches send",
    )
    return found


def _ipv6_interface(what: str, text: str) -> IPv6Interface:
    try:
        found = IPv6Interface(text)
    except ValueError as error:
        raise InputError(f"{what} is no IPv6 address and prefix length: {error}") from None
    refuse("/" not in text, f"{what} has no prefix length: write it like 2001:db8::7/64")
    least, most = IPV6_BITS
    bits = found.network.prefixlen
    if not least <= bits <= most:
        raise InputError(
            f"{what}: a prefix length of IPv6 is {least} to {most}, so that there is room for "
            "another"
        )
    refuse(
        found.ip.is_link_local or found.ip.scope_id is not None,
        f"{what} is a link-local address, which every interface with IPv6 has by itself: give it "
        "one of a subnet, like 2001:db8::7/64 or fd00::7/64",
    )
    refuse(
        found.ip.is_multicast
        or found.ip.is_loopback
        or found.ip.is_unspecified
        or found.ip.ipv4_mapped is not None,
        f"{what} is no address of a host",
    )
    refuse(
        bits < most and found.ip == found.network.network_address,
        f"{what} is the address of all routers of the subnet {found.network} (RFC 4291, section "
        "2.6.1)",
    )
    return found


def _ipv4_address(what: str, text: str) -> IPv4Address:
    try:
        return IPv4Address(text)
    except AddressValueError:
        raise InputError(
            f"{what} is no IPv4 address, like 10.0.1.254, nor one of IPv6, like 2001:db8::1"
        ) from None


def _ipv6_address(what: str, text: str) -> IPv6Address:
    try:
        found = IPv6Address(text)
    except AddressValueError:
        raise InputError(f"{what} is no IPv6 address, like 2001:db8::1") from None
    refuse(
        found.is_multicast
        or found.is_loopback
        or found.is_unspecified
        or found.scope_id is not None,
        f"{what} is no address of a gateway",
    )
    return found


def _read_mac(place: str, text: str) -> int:
    if not MAC_ADDRESS.fullmatch(text):
        raise InputError(f"{place} {shown(text)} is no MAC address, like 02:00:00:00:00:07")
    mac = int(text.replace(":", ""), 16)
    refuse(
        mac >> 40 & 1 or mac == 0 or mac >> 16 == 0x0600_0000,
        f"{place} {text}: a host's is no group address, not zero, and none that begins "
        "with 06:00:00:00, as those of switches do",
    )
    return mac


def check_hosts_named(place: str, link: LinkDocument, hosts: Iterable[str]) -> None:
    """Raise InputError if what is said of hosts' interfaces is of other nodes."""
    known = list(hosts)
    for field in ("ip", "mac", "gateway", "interface"):
        value = getattr(link, field)
        if value is not None and not known:
            raise InputError(f"{place}.{field} {shown(value)}: it is for the link of a host")
        for name in value if isinstance(value, dict) else ():
            if name not in known:
                raise InputError(
                    f"{place}.{field}: {name!r} is no host of this link{did_you_mean(name, known)}"
                )
