"""System checks: `manage.py check` reports wrong settings, each with an id and a hint."""

from __future__ import annotations

import os
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning

from ...runtime.opening import POSTGRES_ONLY
from . import conf
from .location import store_text
from .untyped import connections


def check_settings(**_: Any) -> list[CheckMessage]:
    """Check HOLDFAST, and the database that it names."""
    given = getattr(settings, "HOLDFAST", {})
    wrong = conf.problems(given)
    found: list[CheckMessage] = [_error(one) for one in wrong]
    if "HOLDFAST_STORE" in os.environ:
        hint = "Unset it. HOLDFAST['DATABASE'] names the database of the jobs."
        message = "HOLDFAST_STORE is set, and the store of a Django project is its database"
        found.append(Error(message, hint=hint, id="holdfast.E009"))
    return found if wrong else found + _check_database(conf.read())


def _check_database(project: conf.ProjectSettings) -> list[CheckMessage]:
    try:
        store_text(project.database)
    except conf.WrongSetting as wrong:
        return [_error(wrong)]
    connection = connections[project.database]
    if connection.vendor != "sqlite":
        return []
    found: list[CheckMessage] = []
    given = {**project.options, "schema": project.schema}
    for name in POSTGRES_ONLY:
        if given.get(name) is not None:
            message = f"HOLDFAST[{name.upper()!r}] is for PostgreSQL, and DATABASES[{project.database!r}] is SQLite"
            found.append(Error(message, hint="Leave it out.", id="holdfast.E007"))
    mode = connection.settings_dict["OPTIONS"].get("transaction_mode")
    if str(mode).upper() not in ("IMMEDIATE", "EXCLUSIVE"):
        found.append(
            Warning(
                f"transactions of DATABASES[{project.database!r}] begin deferred; one that reads before it writes can"
                ' fail with "database is locked" beside a worker',
                hint='Set its OPTIONS to {"transaction_mode": "IMMEDIATE", "timeout": 20}.',
                id="holdfast.W001",
            )
        )
    return found


def _error(wrong: conf.WrongSetting) -> Error:
    return Error(wrong.message, hint=wrong.hint, id=f"holdfast.{wrong.check}")
