"""The addresses of the project."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db import transaction
from django.http import JsonResponse
from django.urls import include, path

from .tasks import add


@transaction.atomic
def enqueue(request: Any) -> JsonResponse:
    """Enqueue a task; with ?undo, roll back."""
    result = add.enqueue(1, 2)
    transaction.set_rollback("undo" in request.GET)
    return JsonResponse({"id": result.id})


async def enqueue_async(request: Any) -> JsonResponse:
    """Enqueue a task from an async view."""
    return JsonResponse({"id": (await add.aenqueue(3, 4)).id})


def result(request: Any, id: str) -> JsonResponse:
    """Tell how a task is."""
    found = add.get_result(id)
    return JsonResponse({"status": found.status, "value": found._return_value})


urlpatterns = [
    path("admin/", admin.site.urls),
    path("jobs/", include("holdfast.contrib.django.urls")),
    path("enqueue/", enqueue),
    path("enqueue-async/", enqueue_async),
    path("result/<str:id>/", result),
]
