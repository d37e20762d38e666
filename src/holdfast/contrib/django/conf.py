"""The HOLDFAST setting, read once into a frozen value.

Its keys are DATABASE, SCHEMA, ROUTES, TENANT and TENANTS, and the settings of `holdfast.config` in capitals.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS
from django.utils.module_loading import import_string

from ...config import known_settings, load
from ...errors import ConfigError, HoldfastError
from ...rules.routing import QueueRouter, Routes

_OWN: Final = ("DATABASE", "SCHEMA", "ROUTES", "TENANT", "TENANTS")
_INSTEAD: Final = {"STORE": "DATABASE names an alias of DATABASES", "SCHEMA": ""}
KEYS: Final = (*_OWN, *(name.upper() for name in known_settings() if name.upper() not in _INSTEAD))
"""Every key that HOLDFAST may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSettings:
    """The settings of a project's shared app."""

    database: str = DEFAULT_DB_ALIAS
    """The alias of the database that holds the jobs."""
    schema: str | None = None
    """The Postgres schema of Holdfast's tables; None is the first of the search path."""
    routes: Routes | None = None
    tenant: Callable[[], str] | None = None
    tenants: Any = None
    options: dict[str, Any] = field(default_factory=dict)
    """Settings of `holdfast.App`."""


class WrongSetting(ConfigError):
    """A key of HOLDFAST that cannot be used. `check` is the id of the system check that reports it."""

    def __init__(self, check: str, message: str, hint: str) -> None:
        super().__init__(f"{message}; {hint[0].lower()}{hint[1:]}")
        self.check = check
        self.message = message
        self.hint = hint


def read() -> ProjectSettings:
    """Return the project's settings. Raises the first of `problems`."""
    given = getattr(settings, "HOLDFAST", {})
    for wrong in problems(given):
        raise wrong
    return ProjectSettings(
        database=given.get("DATABASE", DEFAULT_DB_ALIAS),
        schema=given.get("SCHEMA"),
        routes=_imported(given.get("ROUTES")),
        tenant=_imported(given.get("TENANT")),
        tenants=_imported(given.get("TENANTS")),
        options={key.lower(): value for key, value in given.items() if key not in _OWN},
    )


def problems(given: Any) -> list[WrongSetting]:
    """Return what is wrong with HOLDFAST itself, without a look at the database."""
    if not isinstance(given, Mapping):
        hint = 'Write HOLDFAST = {"CONCURRENCY": 50}.'
        return [WrongSetting("E001", f"HOLDFAST is a {type(given).__name__}, not a dict", hint)]
    found = [_unknown(key) for key in given if key not in KEYS]
    for key, value in given.items():
        if key in _OWN:
            found += _wrong_own(key, value)
        elif key in KEYS:
            found += _wrong_option(key, value)
    return found


def _unknown(key: object) -> WrongSetting:
    if key in _INSTEAD:
        return WrongSetting("E002", f"HOLDFAST has no key {key!r}", f"{_INSTEAD[str(key)]}.")
    close = difflib.get_close_matches(str(key).upper(), KEYS, 1)
    hint = f"Did you mean {close[0]!r}?" if close else f"Its keys are {', '.join(KEYS)}."
    return WrongSetting("E002", f"HOLDFAST has no key {key!r}", hint)


def _wrong_own(key: str, value: Any) -> list[WrongSetting]:
    if key in ("DATABASE", "SCHEMA"):
        if (isinstance(value, str) and value) or (key == "SCHEMA" and value is None):
            return []
        hint = "Give an alias of DATABASES." if key == "DATABASE" else 'Give a name, such as "holdfast".'
        return [WrongSetting("E003", f"HOLDFAST[{key!r}] is {value!r}, not a name", hint)]
    try:
        _check_own(key, _imported(value))
    except (ImportError, HoldfastError) as error:
        hint = 'Give {"mail.*": "mail"}.' if key == "ROUTES" else "Give a function, or its dotted path."
        return [WrongSetting("E003", f"HOLDFAST[{key!r}] is {value!r}: {error}", hint)]
    return []


def _check_own(key: str, value: Any) -> None:
    if key == "ROUTES":
        if not (value is None or callable(value) or isinstance(value, Mapping)):
            raise ConfigError("it is not a dict")
        QueueRouter(cast("Routes | None", value))
    elif key == "TENANT" and value is not None and not callable(value):
        raise ConfigError("it cannot be called")


def _wrong_option(key: str, value: Any) -> list[WrongSetting]:
    try:
        load({key.lower(): value}, environment={})
    except ConfigError as error:
        what, _, advice = str(error).partition("; ")
        hint = f"{advice[:1].upper()}{advice[1:]}." if advice else "See the reference of settings."
        return [WrongSetting("E003", f"HOLDFAST[{key!r}]: {what}", hint)]
    return []


def _imported(value: Any) -> Any:
    """Return what a dotted path names; anything else as it is."""
    return import_string(value) if isinstance(value, str) else value
