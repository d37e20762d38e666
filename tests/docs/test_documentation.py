"""The documentation is true: its code runs, its links lead somewhere, and its tables say what the code says."""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from psycopg.conninfo import conninfo_to_dict

from holdfast import config, errors
from holdfast.cli.main import cli
from tests.docs.pages import DJANGO, README, ROOT, TUTORIALS, Block, blocks, name_of, pages
from tests.docs.walk import walk
from tools import write_lifecycle

pytestmark = pytest.mark.timeout(300)
every_page = pytest.mark.parametrize("page", pages(), ids=name_of)

WALKED = (*TUTORIALS, DJANGO)
# Seconds for a program of a page, on a machine that has other things to do.
_PATIENCE = 120
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)|src(?:set)?=\"([^\"]+)\"")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


# -- code


@every_page
def test_every_python_block_compiles(page: Path) -> None:
    for block in blocks(page):
        if block.language == "python":
            compile(block.text, block.place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


@every_page
def test_every_python_block_runs(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if not any(block.language == "python" and not block.not_run for block in blocks(page)) or page in WALKED:
        return
    needs_postgres = "localhost/shop" in page.read_text("utf-8")
    shown = _in_urls(request.getfixturevalue("postgres_dsn")) if needs_postgres else ""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.docs.run_page", str(page)],
        cwd=tmp_path, env=_environment(SHOWN_DATABASE=shown), capture_output=True, text=True, timeout=_PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    _run_tests_of_the_page(tmp_path)


@pytest.mark.parametrize("page", TUTORIALS, ids=name_of)
def test_a_tutorial_can_be_followed_step_by_step(page: Path, tmp_path: Path) -> None:
    walk(blocks(page), tmp_path, _environment())


def test_the_guide_for_django_can_be_followed_from_an_empty_folder(tmp_path: Path, blank_postgres_dsn: str) -> None:
    given = conninfo_to_dict(blank_postgres_dsn)
    real = {"shop": given["dbname"], "localhost": given.get("host", ""), "secret": given.get("password", "")}
    walk([_on_server(block, real, str(given["user"])) for block in blocks(DJANGO)], tmp_path, _environment())


def test_the_readme_is_short_and_begins_with_a_program_of_fifteen_lines() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 150
    assert len(_first_program()[0].text.splitlines()) <= 15


def test_the_program_of_the_readme_runs_in_an_empty_folder_and_prints_what_it_says(tmp_path: Path) -> None:
    program, console = _first_program()
    (tmp_path / "hello.py").write_text(program.text, "utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "hello.py"],
        cwd=tmp_path, env=_environment(), capture_output=True, text=True, timeout=_PATIENCE,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert [shown for command, shown in console.commands() if command == "python hello.py"] == [done.stdout]


# -- links and commands


@every_page
def test_every_internal_link_leads_somewhere(page: Path) -> None:
    for target in _LINK.findall(_FENCED.sub("", page.read_text("utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{name_of(page)} links to {target}"
        if anchor:
            assert anchor in _anchors(found), f"{name_of(page)} links to {target}, which has no such heading"


@every_page
def test_every_picture_is_there(page: Path) -> None:
    for marked, tagged in _PICTURE.findall(_FENCED.sub("", page.read_text("utf-8"))):
        assert (page.parent / (marked or tagged)).is_file(), f"{name_of(page)} shows {marked or tagged}"


def test_every_page_can_be_reached_from_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / target).resolve() for target in _LINK.findall(index.read_text("utf-8"))}
    assert [name_of(page) for page in pages() if page not in linked and page != index] == []


@every_page
def test_every_command_that_is_named_exists(page: Path) -> None:
    for command in _commands(page):
        _require_command(shlex.split(command.replace("|", " | ")), f"{name_of(page)}: {command}")


# -- tables that repeat what the code says


def test_the_reference_lists_every_setting_with_its_variable_and_default() -> None:
    rows = _rows(ROOT / "docs/reference/settings.md")
    assert sorted(rows) == config.known_settings()
    settings = config.Config()
    for name, cells in rows.items():
        assert cells[0] == f"`HOLDFAST_{name.upper()}`"
        real = getattr(settings, name) if hasattr(settings, name) else getattr(settings.worker, name)
        assert cells[1] == _as_shown(real), f"the default of {name}"


def test_the_reference_lists_every_error_with_its_code() -> None:
    rows = _rows(ROOT / "docs/reference/errors.md")
    classes = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind)}
    assert {name: cells[0] for name, cells in rows.items()} == {
        name: f"`{kind.code}`" for name, kind in classes.items() if issubclass(kind, errors.HoldfastError)
    }
    for name, cells in rows.items():
        assert ("yes" in cells[1]) == classes[name].retryable, f"whether {name} may be repeated"


@pytest.mark.parametrize("page", [README, ROOT / "docs/explanation/choosing-holdfast.md"], ids=name_of)
def test_a_comparison_says_what_the_kill_test_has_measured(page: Path) -> None:
    rows = re.findall(r"^\| \**(\w+)\** \|.*?none lost, (\d+) s", page.read_text("utf-8"), re.MULTILINE)
    measured = (ROOT / "docs/explanation/performance.md").read_text("utf-8")
    assert len(rows) >= 6
    for name, seconds in rows:
        found = re.findall(rf"^\| {name.lower()}\S* \|.*loses none; (\d+) s", measured, re.MULTILINE)
        assert seconds in found, f"{name}: {seconds} s is not among {found}"
    assert re.findall(r"^\| huey-\S+ \|.*loses (\d) of \1 in flight", measured, re.MULTILINE)


def test_the_table_of_the_moves_is_fresh() -> None:
    page = write_lifecycle.PAGE.read_text("utf-8")
    assert write_lifecycle.rewritten(page) == page, "run: python tools/write_lifecycle.py"


# -- how


def _environment(**extra: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return {**kept, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", **extra}


def _on_server(block: Block, real: dict[str, Any], user: str) -> Block:
    """A block that names the database of a guide, with the address of a real one."""
    text = block.text.replace('"USER": "shop"', f'"USER": "{user}"')
    for key, shown in (("NAME", "shop"), ("HOST", "localhost"), ("PASSWORD", "secret")):
        text = text.replace(f'"{key}": "{shown}"', f'"{key}": "{real[shown]}"')
    return replace(block, text=text)


def _in_urls(dsn: str) -> str:
    """A connection string as the part of a URL that follows `postgresql://`."""
    parts = conninfo_to_dict(dsn)
    user = f"{parts['user']}@" if parts.get("user") else ""
    return f"{user}/{parts['dbname']}?host={parts.get('host', '')}&port={parts.get('port', 5432)}"


def _run_tests_of_the_page(folder: Path) -> None:
    if not list(folder.glob("test_*.py")):
        return
    installed = any(entry.name == "holdfast" for entry in importlib.metadata.entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", "holdfast.testing.plugin"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, "."],
        cwd=folder, env=_environment(), capture_output=True, text=True, timeout=_PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def _anchors(page: Path) -> set[str]:
    headings = _HEADING.findall(_FENCED.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def _commands(page: Path) -> Iterator[str]:
    """Command lines that begin with `holdfast`: in console and unit blocks, and between back-quotes."""
    for block in blocks(page):
        yield from _typed(block)
    yield from re.findall(r"`(holdfast [a-z][^`]*)`", _FENCED.sub("", page.read_text("utf-8")))


def _typed(block: Block) -> Iterator[str]:
    if block.language == "console":
        yield from (command for command, _ in block.commands() if command.startswith("holdfast "))
    elif block.language in ("ini", "toml", "yaml", "sh"):
        yield from re.findall(r"(?:^|[\s=/])(holdfast [a-z].*)$", block.text, re.MULTILINE)


def _require_command(words: list[str], where: str) -> None:
    command: click.Command = cli
    context = click.Context(command)
    rest = words[1:]
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(context, rest[0])
        assert found is not None, f"{where}: there is no command {rest[0]!r}"
        command, rest = found, rest[1:]
    known = {option for parameter in command.get_params(context) for option in parameter.opts}
    for word in rest:
        if word in ("|", ">", "&&"):
            break
        if word.startswith("--"):
            assert word.partition("=")[0] in known, f"{where}: there is no option {word}"


def _rows(page: Path) -> dict[str, list[str]]:
    """The rows of the page's tables whose first cell is one name in back-quotes."""
    found = re.findall(r"^\| `(\w+)` \|(.+)\|$", page.read_text("utf-8"), re.MULTILINE)
    return {name: [cell.strip() for cell in cells.split(" | ")] for name, cells in found}


def _as_shown(value: object) -> str:
    if value is None or value in ((), ""):
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value).removesuffix(".0")


def _first_program() -> tuple[Block, Block]:
    """The README's first program, and the console block below it."""
    found = blocks(README)
    first = next(number for number, block in enumerate(found) if block.language == "python")
    return found[first], found[first + 1]
