"""The same app on both stores, and what a call answers there."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import holdfast
from holdfast.errors import HoldfastError, InvalidInput, StorageError
from tests.postgres_server import url_of


@dataclass(frozen=True, slots=True)
class Pair:
    """One app on SQLite, its twin on Postgres."""

    sqlite: holdfast.App
    postgres: holdfast.App

    def __iter__(self) -> Iterator[holdfast.App]:
        return iter((self.sqlite, self.postgres))


@contextmanager
def paired(folder: Path, dsn: str, furnish: Callable[[holdfast.App], object]) -> Iterator[Pair]:
    """Both, each furnished alike, and closed at the end."""
    apps = [holdfast.App(url, durable=False) for url in (str(folder / "jobs.db"), url_of(dsn))]
    try:
        for app in apps:
            furnish(app)
        yield Pair(*apps)
    finally:
        for app in apps:
            app.close()


def answer(call: Callable[[], Any]) -> str:
    """What came of a call, in words that are the same on both stores where it is: a type, or a refusal.

    AssertionError where it is neither: anything that is not an error of ours, or one of the store's.
    """
    try:
        found = call()
        if inspect.isgenerator(found):
            found = list(found)
    except StorageError as error:
        raise AssertionError(f"the store itself refused: {error!r}") from error
    except InvalidInput as error:
        assert len(str(error)) > 10, f"{error!r} does not say what to do"
        return "refused"
    except HoldfastError as error:
        return type(error).__name__
    except Exception as error:
        raise AssertionError(f"not an error of ours: {error!r}") from error
    return type(found).__name__
