"""The page on the command line names every command, every option and every exit code."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from holdfast.cli import command
from holdfast.cli.main import cli
from holdfast.runtime.running import EXIT_BROKEN, EXIT_STUCK, EXIT_WORN_OUT
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "reference" / "cli.md").read_text("utf-8")


def commands(group: click.Group, path: str = "holdfast") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found, f"{path} {name}")
        else:
            yield f"{path} {name}", found


EVERY = list(commands(cli))
every_command = pytest.mark.parametrize(("path", "found"), EVERY, ids=[path for path, _ in EVERY])


@every_command
def test_every_command_is_on_the_page(path: str, found: click.Command) -> None:
    assert f"`{path}" in PAGE


@every_command
def test_every_option_is_on_the_page(path: str, found: click.Command) -> None:
    for parameter in found.params:
        for option in parameter.opts if isinstance(parameter, click.Option) else []:
            assert f"`{option}" in PAGE or f"{path} {option}" in PAGE, f"{path} {option}"


@every_command
def test_every_command_says_what_it_does_and_how_it_ends(path: str, found: click.Command) -> None:
    assert found.help
    assert found.epilog == command.EXIT_CODES


def test_every_exit_code_is_on_the_page() -> None:
    codes = [command.OK, command.FAILED, command.USAGE, command.NOT_FOUND, command.CONFLICT, command.STORAGE]
    for code in [*codes, EXIT_STUCK, EXIT_BROKEN, EXIT_WORN_OUT]:
        assert f"\n| {code} | " in PAGE


def test_every_command_takes_json_but_those_that_run_on() -> None:
    without = [path for path, found in EVERY if not any("--json" in parameter.opts for parameter in found.params)]
    assert without == ["holdfast worker", "holdfast serve"]
