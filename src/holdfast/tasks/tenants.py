"""For whom code runs: a tenant from a `with` block, from the job that a handler works on, or from the app.

The first of these that says something counts, the innermost first: `with holdfast.tenant("acme"):`, the tenant of the
running job, the app's own `tenant=`. Whatever is enqueued without a tenant of its own gets that one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

from ..errors import ConfigError, UnknownTenant
from ..names import check_name
from .blocks import block
from .creator import create_as, creating_as

Known: TypeAlias = "Callable[[str], bool] | Collection[str]"
"""Which tenants there are: all of them, or somebody to ask about one."""

_current: Final[ContextVar[str | None]] = ContextVar("holdfast_tenant", default=None)


@block
def tenant(name: str) -> Iterator[str]:
    """What is enqueued in this block is for that tenant, in `def` and `async def` code alike.

    What a call or `app.scoped(…)` says itself stands above it. In a handler it stands above the job's own tenant.
    """
    before = _current.set(check_name("tenant", name))
    try:
        yield name
    finally:
        _current.reset(before)


class Tenants:
    """The tenants of one app: who is meant where nobody is named, and who may be."""

    def __init__(self, current: Callable[[], str] | None = None, known: Known | None = None) -> None:
        if isinstance(known, str):
            raise ConfigError("tenants must be a collection of names, or a function that knows them; write {…}")
        self._current = current
        self._known = known if known is None or callable(known) else frozenset(known).__contains__

    def of(self, given: str | None = None) -> str:
        """The tenant of what is made now, "" for nobody in particular. UnknownTenant if there is no such."""
        if given is None:
            given = _current.get()
            if given is None and self._current is not None:
                given = self._current()
        return self.check(given) if given else ""

    def check(self, name: str | None) -> str:
        """UnknownTenant where the app knows its tenants and this is none of them; nobody in particular is fine."""
        if not name:
            return ""
        check_name("tenant", name)
        if self._known is not None and not self._known(name):
            raise UnknownTenant(name)
        return name


def work_for(app: Any, name: str, job_id: str) -> None:
    """From here on, in this context, a handler works for the tenant of its job; UnknownTenant where it is gone."""
    _current.set(name)
    create_as(f"job:{job_id}")
    known = getattr(app, "_tenants", None)
    if name and known is not None:
        known.check(name)


@contextmanager
def working_for(app: Any, name: str, job_id: str) -> Iterator[None]:
    """The same for a block, where the caller's own context is used."""
    before = _current.set(name)
    try:
        with creating_as(f"job:{job_id}"):
            work_for(app, name, job_id)
            yield
    finally:
        _current.reset(before)
