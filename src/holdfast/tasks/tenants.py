"""The current tenant: from a `with` block, from the running job, or from the app.

The first that is set counts, the innermost first: `with holdfast.tenant("acme"):`, the tenant of the running job, the
app's own `tenant=`. Jobs enqueued without a tenant get that one.
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
"""The existing tenants: a collection of names, or a function that checks one."""

_current: Final[ContextVar[str | None]] = ContextVar("holdfast_tenant", default=None)


@block
def tenant(name: str) -> Iterator[str]:
    """Enqueue for that tenant inside this block, in `def` and `async def` code alike.

    A tenant given by a call or `app.scoped(…)` overrides it. In a handler it overrides the job's own tenant.
    """
    before = _current.set(check_name("tenant", name))
    try:
        yield name
    finally:
        _current.reset(before)


class Tenants:
    """The tenants of one app: its default tenant, and the ones that exist."""

    def __init__(self, current: Callable[[], str] | None = None, known: Known | None = None) -> None:
        if isinstance(known, str):
            raise ConfigError("tenants must be a collection of names, or a function that knows them; write {…}")
        self._current = current
        self._known = known if known is None or callable(known) else frozenset(known).__contains__

    def of(self, given: str | None = None) -> str:
        """Return the tenant for a new job, "" for none. Raises UnknownTenant if it does not exist."""
        if given is None:
            given = _current.get()
            if given is None and self._current is not None:
                given = self._current()
        return self.check(given) if given else ""

    def check(self, name: str | None) -> str:
        """Raise UnknownTenant if the app knows its tenants and this is not one of them; no tenant is fine."""
        if not name:
            return ""
        check_name("tenant", name)
        if self._known is not None and not self._known(name):
            raise UnknownTenant(name)
        return name


def work_for(app: Any, name: str, job_id: str) -> None:
    """Set the tenant and creator of a running job in this context. Raises UnknownTenant if the tenant is gone."""
    _current.set(name)
    create_as(f"job:{job_id}")
    known = getattr(app, "_tenants", None)
    if name and known is not None:
        known.check(name)


@contextmanager
def working_for(app: Any, name: str, job_id: str) -> Iterator[None]:
    """Set them for a block, and restore the caller's own afterwards; see `work_for`."""
    before = _current.set(name)
    try:
        with creating_as(f"job:{job_id}"):
            work_for(app, name, job_id)
            yield
    finally:
        _current.reset(before)
