"""The permissions for the dashboard and the admin. No table is made."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("holdfast", "0001_schema"),)
    operations = (
        migrations.CreateModel(
            name="Job",
            fields=[("id", models.CharField(max_length=128, primary_key=True, serialize=False))],
            options={
                "verbose_name": "job",
                "verbose_name_plural": "jobs",
                "permissions": (
                    ("operate_job", "Can operate jobs and queues, and see arguments and results"),
                    ("administer_job", "Can administer Holdfast"),
                ),
                "managed": False,
                "base_manager_name": "objects",
                "default_permissions": ("view",),
            },
        ),
    )
