"""Settings of the web site."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from starlette.requests import HTTPConnection

from ..errors import ConfigError
from ..model.access import Identity

Identify: TypeAlias = Callable[[HTTPConnection], Awaitable[Identity | None]]
Auth: TypeAlias = Literal["required", "off"]

_HOST: Final = re.compile(r"\*|(\*\.)?[A-Za-z0-9_-][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+(%[\w.-]+)?\]")
_ORIGIN: Final = re.compile(r"https?://(?:[a-z0-9_-][a-z0-9._-]*|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")
LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
RATE: Final = 1_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """Security settings and limits of the site. The defaults suit a site that anyone can reach."""

    auth: Auth = "required"
    """"off" makes everyone an administrator: for loopback only."""
    hosts: tuple[str, ...] = LOOPBACK
    """The allowed host names, without ports; "*" at the front stands for any subdomain."""
    identify: Identify | None = None
    """A function of the host application that identifies the caller; used before tokens and sessions."""
    secure: bool = True
    """True if browsers connect by HTTPS, so that the session cookie can be bound to it."""
    body_limit: int = 1024 * 1024
    """The maximum size of a body with arguments, results or payloads, in bytes."""
    bulk_limit: int = 16 * 1024 * 1024
    """The maximum size of a body with many jobs, frames or an artifact, in bytes."""
    small_limit: int = 256 * 1024
    """The maximum size of any other body, and of a signal by token, in bytes."""
    request_seconds: float = 60.0
    """Seconds for a request to arrive."""
    rate: float = RATE
    """Requests per second that each token, session or user may send, but the local user; 0 is no limit."""
    viewers: int = 200
    """The maximum number of live pages and streams."""
    recheck: float = 15.0
    """Seconds after which the identity of an open live page or stream is checked again."""
    refreshes: float = 8.0
    """The maximum number of queries per second for all live pages together."""
    origins: tuple[str, ...] = ()
    """Origins of other sites whose pages may call the API, such as "https://app.example.com" (CORS)."""
    any_task: bool = False
    """Allow jobs of tasks that this app does not know."""

    def __post_init__(self) -> None:
        if self.auth not in ("required", "off"):
            raise ConfigError(f"auth is {self.auth!r}; use 'required' or 'off'")
        lists: tuple[tuple[str, object], ...] = (("hosts", self.hosts), ("origins", self.origins))
        for name, given in lists:
            if isinstance(given, str):
                raise ConfigError(f"{name} is the text {given!r}; give a list of them: {name}=[{given!r}]")
        if not self.rate >= 0:
            raise ConfigError(f"rate is {self.rate!r}; give requests per second, or 0 for no limit")
        if not self.hosts:
            raise ConfigError('hosts is empty; list the host names of the site, such as "jobs.example.com"')
        for name in self.hosts:
            if not _HOST.fullmatch(name):
                raise ConfigError(f'{name!r} is not a host name; give only the name, such as "jobs.example.com"')
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise ConfigError(
                    f'{origin!r} is not an origin; write its scheme and host, such as "https://app.example.com", '
                    "and one entry for each"
                )
