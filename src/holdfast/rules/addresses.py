"""Distinguish public network addresses from all others; requests may only go to public ones."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

# Networks that `is_global` does not know, or only in newer versions of Python.
_REFUSED: Final = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32",
        "::/128", "::1/128", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16",
        "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
    )
)  # fmt: skip
# An IPv4 address embedded in an IPv6 one: the IPv4 address is the one that counts.
_NAT64: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
_COMPATIBLE: Final = IPv6Network("::/96")


def is_public(text: str) -> bool:
    """Return whether an address, as a resolver gives it, is on the public Internet."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return False
    # A zone names an interface of this host.
    return "%" not in text and _is_public(address)


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv6Address) and (inner := _embedded(address)) is not None:
        return _is_public(inner)
    if isinstance(address, IPv6Address) and any(address in network for network in _NAT64):
        return False
    ours = (network for network in _REFUSED if network.version == address.version)
    return address.is_global and not any(address in network for network in ours)


def _embedded(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64[0] or address in _COMPATIBLE:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None
