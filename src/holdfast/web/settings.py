"""What the web site is told once, at its start."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """How the site is protected and bounded. The defaults are those of a site that anyone can reach."""

    auth: Auth = "required"
    """"off" makes everybody an administrator: for loopback only."""
    hosts: tuple[str, ...] = LOOPBACK
    """The names under which the site may be called, without ports; "*" at the front stands for any subdomain."""
    identify: Identify | None = None
    """Who asks, as the program around the site knows it; asked before tokens and sessions."""
    secure: bool = True
    """Whether browsers come by HTTPS, so that the session's cookie may be bound to it."""
    body_limit: int = 1024 * 1024
    """Bytes of a body with arguments, results or payloads."""
    bulk_limit: int = 16 * 1024 * 1024
    """Bytes of a body with many jobs, frames or an artifact."""
    small_limit: int = 256 * 1024
    """Bytes of any other body, and of a signal by token: no more than a row holds, so that nobody fills the disk."""
    request_seconds: float = 60.0
    """How long a request may take to arrive."""
    rate: float = 0.0
    """Requests a second that each identity may make; 0 is no limit."""
    viewers: int = 200
    """Pages and streams that may be followed at once."""
    recheck: float = 15.0
    """How many seconds after which those who follow are asked again who they are."""
    refreshes: float = 8.0
    """How often a second the store is asked for all followed pages together."""
    origins: tuple[str, ...] = ()
    """Origins of other sites whose pages may call the API by a script, such as "https://app.example.com" (CORS)."""
    any_task: bool = False
    """Whether jobs may be enqueued for tasks that this program does not know."""

    def __post_init__(self) -> None:
        if self.auth not in ("required", "off"):
            raise ConfigError(f"auth is {self.auth!r}; use 'required' or 'off'")
        lists: tuple[tuple[str, object], ...] = (("hosts", self.hosts), ("origins", self.origins))
        for name, given in lists:
            if isinstance(given, str):
                raise ConfigError(f"{name} is the text {given!r}; give a list of them: {name}=[{given!r}]")
        if not self.hosts:
            raise ConfigError('hosts is empty; name those under which the site is called, such as "jobs.example.com"')
        for name in self.hosts:
            if not _HOST.fullmatch(name):
                raise ConfigError(f'{name!r} is no name of a host; give it alone, such as "jobs.example.com"')
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise ConfigError(
                    f'{origin!r} is no origin; write its scheme and host, such as "https://app.example.com", '
                    "and one entry for each"
                )
