"""`holdfast db`: the schema, and integrity checks."""

from __future__ import annotations

from typing import Any

import click

from ..config import load
from ..errors import ConfigError
from ..runtime.database import Database, MigrationStep, migration_texts
from ..runtime.opening import dialect_of
from .command import EXIT_CODES, FAILED, OK, Command, echo, json_option, target_options
from .locate import find_app, is_named, use_store
from .output import console_for, instant, print_json, print_table


@click.group(epilog=EXIT_CODES)
def db() -> None:
    """Manage the database schema, and check the store's integrity."""


@db.command(cls=Command)
@json_option
@target_options
def migrate(app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """Bring the schema up to date. Safe to run from many machines at once."""
    with _database(app_name, store, create=False) as database:
        applied = database.migrate()
    _tell_applied(applied, as_json=as_json)


@db.command(cls=Command)
@json_option
@target_options
def status(app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """List the migrations. Code 1 if one is pending, or from a newer Holdfast."""
    with _database(app_name, store) as database:
        steps = database.steps()
    if as_json:
        print_json({"dialect": database.dialect, "migrations": [_step_data(step) for step in steps]})
    else:
        rows = [(step.version, step.name, _step_state(step), instant(step.applied_at, exact=False)) for step in steps]
        print_table(("version#", "name", "state", "applied"), rows, empty="no migrations")
    raise SystemExit(OK if all(_step_state(step) == "applied" for step in steps) else FAILED)


@db.command(cls=Command)
@json_option
@target_options
def verify(app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """Check that the schema is complete and the data is consistent. Code 1 if not. Reads the whole store."""
    with _database(app_name, store) as database:
        findings = database.verify()
    sound = not any(finding.broken_by for finding in findings)
    if as_json:
        checks = [{"rule": f.rule, "holds": not f.broken_by, "broken_by": list(f.broken_by)} for f in findings]
        print_json({"sound": sound, "checks": checks})
    else:
        console = console_for()
        for finding in findings:
            mark, style = ("WRONG", "red") if finding.broken_by else ("ok", "green")
            broken = f": {', '.join(finding.broken_by)}" if finding.broken_by else ""
            console.print(f"{mark:<5}  {finding.rule}{broken}", style=style if finding.broken_by else None)
    raise SystemExit(OK if sound else FAILED)


@db.command(cls=Command)
@click.option("--dialect", type=click.Choice(["sqlite", "postgres"]), help="[default: the store's]")
@json_option
@target_options
def sql(dialect: Any, app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """Print the migrations as SQL, to run them in another way. Opens no store."""
    texts = migration_texts(dialect or _dialect(app_name, store))
    if as_json:
        print_json({"migrations": [{"name": name, "sql": text} for name, text in texts]})
        return
    for name, text in texts:
        echo(f"-- {name}\n{text.rstrip()}\n")


@db.command(cls=Command)
@json_option
@target_options
def create(app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """Create the file or the Postgres database if it is missing, and its schema."""
    app = find_app(app_name, store, create=False)
    with Database(app.config) as database:
        made, applied = database.create()
    if as_json:
        print_json({"created": made, "applied": applied})
        return
    echo("created" if made else "the database already exists")
    _tell_applied(applied, as_json=False)


@db.command(cls=Command)
@click.option("--force", is_flag=True, help="Confirm the removal.")
@json_option
@target_options
def drop(app_name: str | None, store: str | None, force: bool, as_json: bool, debug: bool) -> None:
    """Remove every job and Holdfast's schema. Your own tables are kept, and so is the database itself."""
    with _database(app_name, store) as database:
        _check_force(force, "drop removes every job")
        database.drop()
    if as_json:
        print_json({"dropped": True})
    else:
        echo("dropped")


@db.command(cls=Command)
@click.option("--force", is_flag=True, help="Confirm the removal.")
@json_option
@target_options
def reset(app_name: str | None, store: str | None, force: bool, as_json: bool, debug: bool) -> None:
    """Remove every job and recreate the schema."""
    with _database(app_name, store) as database:
        _check_force(force, "reset removes every job")
        database.drop()
        applied = database.migrate()
    if as_json:
        print_json({"dropped": True, "applied": applied})
    else:
        echo("reset: the store is empty")


def _database(app_name: str | None, store: str | None, *, create: bool = True) -> Database:
    return Database(find_app(app_name, store, create=create).config)


def _dialect(app_name: str | None, store: str | None) -> Any:
    if is_named(app_name, store):
        return dialect_of(find_app(app_name, store, create=False).config)
    use_store(store)
    return dialect_of(load({}))


def _check_force(force: bool, what: str) -> None:
    if not force:
        raise ConfigError(f"{what}; add --force to confirm")


def _tell_applied(applied: list[str], *, as_json: bool) -> None:
    if as_json:
        print_json({"applied": applied})
        return
    for name in applied:
        echo(f"applied {name}")
    if not applied:
        echo("the schema is up to date")


def _step_state(step: MigrationStep) -> str:
    if not step.known:
        return "from a newer Holdfast"
    return "applied" if step.applied_at is not None else "pending"


def _step_data(step: MigrationStep) -> dict[str, Any]:
    state = {"pending": "pending", "applied": "applied"}.get(_step_state(step), "newer")
    return {"version": step.version, "name": step.name, "state": state, "applied_at": instant(step.applied_at)}
