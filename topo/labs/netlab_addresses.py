"""The addresses that netlab gives: pools, named prefixes, and hosts' places in them."""

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from weft.base.errors import did_you_mean
from weft.base.placed import PlacedDocument
from weft.base.units import shown

Values = dict[str, Any]
Networks = dict[str, Any]
"""The networks of a link by ``ipv4`` and ``ipv6``, with its ``allocation``."""

FAMILIES = ("ipv4", "ipv6")
DEFAULT_POOLS: dict[str, Values] = {
    "lan": {"ipv4": "172.16.0.0/16", "prefix": 24},
    "loopback": {"ipv4": "10.0.0.0/24", "prefix": 32},
    "p2p": {"ipv4": "10.1.0.0/16", "prefix": 30},
    "l2only": {},
}
"""Those that are there without being named (netlab's own defaults)."""
_OF_POOL = (*FAMILIES, "prefix", "prefix6", "start", "allocation", "unnumbered", "mac")
ALLOCATIONS = ("id_based", "sequential")


class Pools:
    """The pools of a lab, from which links take a prefix each, in their order."""

    def __init__(self, document: PlacedDocument, content: Values) -> None:
        """Read ``addressing``, also that of ``defaults``, and ``prefix``. Raises InputError."""
        self._document = document
        self._pools = {name: dict(pool) for name, pool in DEFAULT_POOLS.items()}
        defaults = content.get("defaults")
        layers = (
            ("defaults.addressing", defaults.get("addressing")) if isinstance(defaults, dict) else
            ("", None),
            ("addressing", content.get("addressing")),
        )  # fmt: skip
        for place, given in layers:
            for name, pool in _object(document, place, given).items():
                here = f"{place}.{name}"
                own = {"ipv4": pool} if isinstance(pool, str) else _object(document, here, pool)
                for field in own:
                    if field not in _OF_POOL:
                        raise document.wrong(
                            f"{here}.{field}",
                            f"means nothing here{did_you_mean(field, _OF_POOL)}; there may be "
                            f"{', '.join(_OF_POOL)}",
                        )
                if own.get("allocation", ALLOCATIONS[0]) not in ALLOCATIONS:
                    raise document.wrong(
                        f"{here}.allocation",
                        f"{shown(own['allocation'])}: Weft has {', '.join(ALLOCATIONS)}",
                    )
                self._pools[name] = {**self._pools.get(name, {}), **own}
        self._left = {
            name: {family: self._subnets(name, family) for family in FAMILIES if family in pool}
            for name, pool in self._pools.items()
        }
        self._named: dict[str, Networks] = {}
        for name, given in _object(document, "prefix", content.get("prefix")).items():
            place = f"prefix.{name}"
            if isinstance(given, dict) and "pool" in given:
                self._named[name] = self.next_of(str(given["pool"]), f"{place}.pool")
            else:
                self._named[name] = self.networks(place, given)

    def next_of(self, pool: str, place: str) -> Networks:
        """Return the next prefix of a pool. Raises InputError, at a place, if there is none."""
        if pool not in self._pools:
            raise self._document.wrong(
                place,
                f"there is no pool {pool!r}{did_you_mean(pool, self._pools)}; there are "
                f"{', '.join(self._pools)}",
            )
        found: Networks = {}
        for family, left in self._left[pool].items():
            found[family] = next(left, None)
            if found[family] is None:
                raise self._document.wrong(place, f"pool {pool} has no {family} prefix left")
        if "allocation" in self._pools[pool]:
            found["allocation"] = self._pools[pool]["allocation"]
        return found

    def networks(self, place: str, given: Any) -> Networks:
        """Return the networks that a ``prefix`` says: a network of IPv4, an object of both, or the
        name of one at the file's top."""
        if given is None or given is False:
            return {}
        if isinstance(given, str) and given in self._named:
            return self._named[given]
        by_family = given if isinstance(given, dict) else {"ipv4": given}
        made: Networks = {}
        for family, text in by_family.items():
            if family == "allocation" and text in ALLOCATIONS:
                made[family] = text
                continue
            if family not in FAMILIES or not isinstance(text, str):
                raise self._document.wrong(
                    place, f"{shown(given)}: a prefix is like 192.168.22.0/24, or has ipv4 and ipv6"
                )
            try:
                made[family] = ipaddress.ip_network(text)
            except ValueError as error:
                raise self._document.wrong(place, str(error)) from None
        return made

    def loopback(self, place: str, given: Any, number: int) -> Iterator[str]:
        """Yield the addresses of a node's loopback: its own, or that of its number in a pool."""
        if given in (None, False):
            return
        asked = given if isinstance(given, dict) else {}
        pool = str(asked.get("pool", "loopback"))
        if pool not in self._pools:
            raise self._document.wrong(place, f"there is no pool {pool!r}")
        for family in FAMILIES:
            value = asked.get(family, True)
            if isinstance(value, str):
                yield _interface(self._document, place, value)
            elif value and family in self._pools[pool]:
                network = self._network(pool, family)
                bits = 32 if family == "ipv4" else 64
                bits = self._pools[pool].get("prefix" if family == "ipv4" else "prefix6", bits)
                # Of IPv6 it is the first address of the subnet of that number.
                own = network.network_address + (number << network.max_prefixlen - bits)
                one = family == "ipv6" and bits < network.max_prefixlen
                yield f"{own + one}/{bits}"

    def _network(self, pool: str, family: str) -> Any:
        place = f"addressing.{pool}.{family}"
        value = self._pools[pool][family]
        if not isinstance(value, str):
            raise self._document.wrong(
                place, f"{shown(value)} is no prefix: Weft's interfaces have addresses, or none"
            )
        try:
            return ipaddress.ip_network(value)
        except ValueError as error:
            raise self._document.wrong(place, str(error)) from None

    def _subnets(self, pool: str, family: str) -> Iterator[Any]:
        """Return the prefixes of a pool."""
        own = self._pools[pool]
        network = self._network(pool, family)
        bits = own.get("prefix", 24) if family == "ipv4" else own.get("prefix6", 64)
        if type(bits) is not int or not network.prefixlen <= bits <= network.max_prefixlen:
            raise self._document.wrong(
                f"addressing.{pool}", f"{shown(bits)} is no length of a prefix in {network}"
            )
        found: Iterator[Any] = network.subnets(new_prefix=bits)
        return found


