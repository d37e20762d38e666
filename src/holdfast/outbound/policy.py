"""The policy of allowed destinations. A URL is parsed only here, once: two parsers could disagree."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from ..errors import ConfigError, UrlRefused
from ..rules.addresses import is_public

MOST_CHARACTERS: Final = 2_048
_PLAIN: Final = re.compile(r"[!-\[\]-~]+")
_URL: Final = re.compile(r"(https?)://([^/?#]*)([^#]*)(?:#.*)?", re.IGNORECASE)
_AUTHORITY: Final = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:]+)(?::([0-9]{1,5}))?", re.IGNORECASE)
_LABEL: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
# Unusual forms that C libraries read as an address: 2130706433, 0x7f.1, 127.1, 0177.0.0.1.
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The allowed destinations of requests: by default public addresses, over https, at port 443."""

    allow_http: bool = False
    """Allow requests without encryption, and port 80."""
    allow_private: bool | Sequence[str] = False
    """Allow addresses that are not public: the networks named, such as ("10.1.0.0/16",), or all with True."""
    ports: Collection[int] = ()
    """Further ports."""

    def __post_init__(self) -> None:
        if isinstance(self.allow_private, str):
            raise ConfigError(f"allow_private is {self.allow_private!r}; use a list of networks, or True for all")
        try:
            _networks(self.allow_private)
        except ValueError as wrong:
            raise ConfigError(f"allow_private: {wrong}; write a network as 10.1.0.0/16") from None
        if wrong_ports := [port for port in self.ports if not 1 <= port <= 65_535]:
            raise ConfigError(f"ports has {wrong_ports[0]}; use 1 to 65,535")

    def permits(self, address: str) -> bool:
        """Return True if a connection to this address is allowed."""
        if is_public(address):
            return True
        try:
            found = ip_address(address)
        except ValueError:
            return False
        if isinstance(self.allow_private, bool):
            return self.allow_private
        return any(found in network for network in _networks(self.allow_private))


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed URL. Its host is lower case, without a trailing dot."""

    scheme: str
    host: str
    port: int
    path: str
    """With the query; never empty."""

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


_DEFAULT_PORTS: Final = {"https": 443, "http": 80}


def parse(url: str, policy: Policy) -> Target:
    """Parse a URL; UrlRefused if the policy does not allow it. Names are not resolved here."""
    if len(url) > MOST_CHARACTERS:
        raise UrlRefused(f"the URL has {len(url):,} characters; use at most {MOST_CHARACTERS:,}")
    if not _PLAIN.fullmatch(url):
        raise UrlRefused("the URL has blanks, backslashes or other characters that a URL cannot; encode them")
    match = _URL.fullmatch(url)
    if match is None:
        raise UrlRefused("the URL is not one of https://; give it whole, with its scheme and host")
    scheme, authority, path = match[1].lower(), match[2], match[3]
    if scheme == "http" and not policy.allow_http:
        raise UrlRefused("the URL is not one of https://, and the policy does not allow http")
    host, port = _host_and_port(authority, scheme)
    if not _is_open(port, policy):
        raise UrlRefused(f"port {port} is not open by the policy; add it to its ports")
    if _is_address(host) and not policy.permits(host):
        raise UrlRefused(f"{host} is not a public address")
    return Target(scheme, host, port, path if path.startswith("/") else f"/{path}")


def _host_and_port(authority: str, scheme: str) -> tuple[str, int]:
    if "@" in authority:
        raise UrlRefused("the URL has a user or a password before its host; send credentials in a header")
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise UrlRefused("the URL has no host, or one that is written strangely")
    port = int(match[2]) if match[2] is not None else _DEFAULT_PORTS[scheme]
    return _host(match[1].lower()), port


def _host(text: str) -> str:
    if text.startswith("["):
        try:
            return str(IPv6Address(text[1:-1]))
        except ValueError:
            raise UrlRefused(f"{text} is not an IPv6 address") from None
    name = text.removesuffix(".")
    labels = name.split(".")
    if _is_address(name):
        return name
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise UrlRefused("the URL's host is not a name; write other alphabets in their xn-- form")
    if _NUMBER.fullmatch(labels[-1]):
        raise UrlRefused("the URL's host is an address in an unusual form; write it as four decimal numbers")
    return name


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_open(port: int, policy: Policy) -> bool:
    return port == 443 or (port == 80 and policy.allow_http) or port in policy.ports


def _networks(allowed: bool | Sequence[str]) -> list[IPv4Network | IPv6Network]:
    return [] if isinstance(allowed, bool) else [ip_network(text) for text in allowed]
