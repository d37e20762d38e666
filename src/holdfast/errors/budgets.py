"""Refused amounts, budgets and quotas. Nothing was changed."""

from __future__ import annotations

from .root import Conflict, InvalidInput, NotFound


class InvalidAmount(InvalidInput):
    """An amount that is negative, zero, not finite, too large, or finer than a millionth."""

    code = "invalid_amount"


class UnknownDimension(InvalidInput):
    """The budget has no such dimension."""

    code = "unknown_dimension"

    def __init__(self, budget: str, dimension: str, known: tuple[str, ...]) -> None:
        self.budget = budget
        self.dimension = dimension
        super().__init__(f"budget {budget!r} has no dimension {dimension!r}; it has {', '.join(known) or 'none'}")


class BudgetNotFound(NotFound):
    """There is no such budget."""

    code = "budget_not_found"

    def __init__(self, name: str) -> None:
        super().__init__("budget", name)


class QuotaNotFound(NotFound):
    """There is no such quota."""

    code = "quota_not_found"

    def __init__(self, name: str) -> None:
        super().__init__("quota", name)


class SpendConflict(Conflict):
    """A spend with that key was recorded, with other amounts."""

    code = "spend_conflict"

    def __init__(self, budget: str, key: str) -> None:
        self.budget = budget
        self.key = key
        super().__init__(f"budget {budget!r} has a spend with the key {key!r} and other amounts; use a new key")
