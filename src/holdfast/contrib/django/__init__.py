"""Holdfast in a Django project: a durable queue in the project's own database.

Add "holdfast.contrib.django" to INSTALLED_APPS and run `manage.py migrate`. Then, in the `tasks.py` of any app:

    from holdfast.contrib.django import task

    @task(max_attempts=3)
    def send_receipt(order_id: int) -> None: ...

Inside `transaction.atomic()` an enqueue is part of that transaction.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from django.utils.functional import SimpleLazyObject

if TYPE_CHECKING:
    from .backend import HoldfastBackend
    from .model_ref import ModelRef
    from .project import DjangoApp

    app = DjangoApp()
    task = app.task
else:
    # Made at its first use, so that this module can be imported before the settings are ready.
    app = SimpleLazyObject(lambda: import_module(".project", __package__).shared_app())

    def task(*function: Any, **options: Any) -> Any:
        """Make a function a task of the shared app, as `app.task` does."""
        return app.task(*function, **options)


__all__ = ["HoldfastBackend", "ModelRef", "app", "task"]

_LATER: Final = {"HoldfastBackend": "backend", "ModelRef": "model_ref"}
"""Names that need Django's settings or models, by the module that has them."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_LATER[name]}", __package__), name)
