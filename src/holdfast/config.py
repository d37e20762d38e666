"""Settings from four places, the strongest first: flags, HOLDFAST_* variables, code, and holdfast.toml."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from .errors import ConfigError, InvalidInput
from .names import check_queue
from .values.codec import PAYLOAD_LIMIT, VALUE_LIMIT
from .worker.settings import WorkerSettings

_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off", ""})
_POSTGRES: Final = ("postgresql://", "postgres://")
_POLL_ALONE: Final = 0.5
_SWITCHES: Final = frozenset({"durable", "inline", "notify", "prepare"})
_TEXTS: Final = frozenset({"store", "schema", "listen_dsn", "spill"})
_PATHS: Final = frozenset({"store", "spill"})
# Not settings of an app: variables of commands and of the outbox, and those that processes pass to each other.
_OTHER_VARIABLES: Final = (
    "ACTOR", "APP", "CONFIG", "PROCESSES", "METRICS_PORT", "HEALTH_PORT", "HEALTH_HOST", "LOG_FORMAT", "LOG_LEVEL",
    "WORKER_ID", "SUPERVISOR", "HEALTH_PIPE", "CAPTURE",
)  # fmt: skip
_MOST_CONNECTIONS: Final = 10_000
# A message to a child process takes 256 MiB at most, and a value may be written in it twice.
_LARGEST_VALUE: Final = 2 * VALUE_LIMIT
_LEAST_TIMEOUT: Final = 0.1
_MOST_TIMEOUT: Final = 3_600
_NUMBERS: Final[dict[str, tuple[int | float, int | float, int | float]]] = {
    "pool_size": (1, 1, _MOST_CONNECTIONS),
    "max_value_bytes": (1, PAYLOAD_LIMIT, _LARGEST_VALUE),
    "store_timeout": (1.0, _LEAST_TIMEOUT, _MOST_TIMEOUT),
}
"""Numeric settings of the store: an example that gives the type, the least and the greatest value."""
_SHOWN: Final = 200
_WORKER_FIELDS: Final = tuple(f.name for f in fields(WorkerSettings))


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of an app."""

    store: str = "holdfast.db"
    """A path, "sqlite:///…", ":memory:" or "postgresql://…"."""
    durable: bool = True
    """Survive a loss of power after every commit. Without it, the last commits before the loss may be missing."""
    inline: bool = False
    """Run jobs at once in their caller, without a store. For tests."""
    notify: bool = True
    """Wake workers by NOTIFY (Postgres). Without it they poll."""
    pool_size: int = 8
    """Connections for blocking callers, and again for each event loop (Postgres)."""
    store_timeout: float = 10.0
    """Seconds after which a call raises if the server has not answered a statement (Postgres)."""
    prepare: bool = True
    """Prepare statements on the server (Postgres). Turn it off behind a PgBouncer before 1.21."""
    schema: str | None = None
    """The Postgres schema of the tables; None is the first of the search path."""
    listen_dsn: str | None = None
    """A direct address for LISTEN, where `store` goes through a pooler (Postgres)."""
    max_value_bytes: int = VALUE_LIMIT
    """The size limit in bytes of arguments, results, step values and signals, as JSON."""
    spill: str | None = None
    """A folder that keeps jobs while the store is unavailable; None: `enqueue` raises instead."""
    worker: WorkerSettings = field(default_factory=WorkerSettings)


