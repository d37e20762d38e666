"""The `holdfast` program inside `manage.py`."""

from __future__ import annotations

import os
import sys
from typing import Any, Final

import click
from django.core.management.base import BaseCommand, CommandError, SystemCheckError
from django.db.utils import Error as DatabaseError

from ...cli.main import cli
from ...storage import migrate
from . import schema
from .project import shared_app
from .untyped import connections

APP: Final = "holdfast.contrib.django.standalone:app"
"""The project's app, for programs that are not Django's."""
_DJANGOS: Final = ("--settings", "--pythonpath")
_MANAGED: Final = {
    "migrate": "migrate holdfast",
    "create": "migrate holdfast",
    "drop": "migrate holdfast zero",
    "reset": "migrate holdfast zero, then manage.py migrate holdfast",
}


class PassingCommand(BaseCommand):
    """A command that leaves its arguments to Holdfast: all options of the `holdfast` program are its own."""

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("args", nargs="*")

    def run_from_argv(self, argv: list[str]) -> None:
        try:
            sys.exit(self.run(*command_line(argv)))
        except CommandError as wrong:
            self.stderr.write(str(wrong) if isinstance(wrong, SystemCheckError) else f"error: {wrong}")
            sys.exit(2)

    def handle(self, *args: Any, **options: Any) -> None:
        if code := self.run("manage.py", [str(arg) for arg in args]):
            sys.exit(code)

    def run(self, program: str, args: list[str]) -> int:
        """Run a command line; return its exit code."""
        raise NotImplementedError


def command_line(argv: list[str]) -> tuple[str, list[str]]:
    """Return the program's name and its arguments, without the options that Django has read already."""
    kept: list[str] = []
    words = iter(argv[2:])
    for word in words:
        if word in _DJANGOS:
            next(words, None)
        elif not word.startswith(tuple(f"{name}=" for name in _DJANGOS)):
            kept.append(word)
    return f"{os.path.basename(argv[0])} {argv[1]}", kept


def run_cli(program: str, args: list[str]) -> int:
    """Run a command of Holdfast for the project's app; return its exit code."""
    if args[:1] == ["db"] and args[1:2] and args[1] in _MANAGED:
        raise CommandError(f"Django manages this schema; run: manage.py {_MANAGED[args[1]]}")
    return run(cli, program, args)


def run(command: click.Command, program: str, args: list[str]) -> int:
    """Run a command for the project's app; return its exit code."""
    # Worker processes find the app by it too.
    os.environ["HOLDFAST_APP"] = APP
    try:
        command(args, prog_name=program)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def check_schema() -> None:
    """Refuse to start a worker on a schema that is not the current one. A database that is away is not waited for."""
    connection = connections[shared_app().project.database]
    try:
        missing = migrate.pending(schema.versions(connection), schema.dialect_of(connection))
    except DatabaseError:
        return  # the worker waits for it
    finally:
        connection.close()
    if missing:
        raise CommandError(
            f"the database {connection.alias!r} lacks {len(missing)} of Holdfast's migrations;"
            f" run: manage.py migrate holdfast --database {connection.alias}"
        )
