"""How a project's tests behave, shown by tests that are run in the example project."""

from __future__ import annotations

import pytest

from tests.django.shop import Shop

pytestmark = pytest.mark.timeout(240)

TASKS = """

import holdfast


@task(max_attempts=1)
def break_a_rule(name: str) -> None:
    Item.objects.create(name=name)
    Item.objects.create(name=name)


@task
async def in_a_step(ctx: holdfast.Context, name: str) -> int:
    return await ctx.step("count", lambda: Item.objects.filter(name=name).count())


@task
def writes_steps(ctx: holdfast.SyncContext, name: str) -> int:
    return ctx.step("create", lambda: Item.objects.create(name=name).pk)


@task
def enqueues_another(name: str) -> None:
    writes_steps.enqueue(name)


@task(max_attempts=1)
def half_done(name: str) -> None:
    Item.objects.create(name=name)
    raise ValueError(name)
"""

TESTS = """
import logging

from django.db import transaction
from django.test import TestCase, TransactionTestCase

from holdfast.contrib.django import app
from holdfast.contrib.django.testing import JobAssertions, run_jobs
from holdfast.errors import ConfigError, DuplicateJob
from holdfast.testing import isolated
from orders.models import Item
from orders.tasks import break_a_rule, enqueues_another, half_done, in_a_step, send_receipt, writes_steps

logging.disable(logging.WARNING)
try:
    send_receipt.enqueue(1)
except ConfigError as error:
    REFUSED = str(error)
else:
    raise AssertionError("the real database was reached")


class Kept(JobAssertions):
    def test_an_enqueue_while_modules_are_imported_is_refused(self):
        self.assertIn("would reach the project's own", REFUSED)

    def test_an_error_of_the_database_in_a_job_leaves_the_test_usable(self):
        break_a_rule.enqueue("pot")
        self.assertEqual(self.run_jobs().failed, 1)
        Item.objects.create(name="afterwards")

    def test_what_a_failed_job_wrote_stays_as_it_does_in_a_worker(self):
        half_done.enqueue("pot")
        self.assertEqual(self.run_jobs().failed, 1)
        self.assertTrue(Item.objects.filter(name="pot").exists())

    def test_steps_see_the_rows_of_the_test(self):
        Item.objects.create(name="pot")
        job = in_a_step.enqueue("pot")
        self.assertEqual(self.run_jobs().succeeded, 1)
        self.assertEqual(job.result(), 1)
        Item.objects.create(name="afterwards")

    def test_jobs_of_jobs_run_too(self):
        enqueues_another.enqueue("pot")
        self.assertEqual(self.run_jobs().succeeded, 2)
        self.assertTrue(Item.objects.filter(name="pot").exists())

    def test_a_refused_enqueue_leaves_the_test_usable(self):
        once = send_receipt.options(dedupe_key="once", on_duplicate="raise")
        once.enqueue(1)
        with self.assertRaises(DuplicateJob):
            once.enqueue(1)
        self.assertEnqueued(send_receipt, count=1)

    def test_a_missing_job_is_listed(self):
        send_receipt.enqueue(1)
        with self.assertRaisesRegex(AssertionError, "at least one of send_receipt.order_id=2., found 0"):
            self.assertEnqueued(send_receipt.job(2))

    def test_another_store_can_be_used_for_a_while(self):
        with isolated(app):
            send_receipt.enqueue(1)
        self.assertNotEnqueued(send_receipt)


class InATransaction(Kept, TestCase):
    def test_the_tests_own_queries_and_callbacks_are_its_own(self):
        with self.assertNumQueries(0), self.captureOnCommitCallbacks() as callbacks:
            send_receipt.enqueue(1)
        self.assertEqual(callbacks, [])


class Committing(Kept, TransactionTestCase):
    pass
"""


OTHER = """
DATABASES["jobs"] = {**DATABASES["default"], "NAME": f"{DATABASES['default']['NAME']}_jobs"}
HOLDFAST["DATABASE"] = "jobs"
"""
TESTS_OF_TWO = """
from django.db import transaction
from django.test import TestCase, TransactionTestCase

from holdfast.contrib.django.testing import JobAssertions
from holdfast.errors import ConfigError
from orders.tasks import send_receipt


class Kept(JobAssertions):
    databases = {"default", "jobs"}

    def test_a_block_on_another_database_is_refused(self):
        with transaction.atomic(), self.assertRaisesRegex(ConfigError, "would not undo the enqueue"):
            send_receipt.enqueue(1)
        self.assertNotEnqueued(send_receipt)

    def test_a_block_on_both_and_no_block_are_not(self):
        with transaction.atomic(), transaction.atomic(using="jobs"):
            send_receipt.enqueue(1)
        send_receipt.enqueue(2)
        self.assertEnqueued(send_receipt, count=2)


class InATransaction(Kept, TestCase):
    pass


class Committing(Kept, TransactionTestCase):
    pass
"""


def test_with_jobs_in_another_database_tests_refuse_what_the_project_would(shop: Shop) -> None:
    with (shop.folder / "shop" / "settings.py").open("a") as settings:
        settings.write(OTHER)
    (shop.folder / "orders" / "tests" / "test_two.py").write_text(TESTS_OF_TWO)
    assert "Ran 4 tests" in shop.manage("test", "orders.tests.test_two")


def test_a_projects_tests_are_isolated_and_see_their_jobs(shop: Shop) -> None:
    with (shop.folder / "orders" / "tasks.py").open("a") as tasks:
        tasks.write(TASKS)
    (shop.folder / "orders" / "tests" / "test_more.py").write_text(TESTS)
    assert "Ran 17 tests" in shop.manage("test", "orders.tests.test_more")
    real = "from holdfast.contrib.django import app\nanswer = len(app.jobs.find())"
    assert shop.ask(real) == 0, "the project's own database was not touched"
