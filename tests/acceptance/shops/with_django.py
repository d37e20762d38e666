"""Django, with everything in one module; the address of its database comes from the environment."""

from __future__ import annotations

import json
import os
from typing import Any

import django
from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse

if not settings.configured:
    settings.configure(
        DATABASES={"default": json.loads(os.environ["SHOP_DATABASE"])},
        ROOT_URLCONF=__name__,
        ALLOWED_HOSTS=["*"],
        SECRET_KEY="of no use to anybody",
    )
    django.setup()

from django.core.wsgi import get_wsgi_application
from django.db import connection, transaction
from django.urls import path

import holdfast
from tests.acceptance.shops.jobs import app as jobs
from tests.acceptance.shops.jobs import receipt

with connection.cursor() as cursor:
    cursor.execute(os.environ["SHOP_TABLE"])
connection.close()


class SoldOut(Exception):
    pass


def order(request: HttpRequest, way: str) -> HttpResponse:
    try:
        with transaction.atomic():
            job = _place(request.GET["item"], way)
            if request.GET["item"] == "nothing":
                raise SoldOut
    except SoldOut:
        return JsonResponse("sold out", safe=False, status=409)
    except holdfast.HoldfastError as error:
        return JsonResponse(f"{type(error).__name__}: {error}", safe=False, status=503)
    return JsonResponse(job.id, safe=False)


def _place(item: str, way: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute("insert into orders (item) values (%s) returning id", [item])
        (number,) = cursor.fetchone()
    if way == "forgotten":
        return receipt.enqueue(number)
    if way == "within":
        with jobs.within(connection):
            return receipt.enqueue(number)
    return receipt.options(connection=connection).enqueue(number)


def count(_: HttpRequest) -> HttpResponse:
    with connection.cursor() as cursor:
        cursor.execute("select count(*) from orders")
        return JsonResponse(cursor.fetchone()[0], safe=False)


urlpatterns = [path("orders/<way>", order), path("orders", count)]
app = get_wsgi_application()
