"""The entry point. Each group's module is imported only when one of its commands is used."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

from ..version import VERSION
from .command import EXIT_CODES, UsageAsJson

if TYPE_CHECKING:
    from .locate import Host

_CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_AS_JSON: Final = "holdfast.as_json"
_OF_COMMANDS: Final = ("--store", "--app", "--json", "--debug")
_COMMANDS: Final = {
    "worker": "worker:worker",
    "serve": "serve:serve",
    "demo": "demo:demo",
    "doctor": "doctor:doctor",
    "db": "db:db",
    "jobs": "jobs:jobs",
    "flows": "flows:flows",
    "queues": "queues:queues",
    "limits": "limits:limits",
    "breakers": "breakers:breakers",
    "budgets": "budgets:budgets",
    "quotas": "quotas:quotas",
    "workers": "workers:workers",
    "stats": "stats:stats",
    "errors": "errors:errors",
    "top": "top:top",
    "cron": "cron:cron",
    "signals": "signals:signals",
    "outbox": "outbox:outbox",
    "events": "events:events",
    "webhooks": "webhooks:webhooks",
    "keys": "keys:keys",
    "tokens": "tokens:tokens",
    "audit": "audit:audit",
    "spill": "spill:spill",
}


class _Lazy(click.Group):
    """Loads commands by name: a worker need not import what only the doctor uses."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Checked by hand: a command line that cannot be parsed may ask for JSON.
        ctx.meta[_AS_JSON] = "--json" in list(itertools.takewhile(lambda word: word != "--", args))
        with _usage_errors(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with _usage_errors(ctx):
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"there is no command {args[0]!r}; {self._instead(ctx, args[0])}", ctx=ctx)
        return super().resolve_command(ctx, args)

    def _instead(self, ctx: click.Context, unknown: str) -> str:
        """Say which command was meant: a group's own, such as `jobs retry` for `retry`, or one of a similar name."""
        groups = ((name, self.get_command(ctx, name)) for name in _COMMANDS)
        meant = [
            f"{name} {unknown}"
            for name, group in groups
            if isinstance(group, click.Group) and unknown in group.commands
        ]
        meant = meant or difflib.get_close_matches(unknown, _COMMANDS)
        if meant:
            return "use " + " or ".join(f"“{ctx.command_path} {one}”" for one in meant)
        return f"“{ctx.command_path} --help” lists them"

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].partition(":")
        found: click.Command = getattr(import_module(f".{module}", __package__), name)
        return found


@click.group(cls=_Lazy, epilog=EXIT_CODES, context_settings=_CONTEXT)
@click.version_option(VERSION, "-V", "--version", package_name="holdfast", prog_name="holdfast")
def cli() -> None:
    """Holdfast: a durable job queue in one SQLite file or on Postgres.

    Every command finds its store through --app MODULE:APP or --store URL, HOLDFAST_APP or HOLDFAST_STORE, or
    [tool.holdfast] app = "MODULE:APP" in pyproject.toml.
    """


@contextmanager
def _usage_errors(ctx: click.Context) -> Iterator[None]:
    try:
        yield
    except click.ClickException as wrong:
        wrong = _misplaced(wrong)
        if not ctx.meta[_AS_JSON] or isinstance(wrong, UsageAsJson):
            raise wrong
        raise UsageAsJson(wrong) from wrong


def _misplaced(wrong: click.ClickException) -> click.ClickException:
    """Tell where to put an option that commands have and groups do not."""
    if not isinstance(wrong, click.NoSuchOption) or wrong.option_name not in _OF_COMMANDS:
        return wrong
    where = f"holdfast jobs list {wrong.option_name} …"
    return click.UsageError(f"put {wrong.option_name} after the command, for example: {where}", ctx=wrong.ctx)


def commands_for(host: Callable[[click.Context], Host]) -> click.Group:
    """Return these commands as a group of another program, such as `flask holdfast …`, for the app of that program."""

    @click.group("holdfast", cls=_Lazy, epilog=EXIT_CODES, context_settings=_CONTEXT)
    # Without parameters: Litestar passes arguments of its own by their names.
    def holdfast() -> None:
        """Run workers, and see and change jobs, queues and schedules."""
        from .locate import HOST  # It imports the app.

        context = click.get_current_context()
        context.meta[HOST] = host(context)

    return holdfast


def main() -> None:
    """Run the `holdfast` program."""
    cli(prog_name="holdfast")
