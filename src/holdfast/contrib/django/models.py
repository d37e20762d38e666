"""The permissions of Django's users, and the jobs in Django's admin: a model without rows of its own."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class _NoRows(models.Manager):
    """Finds nothing: jobs are read by `app.jobs`, and no query of Django's may change one."""

    def get_queryset(self) -> models.QuerySet:
        return super().get_queryset().none()


class Job(models.Model):
    """A job, for permissions and the admin. `holdfast.contrib.django.app.jobs` reads and changes jobs."""

    id = models.CharField(primary_key=True, max_length=128)

    objects = _NoRows()

    class Meta:
        """It has no table: Holdfast's own are not described by models."""

        managed = False
        base_manager_name = "objects"
        default_permissions = ("view",)
        permissions = (
            ("operate_job", "Can operate jobs and queues, and see arguments and results"),
            ("administer_job", "Can administer Holdfast"),
        )
        verbose_name = _("job")
        verbose_name_plural = _("jobs")

    def __str__(self) -> str:
        return str(self.id)
