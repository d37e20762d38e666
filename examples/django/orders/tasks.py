"""The shop's jobs. Holdfast finds them here."""

from datetime import timedelta

from django.core.mail import send_mail
from django.utils import timezone

from holdfast.contrib.django import ModelRef, app, task

from .models import Item, Order


@task(max_attempts=5, timeout=30)
def send_receipt(order_id: int) -> str:
    """Send a receipt. A repeated run finds that it was sent."""
    order = Order.objects.select_related("item").get(pk=order_id)
    if order.receipt_sent is None:
        send_mail("Your order", f"Thank you for ordering {order.item}.", "shop@example.com", [order.email])
        order.receipt_sent = timezone.now()
        order.save(update_fields=["receipt_sent"])
    return order.email


@task
async def count_stock(item: ModelRef[Item]) -> int:
    """Return how many of an item are left."""
    return (await item.aget()).stock


@task(isolate="process", timeout=60)
def yearly_report(year: int) -> int:
    """Count a year's orders in a process of its own, where its memory is given back at the end."""
    return Order.objects.filter(placed__year=year).count()


@app.cron("0 3 * * *", zone="Europe/Paris")
def forget_old_orders() -> int:
    """Delete orders of more than ten years ago, every night."""
    deleted, _ = Order.objects.filter(placed__lt=timezone.now() - timedelta(days=3650)).delete()
    return deleted
