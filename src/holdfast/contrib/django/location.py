"""Where a database of DATABASES is, as Holdfast writes it: a path or a URL."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from django.core.exceptions import ImproperlyConfigured

from .conf import ProjectSettings, WrongSetting
from .store_in_tests import is_testing
from .untyped import connections


def store_text(alias: str) -> str:
    """Return the store of an alias. Raises WrongSetting if Holdfast cannot keep jobs there."""
    if alias not in connections.settings:
        known = ", ".join(sorted(connections.settings))
        message = f"HOLDFAST['DATABASE'] is {alias!r}, and DATABASES has no such alias"
        raise WrongSetting("E004", message, f"It has {known}.")
    connection = connections[alias]
    if connection.vendor == "sqlite":
        return _sqlite_file(alias, connection)
    if connection.vendor == "postgresql":
        return _postgres_url(alias, connection)
    raise WrongSetting(
        "E005",
        f"DATABASES[{alias!r}] is {connection.display_name}, and Holdfast needs SQLite or PostgreSQL",
        "Set HOLDFAST['DATABASE'] to the alias of such a database.",
    )


def pool_options(project: ProjectSettings) -> dict[str, Any]:
    """Return the settings for a pool such as PgBouncer, which the project has if it disables server-side cursors."""
    connection = connections[project.database]
    if connection.vendor != "postgresql" or not connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS"):
        return {}
    return {"prepare": False, "notify": "listen_dsn" in project.options}


def _sqlite_file(alias: str, connection: Any) -> str:
    name = str(connection.settings_dict["NAME"])
    if not name:
        raise WrongSetting("E004", f"DATABASES[{alias!r}] has no NAME", "Give it a file.")
    if connection.is_in_memory_db() and not is_testing():
        raise WrongSetting(
            "E006",
            f"DATABASES[{alias!r}] is in memory, where no other process finds the jobs",
            "Give it a file as NAME.",
        )
    return name


def _postgres_url(alias: str, connection: Any) -> str:
    from django.db.backends.postgresql.psycopg_any import is_psycopg3

    if not is_psycopg3:
        raise WrongSetting(
            "E008",
            f"DATABASES[{alias!r}] uses psycopg2, and Holdfast needs psycopg 3",
            'Run: pip install "psycopg[binary]"; Django then prefers it.',
        )
    try:
        given = connection.get_connection_params()
    except ImproperlyConfigured as wrong:
        raise WrongSetting("E004", f"DATABASES[{alias!r}] cannot be used: {wrong}", "Complete it.") from None
    known = _libpq_keywords()
    params = {key: str(value) for key, value in given.items() if key in known and value is not None}
    if role := connection.settings_dict["OPTIONS"].get("assume_role"):
        params["options"] = f"{params.get('options', '')} -c role={role}".strip()
    # Not urlencode's default: libpq reads + as itself.
    return f"postgresql://?{urlencode(params, quote_via=quote)}"


def _libpq_keywords() -> frozenset[str]:
    from psycopg.pq import Conninfo

    return frozenset(option.keyword.decode() for option in Conninfo.get_defaults())
