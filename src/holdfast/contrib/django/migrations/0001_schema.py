"""Holdfast's tables."""

from __future__ import annotations

from django.db import migrations

from holdfast.contrib.django.schema import ApplySchema


class Migration(migrations.Migration):
    operations = [ApplySchema(1, 33)]
