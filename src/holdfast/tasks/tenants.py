"""The current tenant and the current creator of jobs.

The first tenant that is set counts, the innermost first: `with holdfast.tenant("acme"):`, the tenant of the running
job, the app's own `tenant=`. Jobs enqueued without a tenant get that one.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import _GeneratorContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

from ..errors import ConfigError, UnknownTenant
from ..names import check_name

P = ParamSpec("P")
T = TypeVar("T")

logger: Final = logging.getLogger("holdfast")
_current_creator: Final[ContextVar[str]] = ContextVar("holdfast_creator", default="code")

creator: Final = _current_creator.get
"""Return the creator stored with a new job: the caller of a request, the job that a handler runs, or the program."""
create_as: Final = _current_creator.set
"""Set the creator from here on, in this context."""
Known: TypeAlias = "Callable[[str], bool] | Collection[str]"
"""The existing tenants: a collection of names, or a function that checks one."""

_current: Final[ContextVar[str | None]] = ContextVar("holdfast_tenant", default=None)


class Block(_GeneratorContextManager[T]):
    """A context manager for users that has an effect only inside its `with` block; it warns if that was forgotten."""

    _used = False
    called: str | None = None
    """Name that the user called it by, if another function made it for them."""

    def __enter__(self) -> T:
        self._used = True
        return super().__enter__()

    def _recreate_cm(self) -> Block[T]:
        # Used as a decorator: each call enters a new one.
        self._used = True
        return super()._recreate_cm()

    def __del__(self) -> None:
        if not self._used:
            warn_unentered(self.called or self.func.__name__)


def warn_unentered(name: str) -> None:
    """Warn of a block that was made and dropped without `with`."""
    logger.warning("%s(…) does nothing by itself; write: with %s(…):", name, name)


def block(function: Callable[P, Iterator[T]]) -> Callable[P, Block[T]]:
    """Like `contextlib.contextmanager`, but the result warns if it is dropped without `with`."""

    @functools.wraps(function)
    def make(*args: P.args, **kwargs: P.kwargs) -> Block[T]:
        func: Any = function
        return Block(func, args, kwargs)

    return make


@contextmanager
def creating_as(name: str) -> Iterator[None]:
    """Set the creator inside a `with` block."""
    before = _current_creator.set(name)
    try:
        yield
    finally:
        _current_creator.reset(before)


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


def work_for_none() -> None:
    """Work for no tenant in this context: the jobs of a batch may belong to several."""
    _current.set("")


@contextmanager
def working_for_none() -> Iterator[None]:
    """Work for no tenant in a block; see `work_for_none`."""
    before = _current.set("")
    try:
        yield
    finally:
        _current.reset(before)


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
