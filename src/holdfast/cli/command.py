"""Code shared by all commands: options, durations, exit codes and errors."""

from __future__ import annotations

import getpass
import json
import socket
import traceback
from collections.abc import Callable
from typing import IO, Any, Final, TypeVar

import click

from ..errors import ConfigError, Conflict, HoldfastError, InvalidInput, NotFound, StorageError
from ..rules.durations import UNITS, seconds_of
from ..rules.redaction import redact
from ..values.printable import printable_json, printable_lines

F = TypeVar("F", bound=Callable[..., Any])

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
CONFLICT: Final = 4
STORAGE: Final = 5

EXIT_CODES: Final = (
    "\b\nExit codes: 0 success; 1 failed, or the answer is no; 2 wrong usage or settings; 3 not found;"
    "\n4 not allowed in the current state; 5 the store is unavailable or rejects the operation."
)

_CODES: Final[tuple[tuple[type[HoldfastError], int], ...]] = (
    (ConfigError, USAGE),
    (InvalidInput, USAGE),
    (NotFound, NOT_FOUND),
    (Conflict, CONFLICT),
    (StorageError, STORAGE),
)


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text whose control characters cannot reach the terminal: much of it comes from jobs and their callers."""
    click.echo(printable_lines(text), err=err, nl=nl)


def json_text(value: Any, *, indent: int | None = None, default: Callable[[Any], Any] | None = None) -> str:
    """Return JSON in which characters that control a terminal are escaped."""
    return printable_json(json.dumps(value, ensure_ascii=False, indent=indent, default=default))


class Command(click.Command):
    """A command whose errors are one line and an exit code; the traceback only with --debug."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("epilog", EXIT_CODES)
        super().__init__(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if ctx.params.get("debug"):
                echo(redact(traceback.format_exc()), err=True, nl=False)
            _print(error, as_json=bool(ctx.params.get("as_json")), debug=bool(ctx.params.get("debug")))
            ctx.exit(exit_code(error))


class UsageAsJson(click.ClickException):
    """Wrong usage, reported as JSON."""

    exit_code = USAGE

    def __init__(self, wrong: click.ClickException) -> None:
        super().__init__(wrong.format_message())

    def show(self, file: IO[Any] | None = None) -> None:
        echo(json_text({"error": {"code": "usage", "message": self.message}}))


def exit_code(error: Exception) -> int:
    """Return the exit code of an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)


def as_data(error: Exception) -> dict[str, str]:
    """Return an error as JSON fields: a stable code and a message."""
    code = error.code if isinstance(error, HoldfastError) else "internal"
    return {"code": code, "message": describe(error)}


def describe(error: Exception) -> str:
    """Return an error in one line."""
    text = redact(" ".join(str(error).split()))
    return text if isinstance(error, HoldfastError) else f"{type(error).__name__}: {text}".removesuffix(": ")


def target_options(command: F) -> F:
    """Adds `--app`, `--store` and `--debug`."""
    for option in (
        click.option("--debug", is_flag=True, help="Show the traceback of an error."),
        click.option("--store", metavar="URL", help="A path, sqlite:///…, or postgresql://…; overrides the app's own."),
        click.option("--app", "app_name", metavar="MODULE:APP", envvar="HOLDFAST_APP", help="The app."),
    ):
        command = option(command)
    return command


def json_option(command: F) -> F:
    """Adds `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


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


def _print(error: Exception, *, as_json: bool, debug: bool) -> None:
    if as_json:
        echo(json_text({"error": as_data(error)}))
        return
    hint = "" if debug or isinstance(error, HoldfastError) else " (--debug shows where)"
    echo(f"error: {describe(error)}{hint}", err=True)
