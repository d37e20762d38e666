"""`holdfast doctor`: the environment, the settings and their problems."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import click

from ..app import App
from ..errors import ConfigError, HoldfastError, NotFound
from ..runtime.database import Database
from ..runtime.opening import database_file, redacted
from ..shapes.store import of_facts, of_settings
from . import checks
from .checks import Check
from .command import FAILED, OK, Command, describe, json_option, target_options
from .locate import find_app
from .output import console_for, print_facts, print_json, print_table

_WITHOUT: Final = {"affinity_wait": "unlimited", "name": "host and pid"}
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
    report = Report(checks.versions())
    report.checks += [*checks.check_runtime(), *checks.check_variables(os.environ)]
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
    report.checks += checks.check_file(database_file(app.config))
    try:
        with Database(app.config) as database:
            facts = database.describe()
            report.store = of_facts(facts)
            report.capabilities = database.capabilities().as_data()
            report.checks += checks.check_facts(facts)
            report.checks += checks.check_clock(database)
            schema = list(checks.check_schema(database))
            report.checks += schema
            if all(check.weight == "ok" for check in schema):
                report.checks += checks.check_write(database)
                report.checks += checks.check_workers(app.workers.list())
                report.checks += checks.check_stranded(app.queues.stranded())
    except HoldfastError as error:
        report.checks.append(Check("store", "problem", redacted(describe(error))))


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
