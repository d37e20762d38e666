"""Holdfast's tables."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations
from django.db.migrations.operations.base import Operation

from holdfast.contrib.django.schema import ApplySchema


class Migration(migrations.Migration):
    operations: ClassVar[list[Operation]] = [ApplySchema(1, 36)]
