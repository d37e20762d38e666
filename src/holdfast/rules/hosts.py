"""Tell whether an address, or the host that a request names, is this machine."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach the host."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def names_this_machine(header: str) -> bool:
    """Return True for a Host header, with or without a port, that is a name of this machine alone."""
    try:
        return is_loopback((urlsplit(f"//{header}").hostname or "").removesuffix("."))
    except ValueError:
        return False
