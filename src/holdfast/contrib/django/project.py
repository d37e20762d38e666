"""The shared app of a Django project, with its store in one of the project's databases."""

from __future__ import annotations

from functools import cache
from typing import Final, Never, cast

from ...app import App
from ...errors import ConfigError
from ...runtime.opening import open_store
from ...storage.port import Store
from . import conf
from .joining import JoiningStore
from .location import pool_options, store_text
from .store_in_tests import TestStore, is_testing


class DjangoApp(App):
    """An app whose store is a database of the Django project. `holdfast.contrib.django.app` is the only one."""

    child_setup = "holdfast.contrib.django.standalone"

    def __init__(self) -> None:
        self._wrong: ConfigError | None = None
        try:
            given = conf.read()
            store = store_text(given.database)
            options = pool_options(given) | given.options
            if given.schema:
                options["schema"] = given.schema
            super().__init__(store, routes=given.routes, tenant=given.tenant, tenants=given.tenants, **options)
        except ConfigError as wrong:
            # Kept until the store is used: `manage.py check` imports tasks too, and must come to its report.
            self._wrong, given, store = wrong, conf.ProjectSettings(), "unusable.db"
            super().__init__(store)
        self.project: Final = given
        self._own_store: Final = self.config.store
        self._test_store: TestStore | None = None
        self._enqueuer.ambient = True
        if self._wrong is None and self.config.store != store:
            self._wrong = ConfigError(
                "HOLDFAST_STORE or --store names another store than the project's database"
                f" {given.database!r}; unset it, or set HOLDFAST['DATABASE']"
            )

    def open(self) -> Store:
        """Return the store, opened at its first use. In a test it is the test's own connection."""
        if self._wrong is not None:
            raise self._wrong
        if is_testing() and not self._is_overridden:
            if self._test_store is None:
                self._test_store = TestStore(self.project.database, self._clock)
            return self._test_store
        if self._is_overridden:
            return super().open()
        if self._opened is None:
            with self._opening:
                if self._opened is None:
                    store = open_store(self.config, self._clock, auto_migrate=False)
                    self._opened = cast(Store, JoiningStore(store, self.project.database))
        return self._opened

    @property
    def _is_overridden(self) -> bool:
        """Return whether a block of `override_store` or `isolated` has replaced the project's database."""
        return self.config.store != self._own_store

    def migrate(self) -> Never:
        """Refuse: the schema is part of the project's migrations."""
        raise ConfigError("Django manages this schema; run: manage.py migrate holdfast")


@cache
def shared_app() -> DjangoApp:
    """Return the project's app."""
    return DjangoApp()
