"""Actor and reason for the audit log, and durations as text."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..rules.durations import UNITS, seconds_of

F = TypeVar("F", bound=Callable[..., Any])


class Duration(click.ParamType[Any]):
    """Seconds, or a number with s, m, h, d or w; with `default` also that word, for None."""

    name = "duration"

    def __init__(self, *, default: bool = False) -> None:
        self._default = default

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        if self._default and value == "default":
            return None
        seconds = seconds_of(value)
        if seconds is None:
            self.fail(f"{value!r} is not a duration; write seconds, or for example 30m, 12h, 7d", param, ctx)
        return seconds


def actor_option(command: F) -> F:
    """Adds `--actor`."""
    return click.option(
        "--actor",
        envvar="HOLDFAST_ACTOR",
        default=whoami,
        metavar="NAME",
        help="The actor to record. [default: you, this host]",
    )(command)


def reason_option(command: F) -> F:
    """Adds `--reason`."""
    return click.option("--reason", default="", metavar="TEXT", help="Reason; kept in the audit log.")(command)


def tenant_option(command: F) -> F:
    """Adds `--tenant`."""
    return click.option("--tenant", metavar="NAME", help="The tenant. [default: none]")(command)


def view_option(command: F) -> F:
    """Adds `--tenant`, where all tenants are meant without it."""
    return click.option("--tenant", metavar="NAME", help="Only this tenant.")(command)


def whoami() -> str:
    """Return the user and the host of this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def for_people(seconds: float | None) -> str:
    """Format a duration in its largest whole unit."""
    if seconds is None:
        return "default"
    for unit in ("w", "d", "h", "m"):
        if seconds and seconds % UNITS[unit] == 0:
            return f"{seconds / UNITS[unit]:g}{unit}"
    return f"{seconds:g}s"
