"""The settings of the project. HOLDFAST_TEST_DATABASE is a folder for SQLite, or the DSN of a Postgres database."""

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
        "TEST": {"NAME": f"{known['dbname']}_inner"},
    }


SECRET_KEY = "for tests"
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "testserver"]
USE_TZ = True
DATABASES = {"default": _database(os.environ["HOLDFAST_TEST_DATABASE"])}
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "holdfast.contrib.django",
    "tests.django_project",
    *([] if django.VERSION[0] >= 6 else ["django_tasks"]),
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.gzip.GZipMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
ROOT_URLCONF = "tests.django_project.urls"
STATIC_URL = "static/"
LOGIN_URL = "/admin/login/"
IMMEDIATE = f"{'django.tasks' if django.VERSION[0] >= 6 else 'django_tasks'}.backends.immediate.ImmediateBackend"
TASKS = {
    "default": {
        "BACKEND": "holdfast.contrib.django.HoldfastBackend",
        "QUEUES": ["default", "mail", "reports"],
        "OPTIONS": {
            "tasks": {
                "tests.django_project.tasks.twice*": {"max_attempts": 2},
                "tests.django_project.tasks.apart": {"isolate": "process", "max_attempts": 2},
            }
        },
    },
    "at_once": {"BACKEND": IMMEDIATE},
}
LOGGING = {"version": 1, "disable_existing_loggers": False, "loggers": {"django.request": {"level": "CRITICAL"}}}
