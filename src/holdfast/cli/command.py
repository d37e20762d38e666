"""Code shared by all commands: finding the store, output and errors."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from typing import IO, Any, Final, TypeVar

import click

from ..errors import ConfigError, Conflict, HoldfastError, InvalidInput, NotFound, StorageError
from ..rules.redaction import redact

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
                click.echo(redact(traceback.format_exc()), err=True, nl=False)
            _print(error, as_json=bool(ctx.params.get("as_json")), debug=bool(ctx.params.get("debug")))
            ctx.exit(exit_code(error))


class UsageAsJson(click.ClickException):
    """Wrong usage, reported as JSON."""

    exit_code = USAGE

    def __init__(self, wrong: click.ClickException) -> None:
        super().__init__(wrong.format_message())

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(json.dumps({"error": {"code": "usage", "message": self.message}}, ensure_ascii=False))


def exit_code(error: Exception) -> int:
    """Return an error as JSON fields."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)


def as_data(error: Exception) -> dict[str, str]:
    """Print an error as JSON: a stable code and a message."""
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


def _print(error: Exception, *, as_json: bool, debug: bool) -> None:
    if as_json:
        click.echo(json.dumps({"error": as_data(error)}, ensure_ascii=False))
        return
    hint = "" if debug or isinstance(error, HoldfastError) else " (--debug shows where)"
    click.echo(f"error: {describe(error)}{hint}", err=True)
