"""The store, its capabilities and its health, and the settings in force. Passwords are not shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..config import Config, known_settings, origins
from ..model.stats import StoreStats
from ..model.store import Capabilities
from ..runtime.opening import redacted


class Store(msgspec.Struct, frozen=True, kw_only=True):
    """The store. `facts` are what the database reports, which depends on its kind."""

    facts: dict[str, Any]
    capabilities: Capabilities
    health: StoreStats


class Setting(msgspec.Struct, frozen=True, kw_only=True, rename={"source": "from"}):
    """A setting in force, and where it comes from."""

    value: Any
    source: str


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting by its name."""

    settings: dict[str, Setting]


def of_facts(facts: Mapping[str, object]) -> dict[str, Any]:
    """Return the facts that a database reports, without passwords."""
    return {name: hidden(value) for name, value in facts.items()}


def of_settings(config: Config, code: Mapping[str, Any], flags: Mapping[str, str] | None = None) -> dict[str, Setting]:
    """The settings in force, without passwords. `flags` are those that were given on the command line."""
    sources = {**origins(code), **(flags or {})}
    return {name: Setting(value=_value(config, name), source=sources[name]) for name in known_settings()}


def hidden(value: object) -> object:
    """A value without the password that it may have in it."""
    return redacted(value) if isinstance(value, str) else value


def _value(config: Config, name: str) -> object:
    value = getattr(config, name) if hasattr(config, name) else getattr(config.worker, name)
    return list(value) if isinstance(value, tuple) else hidden(value)
