"""The cost of an enqueue in a Django request: `python -m benchmarks.django_requests [--requests 10000]`.

Requests go through Django's whole handler in one process, so that no server's time hides the difference: one writes an
order, one an order and a second row, one an order and a job. Their times are compared round by round, so that a busy
machine slows all three. Afterwards every answered request must have its order and its job, and no other.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.postgres_server import private_server, url_of

ROOT: Final = Path(__file__).parent.parent
EXAMPLE: Final = ROOT / "examples" / "django"
_ROUND: Final = 100
_COMPARED: Final = 30
"""Rounds of all three kinds; the others are requests with a job only."""
_SOLD_OUT: Final = 10
"""One of so many requests with a job is rolled back."""


def main() -> None:
    """Measure both stores, each in a process of its own: a process has one Django project."""
    arguments = argparse.ArgumentParser(description="The cost of an enqueue in a Django request.")
    arguments.add_argument("--requests", type=int, default=10_000, help="Requests with an enqueue.")
    arguments.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.here:
        measure(given.requests)
        return
    with tempfile.TemporaryDirectory() as folder, private_server(fsync="on") as server:
        stores = {"SQLite": {"SQLITE_FILE": f"{folder}/shop.db"}, "Postgres": {"DATABASE_URL": url_of(server.dsn)}}
        for store, where in stores.items():
            paths = {"PYTHONPATH": f"{EXAMPLE}:{ROOT / 'src'}:{ROOT}", "DJANGO_SETTINGS_MODULE": "shop.settings"}
            env = os.environ | where | paths | {"DEBUG": "0"}
            print(store, flush=True)
            subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=EXAMPLE, env=env, check=True)
            command = [sys.executable, "-m", "benchmarks.django_requests", "--here", "--requests", str(given.requests)]
            subprocess.run(command, cwd=ROOT, env=env, check=True)


def measure(requests: int) -> None:
    """Make the requests; print their rates, and check what they left."""
    import django

    django.setup()
    from django.test import Client

    shop = _Shop(Client(headers={"host": "localhost"}))
    with shop.served():
        times: dict[str, list[Time]] = {kind: [] for kind in ("order", "row", "job")}
        for n in range(requests // _ROUND):
            for kind, taken in times.items():
                if n < _COMPARED:
                    taken.append(shop.round(kind))
                elif kind == "job":
                    shop.round(kind, sold_out=True)
    for kind, taken in times.items():
        print(f"  {kind:<6} {_ROUND / statistics.median(each.wall for each in taken):7.0f} requests/s")
    pairs = list(zip(times["row"], times["job"], strict=True))
    wall = statistics.median(row.wall / job.wall for row, job in pairs)
    cpu = statistics.median(row.cpu / job.cpu for row, job in pairs)
    print(
        f"  requests/s with a job, as a ratio to a second row: {wall:.2f}; by this process's CPU time alone {cpu:.2f}"
    )
    shop.check(requests)


class Time(NamedTuple):
    """Seconds that a round took."""

    wall: float
    cpu: float


class _Shop:
    """The example, with two more addresses."""

    def __init__(self, client: Any) -> None:
        from orders.models import Item

        self._client = client
        self._placed = self._refused = 0
        Item.objects.create(name="teapot", stock=10**9)
        Item.objects.create(name="nothing", stock=0)

    @contextmanager
    def served(self) -> Iterator[None]:
        """Add the addresses to compare with: the same view, without a job and with a row in its place."""
        from django.db import transaction
        from django.db.models import F
        from django.http import HttpRequest, JsonResponse
        from django.urls import path
        from orders import urls
        from orders.models import Item, Order

        def place(request: HttpRequest, rows: int) -> JsonResponse:
            with transaction.atomic():
                item, _ = Item.objects.get_or_create(name=request.POST["item"])
                for _ in range(rows):
                    order = Order.objects.create(item=item, email=request.POST["email"])
                Item.objects.filter(pk=item.pk, stock__gt=0).update(stock=F("stock") - 1)
            return JsonResponse({"order": order.pk, "job": ""}, status=201)

        urls.urlpatterns.insert(0, path("rows/<int:rows>/", place))
        yield

    def round(self, kind: str, *, sold_out: bool = False) -> Time:
        """Make a round of requests; with `sold_out`, some of them are rolled back."""
        address = {"order": "/orders/rows/1/", "row": "/orders/rows/2/", "job": "/orders/"}[kind]
        wall, cpu = time.perf_counter(), time.process_time()
        for n in range(_ROUND):
            item = "nothing" if sold_out and n % _SOLD_OUT == 0 else "teapot"
            code = self._client.post(address, {"item": item, "email": "ada@example.com"}).status_code
            if kind == "job":
                self._placed += code == 201
                self._refused += code == 409
        return Time(time.perf_counter() - wall, time.process_time() - cpu)

    def check(self, requests: int) -> None:
        """Check that each request that was answered with 201 has its job, and no other has one."""
        from orders.models import Order

        from holdfast.contrib.django import app

        jobs = sum(count.jobs for count in app.jobs.counts())
        orders = Order.objects.count() - 3 * _ROUND * min(requests // _ROUND, _COMPARED)
        made = f"{self._placed:,} placed, {self._refused:,} rolled back"
        print(f"  {requests:,} requests with an enqueue in atomic(): {made}")
        print(f"  {orders:,} orders and {jobs:,} jobs of them")
        assert jobs == orders == self._placed == requests - self._refused


if __name__ == "__main__":
    main()