def load(
    code: Mapping[str, Any],
    *,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Config:
    """Return the settings in force. An unknown name is an error, in each place."""
    environment = os.environ if environment is None else environment
    # None means not set, in each place: App() must not hide the store that the file sets.
    places = (_from_toml(environment, file), code, _from_environment(environment), flags or {})
    given = {name: value for place in places for name, value in place.items() if value is not None}
    if unknown := given.keys() - set(known_settings()):
        names = ", ".join(sorted(unknown))
        raise ConfigError(f"there is no setting {names}; known settings are {', '.join(known_settings())}")
    try:
        return _checked(given)
    except ConfigError as wrong:
        # The message begins with the setting's name and does not say where the value was set.
        name = str(wrong).partition(" ")[0]
        variable = f"HOLDFAST_{name.upper()}"
        if variable in environment and (flags or {}).get(name) is None:
            raise ConfigError(f"{variable}: {wrong}") from None
        raise


def _checked(given: dict[str, Any]) -> Config:
    worker = {name: given.pop(name) for name in _WORKER_FIELDS if name in given}
    for name in _SWITCHES & given.keys():
        if not isinstance(given[name], bool):
            raise ConfigError(f"{name} is {given[name]!r}; use True or False")
    for name in _TEXTS & given.keys():
        _check_text(name, given[name])
    for name, (kind, least, most) in _NUMBERS.items():
        if name in given:
            given[name] = value = _convert(name, kind, given[name])
            if not least <= value <= most:
                shown = f"{value:g}" if isinstance(kind, float) else value
                raise ConfigError(f"{name} is {shown}; use {least:,} to {most:,}")
    _set_poll(given, worker)
    return Config(**given, worker=WorkerSettings(**_converted(WorkerSettings(), worker)))


def _set_poll(given: Mapping[str, Any], worker: dict[str, Any]) -> None:
    """Poll more often where nothing wakes the workers, unless `poll` is set."""
    if given.get("notify") is False and str(given.get("store", "")).startswith(_POSTGRES):
        worker.setdefault("poll", _POLL_ALONE)


def known_settings() -> list[str]:
    """Return every setting's name, as in code and TOML; the variable is HOLDFAST_ and the name in capitals."""
    return sorted([f.name for f in fields(Config) if f.name != "worker"] + list(_WORKER_FIELDS))


def unknown_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the HOLDFAST_* variables that set nothing, each with a sentence that says so."""
    known = {f"HOLDFAST_{name.upper()}" for name in known_settings()} | {
        f"HOLDFAST_{name}" for name in _OTHER_VARIABLES
    }
    found: dict[str, str] = {}
    for name in sorted(environment):
        if name.startswith("HOLDFAST_") and name not in known and not name.startswith("HOLDFAST_TEST_"):
            close = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]}?" if close else "is it misspelt?"
            found[name] = f"{name} is set, but there is no such setting; {hint}"
    return found


def origins(code: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the origin of each setting in force: its variable, "code", "holdfast.toml" or "default"."""
    environment = os.environ if environment is None else environment
    toml = _from_toml(environment, None)
    found: dict[str, str] = {}
    for name in known_settings():
        if (variable := f"HOLDFAST_{name.upper()}") in environment:
            found[name] = variable
        elif code.get(name) is not None:
            found[name] = "code"
        else:
            found[name] = environment.get("HOLDFAST_CONFIG", "holdfast.toml") if name in toml else "default"
    return found


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in known_settings():
        text = environment.get(f"HOLDFAST_{name.upper()}")
        if text is not None:
            found[name] = _parse(name, text)
    return found


def _from_toml(environment: Mapping[str, str], file: Path | None) -> dict[str, Any]:
    chosen = file or Path(environment.get("HOLDFAST_CONFIG", "holdfast.toml"))
    if not chosen.exists():
        if "HOLDFAST_CONFIG" in environment or file:
            raise ConfigError(f"the settings file {chosen} does not exist; create it, or unset HOLDFAST_CONFIG")
        return {}
    try:
        settings = tomllib.loads(chosen.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as wrong:
        raise ConfigError(f"{chosen} is not valid TOML: {wrong}") from wrong
    if unknown := settings.keys() - set(known_settings()):
        close = difflib.get_close_matches(min(unknown), known_settings(), 1)
        hint = f"did you mean {close[0]}?" if close else "remove them"
        raise ConfigError(f"{chosen} has unknown settings: {', '.join(sorted(unknown))}; {hint}")
    return settings


def _parse(name: str, text: str) -> Any:
    if name in _SWITCHES:
        if text.lower() not in _TRUE | _FALSE:
            raise ConfigError(f"HOLDFAST_{name.upper()} is {text!r}; use true or false")
        return text.lower() in _TRUE
    return text


def _converted(defaults: WorkerSettings, given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert texts from the environment to the types of the settings."""
    return {name: _convert(name, getattr(defaults, name), value) for name, value in given.items()}


def _convert(name: str, default: object, value: Any) -> Any:
    if isinstance(default, tuple):
        return _listed(name, value)
    if isinstance(default, str):
        _check_text(name, value)
        return value
    try:
        if isinstance(value, bool):
            raise ValueError
        number = float(value)
        if not isinstance(default, int):
            return number
        # Not through a float, which would round a number of many digits.
        whole = value if isinstance(value, int) else int(value)
        if whole != number and not isinstance(value, int):
            raise ValueError
        return int(whole)
    except (TypeError, ValueError, OverflowError, ArithmeticError):
        kind = "a whole number" if isinstance(default, int) else "a number"
        raise ConfigError(f"{name} is {_shown(value)}, which is not {kind}; give one, such as {default}") from None


def _listed(name: str, value: Any) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple, set, frozenset)) or not all(isinstance(part, str) for part in parts):
        raise ConfigError(f"{name} is {_shown(value)}; give a list of texts")
    try:
        return tuple(check_queue(part.strip()) for part in parts if part)
    except InvalidInput as wrong:
        raise ConfigError(f"{name} is wrong: {wrong}") from None


def _check_text(name: str, value: object) -> None:
    text = os.fspath(value) if isinstance(value, os.PathLike) and name in _PATHS else value
    if not isinstance(text, str):
        raise ConfigError(f"{name} is {_shown(value)}; give a text")
    if "\x00" in text:
        raise ConfigError(f"{name} contains U+0000; remove it")
    if name == "store" and not text.strip():
        raise ConfigError("store is empty; give a path or a URL, or leave it out; ':memory:' is a database in memory")


def _shown(value: object) -> str:
    return repr(value)[:_SHOWN]
