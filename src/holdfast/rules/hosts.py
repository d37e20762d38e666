"""Tell whether an address, or the host that a request names, is this machine."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final

_NAME_AND_PORT: Final = re.compile(r"(\[[^\[\]]*\]|[^:]*)(?::[0-9]{0,5})?")


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach the host."""
    if host == "localhost":
        return True
    try:
        return ip_address(host[1:-1] if host.startswith("[") and host.endswith("]") else host).is_loopback
    except ValueError:
        return False


def names_this_machine(header: str) -> bool:
    """Return True for a Host header, with or without a port, that is a name of this machine alone."""
    return is_loopback(host_name(header))


def host_name(given: str) -> str:
    """Return a Host header without its port, in lower case; unchanged if it is not a name and a port."""
    text = given.strip().lower()
    match = _NAME_AND_PORT.fullmatch(text)
    return match[1].removesuffix(".") if match else text
