"""Orders as JSON."""

from asgiref.sync import sync_to_async
from django.db import transaction
from django.db.models import F
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import aget_object_or_404
from django.views.decorators.csrf import csrf_exempt

from .models import Item, Order
from .tasks import send_receipt


class SoldOut(Exception):
    """There is none left."""


@csrf_exempt
def orders(request: HttpRequest) -> HttpResponse:
    """Place an order (POST), or count them."""
    if request.method != "POST":
        return JsonResponse({"orders": Order.objects.count()})
    try:
        order, job = place(request.POST["item"], request.POST["email"])
    except SoldOut:
        return JsonResponse({"error": "sold out"}, status=409)
    return JsonResponse({"order": order.pk, "job": job}, status=201)


@csrf_exempt
async def place_async(request: HttpRequest) -> HttpResponse:
    """Place an order from an async view: a transaction needs sync code, and its enqueue joins it there."""
    try:
        order, job = await sync_to_async(place)(request.POST["item"], request.POST["email"])
    except SoldOut:
        return JsonResponse({"error": "sold out"}, status=409)
    return JsonResponse({"order": order.pk, "job": job}, status=201)


async def order(request: HttpRequest, order_id: int) -> HttpResponse:
    """Show an order."""
    found = await aget_object_or_404(Order, pk=order_id)
    return JsonResponse({"order": found.pk, "receipt_sent": found.receipt_sent})


def place(name: str, email: str) -> tuple[Order, str]:
    """Store an order and its receipt's job together, or neither of them."""
    with transaction.atomic():
        item, _ = Item.objects.get_or_create(name=name)
        order = Order.objects.create(item=item, email=email)
        job = send_receipt.enqueue(order.pk)
        # Last, to show that the job is undone too.
        if not Item.objects.filter(pk=item.pk, stock__gt=0).update(stock=F("stock") - 1):
            raise SoldOut
    return order, job.id
