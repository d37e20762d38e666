"""Tests for pytest with pytest-django. The mark `django_db` gives each its transaction, of which jobs are part."""

import pytest
from django.core import mail
from django.db import connection, transaction
from django.test import Client
from orders.models import Item, Order
from orders.tasks import send_receipt

from holdfast.contrib.django.testing import assert_enqueued, run_jobs


@pytest.fixture
def teapot(db: None) -> Item:
    return Item.objects.create(name="teapot", stock=1)


@pytest.mark.parametrize("time", [1, 2])
def test_an_order_sends_its_receipt_and_leaves_nothing_behind(teapot: Item, client: Client, time: int) -> None:
    assert_enqueued(send_receipt, count=0)
    assert client.post("/orders/", {"item": "teapot", "email": "ada@example.com"}).status_code == 201
    assert run_jobs().succeeded == 1
    assert len(mail.outbox) == 1


def test_a_request_that_rolls_back_leaves_no_job(teapot: Item, client: Client) -> None:
    Item.objects.update(stock=0)
    assert client.post("/orders/", {"item": "teapot", "email": "ada@example.com"}).status_code == 409
    assert_enqueued(send_receipt, count=0)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("time", [1, 2])
def test_a_committed_job_is_gone_after_its_test(time: int) -> None:
    assert_enqueued(send_receipt, count=0)
    with transaction.atomic():
        item = Item.objects.create(name="cup")
        send_receipt.enqueue(Order.objects.create(item=item, email="ada@example.com").pk)
    assert not connection.in_atomic_block
    assert run_jobs().succeeded == 1


def test_without_the_mark_nothing_can_be_enqueued() -> None:
    with pytest.raises(RuntimeError, match="Database access not allowed"):
        send_receipt.enqueue(1)
