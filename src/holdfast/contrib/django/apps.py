"""The Django app: tasks are found, settings are checked, connections find Holdfast's schema."""

from __future__ import annotations

from django.apps import AppConfig, apps
from django.conf import settings
from django.core import checks
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules


class HoldfastConfig(AppConfig):
    """`INSTALLED_APPS = [..., "holdfast.contrib.django"]`."""

    name = "holdfast.contrib.django"
    label = "holdfast"
    verbose_name = "Holdfast"

    def ready(self) -> None:
        from .checks import check_settings
        from .schema import find_schema, use_wal
        from .store_in_tests import note_databases, reset_test_database

        checks.register(check_settings, "holdfast")
        connection_created.connect(find_schema, dispatch_uid="holdfast.find_schema")
        post_migrate.connect(reset_test_database, sender=self, dispatch_uid="holdfast.reset_test_database")
        post_migrate.connect(use_wal, sender=self, dispatch_uid="holdfast.use_wal")
        note_databases()
        autodiscover_modules("tasks")
        if any("holdfast" in str(one.get("BACKEND")).lower() for one in getattr(settings, "TASKS", {}).values()):
            from .backend import register_found

            register_found(apps.get_app_configs())
