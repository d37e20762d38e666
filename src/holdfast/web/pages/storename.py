"""The store's name on pages: recognisable, and without a password."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from ...app import App
from ...runtime.opening import database_file, dialect_of


@dataclass(frozen=True, slots=True)
class StoreName:
    """Return its short name and the kind of database."""

    name: str
    backend: str

    @classmethod
    def of(cls, app: App) -> Self:
        backend = dialect_of(app.config)
        if backend == "postgres":
            return cls(urlsplit(app.config.store).path.lstrip("/") or "postgres", "Postgres")
        file = database_file(app.config)
        return cls("in memory" if file is None else Path(file).name, "SQLite")
