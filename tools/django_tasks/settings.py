"""The settings of a project that has nothing but Holdfast. HOLDFAST_TEST_DATABASE is a folder, or a Postgres DSN."""

from __future__ import annotations

import os
from typing import Any

import django
from psycopg.conninfo import conninfo_to_dict


def _database(where: str) -> dict[str, Any]:
    if where.startswith("/"):
        options = {"transaction_mode": "IMMEDIATE", "timeout": 20}
        engine, name, test = "django.db.backends.sqlite3", f"{where}/project.db", f"{where}/test.db"
        return {"ENGINE": engine, "NAME": name, "OPTIONS": options, "TEST": {"NAME": test}}
    known = {key: str(value) for key, value in conninfo_to_dict(where).items()}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": known["dbname"],
        "USER": known.get("user", ""),
        "PASSWORD": known.get("password", ""),
        "HOST": known.get("host", ""),
        "PORT": known.get("port", ""),
        "TEST": {"NAME": f"django_tasks_{os.getpid()}"},
    }


SECRET_KEY = "for tests"
USE_TZ = True
DATABASES = {"default": _database(os.environ["HOLDFAST_TEST_DATABASE"])}
INSTALLED_APPS = ["holdfast.contrib.django"]
if django.VERSION[0] < 6:
    INSTALLED_APPS.append("django_tasks")
