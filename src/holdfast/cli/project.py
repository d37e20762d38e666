"""Finds the app that a project names in its pyproject.toml: `[tool.holdfast] app = "shop.jobs:app"`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ConfigError


@dataclass(frozen=True, slots=True)
class Project:
    """The app that a project names, and the file that says so."""

    app: str
    file: Path


def find_project() -> Project | None:
    """Return the project of the nearest pyproject.toml with a `[tool.holdfast]`, from the current folder upwards."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        file = folder / "pyproject.toml"
        if (settings := _settings(file)) is not None:
            return Project(_app(settings, file), file)
    return None


def _settings(file: Path) -> dict[str, Any] | None:
    try:
        text = file.read_bytes() if file.is_file() else b""
        # A file that does not mention Holdfast may be somebody else's, in a newer TOML.
        found = tomllib.loads(text.decode()) if b"holdfast" in text else {}
    except (OSError, ValueError) as wrong:
        raise ConfigError(f"{file} cannot be read: {wrong}; mend it, or name the app with --app") from wrong
    tool = found.get("tool", {})
    settings = tool.get("holdfast") if isinstance(tool, dict) else None
    if settings is not None and not isinstance(settings, dict):
        raise ConfigError(f'{file}: tool.holdfast is not a table; write [tool.holdfast] and app = "MODULE:APP" below')
    return settings


def _app(settings: dict[str, Any], file: Path) -> str:
    if unknown := settings.keys() - {"app"}:
        raise ConfigError(f"{file}: [tool.holdfast] has no setting {min(unknown)!r}; it has app")
    app = settings.get("app")
    if not isinstance(app, str) or not app:
        raise ConfigError(f'{file}: [tool.holdfast] needs app = "MODULE:APP", such as "shop.jobs:app"')
    return app
