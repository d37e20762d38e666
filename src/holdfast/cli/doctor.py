"""`holdfast doctor`: the environment, the settings, and checks with advice. Only a problem makes the exit code 1."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Literal

import click

from ..app import App
from ..config import unknown_variables
from ..errors import ConfigError, HoldfastError, NotFound
from ..model.limits import Undeclared
from ..model.routing import Stranded
from ..model.workers import WorkerInfo
from ..runtime.database import Database
from ..runtime.opening import database_file, filesystem_of, without_passwords
from ..shapes.store import of_facts, of_settings
from ..version import VERSION
from .command import FAILED, OK, Command, describe, json_option, target_options
from .locate import find_app
from .output import console_for, print_facts, print_json, print_table

Weight = Literal["ok", "note", "problem"]
Facts = Mapping[str, object]

_LITTLE_SPACE: Final = 256 * 1024 * 1024
_MUCH_SKEW: Final = 2.0
_LONG_TRANSACTION: Final = 300.0


@dataclass(frozen=True, slots=True)
class Check:
    """A finding of one check."""

    name: str
    weight: Weight
    text: str


def versions() -> dict[str, str]:
    found = {
        "holdfast": VERSION,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
        "sqlite": sqlite3.sqlite_version,
    }
    for package in ("psycopg", "msgspec", "click", "rich"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def check_runtime() -> Iterator[Check]:
    if sqlite3.threadsafety != 3:
        yield Check("sqlite", "problem", "this Python's SQLite is not built for use by several threads")


def check_variables(environment: Mapping[str, str]) -> Iterator[Check]:
    for text in unknown_variables(environment).values():
        yield Check("settings", "problem", text)


def check_schema(database: Database) -> Iterator[Check]:
    steps = database.steps()
    if newer := [step.name for step in steps if not step.known]:
        yield Check("schema", "problem", f"it is newer than this Holdfast ({newer[-1]}); upgrade Holdfast here")
    elif pending := [step.name for step in steps if step.applied_at is None]:
        yield Check(
            "schema", "problem", f'{len(pending)} migrations are pending ({pending[0]} …); run "holdfast db migrate"'
        )
    else:
        yield Check("schema", "ok", f"up to date ({steps[-1].name})")


def check_write(database: Database) -> Iterator[Check]:
    try:
        seconds = database.probe_write()
    except HoldfastError as error:
        yield Check("write", "problem", f"a test write failed: {error}")
    else:
        yield Check("write", "ok", f"a test write took {seconds * 1000:.1f} ms")


def check_clock(database: Database) -> Iterator[Check]:
    ahead = database.clock_difference()
    text = f"the store's clock is {abs(ahead) * 1000:,.0f} ms {'ahead of' if ahead >= 0 else 'behind'} this machine's"
    yield Check("clock", "note" if abs(ahead) > _MUCH_SKEW else "ok", text)


def check_facts(facts: Facts) -> Iterator[Check]:
    """Check what the database reports."""
    if facts.get("backend") == "sqlite":
        bug = str(facts.get("wal_reset_bug"))
        yield Check("sqlite", "ok" if bug == "fixed" else "note", f"{facts['sqlite_version']}, WAL-reset bug: {bug}")
        if facts.get("synchronous") != "full":
            yield Check("durability", "note", "durable=False: the last commits before a power failure may be lost")
        if facts.get("auto_vacuum") == "none" and _number(facts, "free_pages") > 0.5 * _number(facts, "page_count"):
            yield Check("size", "note", "over half of the file is empty; run VACUUM")
        return
    if facts.get("in_recovery"):
        yield Check("postgres", "problem", "this server is a standby and refuses writes; connect to the primary")
    if facts.get("fsync") == "off":
        yield Check("durability", "problem", "fsync is off: a crash of the server may corrupt the database")
    if facts.get("synchronous_commit") == "off":
        yield Check("durability", "note", "synchronous_commit is off: the last commits before a crash may be lost")
    if _number(facts, "oldest_transaction_seconds") > _LONG_TRANSACTION:
        age = _number(facts, "oldest_transaction_seconds")
        yield Check("postgres", "note", f"a transaction has been open for {age:,.0f} s, which slows down every queue")
    if _number(facts, "connections") > 0.8 * _number(facts, "max_connections", 1e9):
        yield Check("postgres", "note", f"{facts['connections']} of {facts['max_connections']} connections are in use")
    if _number(facts, "notify_queue_usage") > 0.5:
        yield Check("postgres", "note", "the NOTIFY queue is more than half full: a listener is not reading")


def check_file(file: Path | None) -> Iterator[Check]:
    if file is None:
        return
    folder = file.parent
    free = shutil.disk_usage(folder).free
    kind = filesystem_of(file) or "unknown"
    weight: Weight = "problem" if free < _LITTLE_SPACE else "ok"
    yield Check("filesystem", weight, f"{kind}, {free / 2**30:,.1f} GiB free")
    if os.name == "posix" and file.exists() and file.stat().st_mode & 0o077:
        yield Check("filesystem", "note", f"other users can read {file}, which contains the arguments of every job")


def check_workers(workers: Sequence[WorkerInfo]) -> Iterator[Check]:
    alive = [worker for worker in workers if worker.state == "alive"]
    lost = [worker for worker in workers if worker.state in ("lost", "dead")]
    names = ", ".join(worker.name for worker in alive[:5]) + (" …" if len(alive) > 5 else "")
    yield Check("workers", "ok" if alive else "note", f"{len(alive)} alive: {names}" if alive else "no live workers")
    if lost:
        doing = "a live worker will rescue their jobs" if alive else "their jobs wait until a worker starts"
        yield Check("workers", "note", f"{len(lost)} lost: {', '.join(w.name for w in lost[:5])}; {doing}")


def check_stranded(stranded: Sequence[Stranded]) -> Iterator[Check]:
    for item in stranded:
        first = f"{item.job} and others like it: " if item.job else ""
        yield Check("queues", "note", f"{item.queue}: {first}{item.text}")


def check_limits(undeclared: Sequence[Undeclared]) -> Iterator[Check]:
    for item in undeclared:
        waits = f"job {item.job_id} of task {', '.join(item.tasks)} waits for it; {item.remedy}"
        yield Check("limits", "problem", f"there is no {item.kind} {item.name!r}, and {waits}")


def _number(facts: Facts, name: str, default: float = 0.0) -> float:
    value = facts.get(name)
    return float(value) if isinstance(value, (int, float)) else default


_WITHOUT: Final = {
    "affinity_wait": "unlimited",
    "name": "host and pid",
    "spill": "none",
    "schema": "first of the search path",
    "listen_dsn": "none",
}
"""Texts for settings that are not set and have no computed value."""


@dataclass(slots=True)
class Report:
    """All findings."""

    versions: dict[str, str]
    settings: list[tuple[str, object, str]] = field(default_factory=list[tuple[str, object, str]])
    store: dict[str, object] = field(default_factory=dict[str, object])
    capabilities: dict[str, Any] = field(default_factory=dict[str, Any])
    checks: list[Check] = field(default_factory=list[Check])

    @property
    def healthy(self) -> bool:
        return not any(check.weight == "problem" for check in self.checks)


@click.command(cls=Command)
@json_option
@target_options
def doctor(app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """Check the environment, the settings and the store. Code 1 if there is a problem. Passwords are not shown."""
    report = Report(versions())
    report.checks += [*check_runtime(), *check_variables(os.environ)]
    try:
        app = find_app(app_name, store)
    except (ConfigError, NotFound) as error:
        report.checks.append(Check("settings", "problem", describe(error)))
    else:
        report.settings = _settings(app, {"store": "--store"} if store else {})
        _examine(app, report)
    if as_json:
        print_json(_data(report))
    else:
        _show(report)
    raise SystemExit(OK if report.healthy else FAILED)


def _examine(app: App, report: Report) -> None:
    report.checks += check_file(database_file(app.config))
    try:
        with Database(app.config) as database:
            facts = database.describe()
            report.store = of_facts(facts)
            report.capabilities = database.capabilities().as_data()
            report.checks += check_facts(facts)
            report.checks += check_clock(database)
            schema = list(check_schema(database))
            report.checks += schema
            if all(check.weight == "ok" for check in schema):
                report.checks += check_write(database)
                report.checks += check_workers(app.workers.list())
                report.checks += check_stranded(app.queues.stranded())
                report.checks += check_limits(app.limits.undeclared())
    except HoldfastError as error:
        report.checks.append(Check("store", "problem", without_passwords(describe(error))))


def _settings(app: App, flags: dict[str, str]) -> list[tuple[str, object, str]]:
    found = of_settings(app.config, app._code, flags)
    return [(name, setting.value, setting.source) for name, setting in found.items()]


def _data(report: Report) -> dict[str, Any]:
    return {
        "healthy": report.healthy,
        "versions": report.versions,
        "settings": {name: {"value": value, "from": source} for name, value, source in report.settings},
        "store": report.store,
        "capabilities": report.capabilities or None,
        "checks": [asdict(check) for check in report.checks],
    }


def _show(report: Report) -> None:
    console = console_for()
    _title("Versions")
    print_facts(list(report.versions.items()))
    if report.settings:
        _title("Settings")
        print_table(("name", "value…", "from"), [(n, _text(n, v), s) for n, v, s in report.settings], empty="")
    if report.store:
        _title("Store")
        print_facts([(name.replace("_", " "), value) for name, value in report.store.items()])
    if report.capabilities:
        _show_capabilities(report.capabilities)
    _title("Checks")
    styles = {"ok": "green", "note": "yellow", "problem": "bold red"}
    for check in report.checks:
        console.print(f"{check.weight:<7}  {check.name}: {check.text}", style=styles[check.weight])
    console.print()
    console.print("no problems found" if report.healthy else "problems found", style="bold")


def _show_capabilities(found: dict[str, Any]) -> None:
    words = {True: "yes", False: "no"}
    _title("Capabilities")
    print_facts([(name.replace("_", " "), words.get(how, how)) for name, how in found["supports"].items()])
    _title("Limits")
    print_facts([(name.replace("_", " "), limit) for name, limit in found["limits"].items()])


def _title(text: str) -> None:
    console = console_for()
    console.print()
    console.print(text, style="bold underline")


def _text(name: str, value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(part) for part in value) or ("those of the app's tasks" if name == "queues" else "none")
    return _WITHOUT.get(name, "automatic") if value is None else str(value)
