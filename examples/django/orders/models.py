"""What the shop sells, and what was ordered."""

from django.db import models


class Item(models.Model):
    """Something to buy, with the number that is left."""

    name = models.CharField(max_length=50, unique=True)
    stock = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return self.name


class Order(models.Model):
    """An order of one item. `receipt_sent` is set once, by the job that sends the receipt."""

    item = models.ForeignKey(Item, on_delete=models.PROTECT)
    email = models.EmailField()
    placed = models.DateTimeField(auto_now_add=True)
    receipt_sent = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.item} for {self.email}"
