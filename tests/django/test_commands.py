"""`manage.py holdfast_worker` and `manage.py holdfast`, as programs on the example project."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.django.shop import ROOT, Shop

pytestmark = pytest.mark.timeout(240)
SERVES = "serves default"


@pytest.fixture
def blank_shop(tmp_path: Path) -> Shop:
    """The example before its first `migrate`."""
    return Shop(tmp_path)


def test_a_worker_runs_jobs_on_threads_on_the_loop_and_in_processes(shop: Shop) -> None:
    with (shop.folder / "orders" / "tasks.py").open("a") as tasks:
        tasks.write(PLACES)
    with shop.running("holdfast_worker", "--concurrency", "1", until=SERVES) as worker:
        seen = shop.ask(
            "from orders.tasks import *\n"
            "jobs = [one.enqueue() for one in (on_thread, on_loop, in_process) for _ in range(2)]\n"
            "answer = [job.result(60) for job in jobs]"
        )
        assert seen == [["Europe/Paris", "en-us", 0]] * 6
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0


PLACES = """
from django.utils import translation


def seen(orders: int) -> list:
    found = [str(timezone.get_current_timezone()), translation.get_language(), orders]
    translation.activate("de")  # must not reach the next job
    timezone.activate("Asia/Tokyo")
    return found


@task
def on_thread() -> list:
    return seen(Order.objects.count())


@task
async def on_loop() -> list:
    return seen(await Order.objects.acount())


@task(isolate="process")
def in_process() -> list:
    return seen(Order.objects.count())
"""


@pytest.mark.thorough
def test_several_processes_run_under_a_supervisor(sqlite_shop: Shop) -> None:
    with sqlite_shop.running("holdfast_worker", "--processes", "2", until=SERVES) as supervisor:
        assert sqlite_shop.ask("from orders.tasks import *\nanswer = yearly_report.enqueue(2000).result(60)") == 0
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.wait(60) == 0


@pytest.mark.thorough
def test_a_changed_file_restarts_a_worker_with_reload(sqlite_shop: Shop) -> None:
    with sqlite_shop.running("holdfast_worker", "--reload", until=SERVES) as reloader:
        begin = sqlite_shop.log.stat().st_size
        times = itertools.count(int(time.time()) + 10)
        tasks = sqlite_shop.folder / "orders" / "tasks.py"
        # Again and again: what changes before the reloader's first look is not a change.
        sqlite_shop.await_log(
            "changed; starting the worker again", begin, meanwhile=lambda: os.utime(tasks, (next(times),) * 2)
        )
        sqlite_shop.await_log(SERVES, begin)
        assert sqlite_shop.ask("from orders.tasks import *\nanswer = yearly_report.enqueue(2000).result(60)") == 0
        reloader.send_signal(signal.SIGINT)
        reloader.wait(60)


@pytest.mark.thorough
def test_with_reload_a_worker_that_an_error_ended_starts_again_when_it_is_fixed(sqlite_shop: Shop) -> None:
    tasks = sqlite_shop.folder / "orders" / "tasks.py"
    right = tasks.read_text()
    with sqlite_shop.running("holdfast_worker", "--reload", until=SERVES) as reloader:
        begin = sqlite_shop.log.stat().st_size
        wrong = (f"{right}\ndef broken(:  # {n}\n" for n in itertools.count())
        # Again and again: what changes before the reloader's first look is not a change.
        changed = "changed; starting the worker again"
        sqlite_shop.await_log(changed, begin, meanwhile=lambda: tasks.write_text(next(wrong)))
        sqlite_shop.await_log("SyntaxError", begin)
        sqlite_shop.await_log("it is started again after the next change", begin)
        tasks.write_text(right)
        sqlite_shop.await_log(SERVES, begin)
        reloader.send_signal(signal.SIGINT)
        reloader.wait(60)


def test_a_worker_is_not_started_before_migrate(blank_shop: Shop) -> None:
    said = blank_shop.manage("holdfast_worker", code=2)
    assert re.search(r"lacks \d+ of Holdfast's migrations; run: manage.py migrate holdfast", said)


def test_a_worker_is_not_started_with_wrong_settings(sqlite_shop: Shop) -> None:
    with (sqlite_shop.folder / "shop" / "settings.py").open("a") as settings:
        settings.write('\nHOLDFAST = {"CONCURENCY": 5}\n')
    assert "(holdfast.E002) HOLDFAST has no key 'CONCURENCY'" in sqlite_shop.manage("holdfast_worker", code=2)
    assert "(holdfast.E002)" in sqlite_shop.manage("check", code=1)


def test_wrong_options_are_refused(sqlite_shop: Shop) -> None:
    assert "No such option" in sqlite_shop.manage("holdfast_worker", "--concurency", "3", code=2)


def test_the_other_commands_use_the_projects_store(shop: Shop) -> None:
    job = shop.ask("from orders.tasks import *\nanswer = yearly_report.enqueue(2000).id")
    assert job in shop.manage("holdfast", "jobs", "list", "--settings", "shop.settings")
    call = "from django.core.management import call_command; call_command('holdfast', 'jobs', 'list')"
    assert job in shop.manage("shell", "-c", call)
    assert "no job" in shop.manage("holdfast", "jobs", "show", "01m7qchqs99p57xq0x2czryw9t", code=3)
    app = "holdfast.contrib.django.standalone:app"
    assert job in shop.run("-m", "holdfast", "jobs", "list", "--app", app)


def test_django_is_in_charge_of_the_schema(shop: Shop) -> None:
    for command in ("migrate", "drop"):
        assert "Django manages this schema; run: manage.py migrate holdfast" in shop.manage(
            "holdfast", "db", command, code=2
        )
    app = "holdfast.contrib.django.standalone:app"
    assert "the schema is up to date" in shop.run("-m", "holdfast", "db", "migrate", "--app", app)


def test_the_help_lists_the_options(sqlite_shop: Shop) -> None:
    said = sqlite_shop.manage("holdfast_worker", "--help")
    assert all(option in said for option in ("--concurrency", "--queues", "--processes", "--reload"))
    assert "--store" not in said


def test_the_app_can_be_imported_before_there_are_settings() -> None:
    script = "from holdfast.contrib.django import app, task; import sys; assert 'holdfast.app' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, env={"PYTHONPATH": str(ROOT / "src")})


def test_holdfast_itself_does_not_import_django() -> None:
    script = "import holdfast, sys; holdfast.App(':memory:'); assert 'django' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, env={"PYTHONPATH": str(ROOT / "src")})
