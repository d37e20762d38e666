"""Objects of Django as `Any`: it has no types, and those that checkers guess from its source are wrong."""

from __future__ import annotations

from typing import Any, Final

from django.db import connections as _connections
from django.db import transaction

connections: Final[Any] = _connections
atomic: Final[Any] = transaction.atomic
