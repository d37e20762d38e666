"""A Django project whose tasks write by the ORM, run in each of the ways that a task can be."""

from __future__ import annotations

import os

import django
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict

import holdfast

if not settings.configured:
    where = conninfo_to_dict(os.environ["DJANGO_DSN"])
    settings.configure(
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": where["dbname"],
                "USER": where["user"],
                "HOST": where["host"],
                **({"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True} if os.environ.get("DJANGO_KEEPS") else {}),
            }
        },
        USE_TZ=True,
    )
    django.setup()

from django.db import models


class Note(models.Model):  # type: ignore[misc]
    text = models.TextField()

    class Meta:
        app_label = "notes"
        db_table = "notes"


app = holdfast.App("unused.db")


@app.task(max_attempts=1)
def on_thread(text: str) -> int:
    return int(Note.objects.create(text=text).pk)


@app.task(max_attempts=1, isolate="process")
def in_process(text: str) -> int:
    return int(Note.objects.create(text=text).pk)


@app.task(max_attempts=1)
async def on_loop(text: str) -> int:
    return int((await Note.objects.acreate(text=text)).pk)


@app.task(max_attempts=1)
async def in_a_step(ctx: holdfast.Context, text: str) -> int:
    return await ctx.step("note", lambda: int(Note.objects.create(text=text).pk))
