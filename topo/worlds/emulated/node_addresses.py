"""Which addresses nodes have, and by which of them others send to them."""

import re
from collections.abc import Sequence
from ipaddress import IPv4Interface, IPv6Interface, ip_interface
from typing import Any

_SHOWN = re.compile(r"\binet6? ([0-9A-Fa-f.:]+(?:/[0-9]+)?).*? scope (?:global|site)\b")
"""An address in a line of ``ip -o address show``."""
Address = IPv4Interface | IPv6Interface
"""An address with its subnet."""


def addresses_in(shown: str) -> list[Address]:
    """Return the addresses in what ``ip -o address show`` says of an interface; link-local ones are
    none by which others know a node."""
    return [ip_interface(address) for address in _SHOWN.findall(shown)]


def known_addresses(node: Any) -> list[Address]:
    """Return the addresses that are known of a node's interfaces, in the order of its ports."""
    return [address for each in node.intfList() for address in each.addresses]


def present_addresses(node: Any) -> list[Address]:
    """Return the addresses that a node's interfaces have now, whoever gave them."""
    for interface in node.intfList():
        interface.updateIP()
    return known_addresses(node)


def address_for(
    own: Sequence[Address], far: Sequence[Address], wants_ipv6: bool = False
) -> str | None:
    """Return by which address a node with some addresses sends to another; None if that has none.

    Of two kinds it is IPv4, unless IPv6 is wanted or all that the sender has. Of several of a kind
    it is one of a subnet in which both are, or the first.
    """
    kinds = {each.version for each in own}
    first = 6 if wants_ipv6 or kinds == {6} else 4
    chosen = [each for each in far if each.version == first] or list(far)
    near = [each for each in chosen if any(each.ip in mine.network for mine in own)]
    return str((near or chosen)[0].ip) if chosen else None
