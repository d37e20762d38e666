"""A reference to a row of a model, as an argument of a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from django.apps import apps
from django.db import models

from ...errors import InvalidArguments

M = TypeVar("M", bound=models.Model)


# Without slots: `ModelRef[Order](…)` sets an attribute, and the error of a frozen class with slots is a TypeError.
@dataclass(frozen=True)
class ModelRef(Generic[M]):
    """The app label, model and primary key of a row. A task takes it as `order: ModelRef[Order]`.

    `ship.enqueue(ModelRef.to(order))` passes it. The row is read when the task calls `order.get()`, and may have
    changed or gone by then.
    """

    app_label: str
    model: str
    pk: int | str

    @staticmethod
    def to(row: M) -> ModelRef[M]:
        """Return a reference to a row, which must be saved."""
        if not isinstance(row, models.Model):
            raise InvalidArguments(f"ModelRef.to takes a row of a model, not {row!r}")
        if row.pk is None:
            raise InvalidArguments(f"{type(row).__name__} is not saved and has no primary key; save it first")
        pk = row.pk if isinstance(row.pk, int) else str(row.pk)
        meta: Any = type(row)._meta  # pyright: ignore[reportAttributeAccessIssue]
        return ModelRef(meta.app_label, meta.model_name, pk)

    def get(self) -> M:
        """Read the row. Raises the model's DoesNotExist if it is gone."""
        return cast(M, self._rows().get(pk=self.pk))

    async def aget(self) -> M:
        """The async version of `get`."""
        return cast(M, await self._rows().aget(pk=self.pk))

    def _rows(self) -> Any:
        return apps.get_model(self.app_label, self.model)._base_manager
