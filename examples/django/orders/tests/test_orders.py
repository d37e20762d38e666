"""Tests for `manage.py test`. Each runs in a transaction, and its jobs are part of it."""

from datetime import timedelta

from django.core import mail
from django.test import SimpleTestCase, TestCase, TransactionTestCase
from django.utils import timezone

from holdfast.contrib.django import ModelRef, app
from holdfast.contrib.django.testing import JobAssertions, arun_jobs
from orders.models import Item, Order
from orders.tasks import count_stock, forget_old_orders, send_receipt, yearly_report


class PlacingTests(JobAssertions, TestCase):
    def setUp(self) -> None:
        self.item = Item.objects.create(name="teapot", stock=1)

    def place(self, email: str = "ada@example.com") -> int:
        return self.client.post("/orders/", {"item": "teapot", "email": email}).status_code

    def test_an_order_enqueues_its_receipt(self) -> None:
        self.assertEqual(self.place(), 201)
        self.assertEnqueued(send_receipt.job(Order.objects.get().pk), count=1)

    def test_a_request_that_rolls_back_leaves_no_job(self) -> None:
        self.place()
        self.assertEqual(self.place("bob@example.com"), 409)
        self.assertEnqueued(send_receipt, count=1)
        self.assertEqual(Order.objects.count(), 1)

    def test_the_receipt_is_sent_once(self) -> None:
        self.place()
        order = Order.objects.get()
        send_receipt.enqueue(order.pk)
        self.assertEqual(self.run_jobs().succeeded, 2)
        self.assertEqual([message.to for message in mail.outbox], [["ada@example.com"]])

    def test_a_job_for_an_order_that_is_gone_is_retried_later(self) -> None:
        job = send_receipt.enqueue(404)
        self.assertEqual(self.run_jobs().again, 1)
        self.assertEqual(self.run_jobs(at=timezone.now() + timedelta(days=1)).runs, 1)
        self.assertEqual(app.jobs.get(job.id).attempts, 2)

    def test_async_tasks_and_isolated_ones_see_the_rows_of_the_test(self) -> None:
        self.place()
        stock, report = count_stock.enqueue(ModelRef.to(self.item)), yearly_report.enqueue(timezone.now().year)
        self.assertEqual(self.run_jobs().succeeded, 3)
        self.assertEqual((stock.result(), report.result()), (0, 1))

    async def test_async_tests_do_too(self) -> None:
        job = await count_stock.aenqueue(ModelRef.to(self.item))
        self.assertEqual((await arun_jobs()).succeeded, 1)
        self.assertEqual(await job.aresult(), 1)

    def test_old_orders_are_forgotten(self) -> None:
        self.place()
        Order.objects.update(placed=timezone.now() - timedelta(days=4000))
        forget_old_orders.enqueue()
        self.run_jobs()
        self.assertFalse(Order.objects.exists())


class RollbackTests(JobAssertions, TestCase):
    """Whichever runs second finds nothing of the first."""

    def test_the_first(self) -> None:
        self.assertNotEnqueued(send_receipt)
        send_receipt.enqueue(1)

    def test_the_second(self) -> None:
        self.assertNotEnqueued(send_receipt)
        send_receipt.enqueue(2)


class CommittingTests(JobAssertions, TransactionTestCase):
    """These commit; Django empties the tables after each, and Holdfast's with them."""

    def test_the_first(self) -> None:
        self.assertNotEnqueued(count_stock)
        item = Item.objects.create(name="cup", stock=3)
        job = count_stock.enqueue(ModelRef.to(item))
        self.assertEqual(self.run_jobs().succeeded, 1)
        self.assertEqual(job.result(), 3)

    test_the_second = test_the_first


class PlainTests(SimpleTestCase):
    def test_without_a_database_nothing_can_be_enqueued(self) -> None:
        with self.assertRaisesRegex(AssertionError, "not allowed in SimpleTestCase"):
            send_receipt.enqueue(1)
