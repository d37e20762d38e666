"""Distinguish public network addresses from all others; requests may only go to public ones."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

# IPv6 addresses that are given out; no other is public. Those with an IPv4 address in them (mapped, compatible,
# translated by NAT64 or SIIT) are outside, and refused: what they reach depends on the network.
_GLOBAL: Final = IPv6Network("2000::/3")
# Networks that `is_global` does not know, or only in newer versions of Python.
_REFUSED: Final = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32",
        "2001::/23", "2001:db8::/32", "2002::/16", "3ffe::/16", "3fff::/20",
    )
)  # fmt: skip


def is_public(text: str) -> bool:
    """Return whether an address, as a resolver gives it, is on the public Internet."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and (address not in _GLOBAL or address.scope_id is not None):
        # A zone names an interface of this host.
        return False
    ours = (network for network in _REFUSED if network.version == address.version)
    return address.is_global and not any(address in network for network in ours)