def addresses(
    document: PlacedDocument, place: str, own: Values, networks: Mapping[str, Any], number: int
) -> Iterator[str]:
    """Yield the addresses of a host at a link: its own, or those of a number in the link's
    networks."""
    for family in FAMILIES:
        network = networks.get(family)
        value = own.get(family, number if network is not None else None)
        if value is None or isinstance(value, bool):
            continue
        if isinstance(value, int):
            if network is None or not 0 <= value < network.num_addresses:
                raise document.wrong(
                    f"{place}.{family}", f"there is no address {value} in the link's prefix"
                )
            value = f"{network[value]}/{network.prefixlen}"
        elif "/" not in str(value) and network is not None:
            value = f"{value}/{network.prefixlen}"
        yield _interface(document, f"{place}.{family}", value)


def places_in(networks: Mapping[str, Any], ids: list[int]) -> list[int]:
    """Return the numbers that ends of a link have in its networks: those of their nodes, or one
    after the other where the networks have no room for these, or are asked to."""
    allocation = networks.get("allocation", "id_based")
    room = min((networks[each].num_addresses for each in FAMILIES if each in networks), default=0)
    if allocation == "id_based" and max(ids, default=0) < room - 1:
        return ids
    first = 1 if room > 2 else 0
    return [*range(first, first + len(ids))]


def _interface(document: PlacedDocument, place: str, value: Any) -> str:
    try:
        return str(ipaddress.ip_interface(value))
    except ValueError:
        raise document.wrong(place, f"{shown(value)} is no address like 192.168.22.17/24") from None


def _object(document: PlacedDocument, place: str, given: Any) -> Values:
    if given is not None and not isinstance(given, dict):
        raise document.wrong(place, f"{shown(given)} is no object")
    return given or {}
