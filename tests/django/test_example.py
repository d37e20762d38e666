"""The example's own suites pass, in each way that a project runs its tests; its jobs survive kills and restarts."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.django.shop import Shop
from tests.postgres_server import private_server

pytestmark = pytest.mark.timeout(400)
SERVES = "serves default"
SLOWLY = ("--lease", "5", "--concurrency", "2")
ORDERS = 60
PLACE = f"""
from django.test import Client
from orders.models import Item, Order
Item.objects.create(name="teapot", stock={ORDERS})
client = Client(headers={{"host": "localhost"}})
order = {{"item": "teapot", "email": "ada@example.com"}}
codes = [client.post("/orders/", order).status_code for _ in range({ORDERS + 5})]
answer = [codes.count(201), codes.count(409), Order.objects.count()]
"""
COUNT = """
from holdfast.contrib.django import app
from orders.models import Order
jobs = {count.state: count.jobs for count in app.jobs.counts()}
answer = [Order.objects.filter(receipt_sent__isnull=False).count(), jobs]
"""
ADMIN = """
from django.contrib.auth.models import User
from django.test import Client
from orders.tasks import yearly_report
client = Client(headers={"host": "localhost"})
client.force_login(User.objects.create_superuser("root"))
pages = ("", f"{yearly_report.enqueue(2000).id}/change/")
answer = [client.get(f"/admin/holdfast/job/{page}").status_code for page in pages]
"""


def test_manage_py_test_passes_with_and_without_a_kept_database(shop: Shop) -> None:
    assert "Ran 12 tests" in shop.manage("test")
    for _ in range(2):
        assert "OK" in shop.manage("test", "--keepdb", "--parallel", "2")


def test_pytest_passes(shop: Shop) -> None:
    assert "6 passed" in shop.pytest()


@pytest.mark.thorough
@pytest.mark.parametrize("options", [["-n", "2"], ["--reuse-db"], ["--no-migrations"]], ids=" ".join)
def test_pytest_passes_in_parallel_with_a_kept_database_and_without_migrations(shop: Shop, options: list[str]) -> None:
    for _ in range(2):
        assert "6 passed" in shop.pytest(*options)


def test_requests_that_roll_back_leave_no_job_and_a_killed_worker_loses_none(shop: Shop) -> None:
    assert shop.ask(PLACE) == [ORDERS, 5, ORDERS]
    assert shop.ask(COUNT) == [0, {"ready": ORDERS}]
    with shop.running("holdfast_worker", *SLOWLY, until="(send_receipt) succeeded") as worker:
        worker.kill()
    with shop.running("holdfast_worker", *SLOWLY, until=SERVES):
        await_receipts(shop)


@pytest.mark.thorough
def test_a_restart_of_postgres_loses_no_job(tmp_path: Path) -> None:
    with private_server() as server:
        shop = Shop(tmp_path, server.dsn)
        shop.manage("migrate")
        assert shop.ask(PLACE) == [ORDERS, 5, ORDERS]
        with shop.running("holdfast_worker", *SLOWLY, until="(send_receipt) succeeded") as worker:
            server.stop(signal.SIGQUIT)
            server.start()
            await_receipts(shop)
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(60) == 0


def await_receipts(shop: Shop) -> None:
    deadline = time.monotonic() + 120
    while (found := shop.ask(COUNT)) != [ORDERS, {"succeeded": ORDERS}]:
        assert time.monotonic() < deadline, (found, shop.log.read_text()[-4000:])
        time.sleep(0.2)


def test_it_needs_no_package_for_djangos_tasks_framework(shop: Shop) -> None:
    """Before Django 6.0 that is django-tasks, which is installed here."""
    missing = 'raise ModuleNotFoundError("No module named \'django_tasks\'", name="django_tasks")\n'
    (shop.folder / "django_tasks.py").write_text(missing)
    shop.manage("check")
    assert shop.ask(ADMIN) == [200, 200]
