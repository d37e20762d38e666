"""A transaction of the caller that everything enqueued in a block joins: `with app.within(session):`."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final, Generic, TypeVar, cast

from ..errors import ConfigError, NotInTransaction, StorageUnavailable
from ..storage.foreign import kind_of
from ..tasks.tenants import warn_unentered
from ..telemetry import current_job

C = TypeVar("C")

_innermost: Final[ContextVar[Within[Any] | None]] = ContextVar("holdfast_within", default=None)

innermost: Final = _innermost.get
"""Return the innermost block around the caller; None if there is none."""


class Within(Generic[C]):
    """A block that has a connection, entered once by `with` or `async with`; both give that connection.

    It applies to the code of the block and to copies of its context: tasks, and threads of `asyncio.to_thread`.
    """

    __slots__ = ("_connection", "_ended", "_job", "_open", "_outer", "_store", "_token")

    def __init__(self, open_store: Callable[[], object], connection: C) -> None:
        self._open = open_store
        self._store = open_store()
        self._connection = connection
        self._outer: Within[Any] | None = None
        self._job: object = None
        self._token: Token[Within[Any] | None] | None = None
        # An error below is all that is said of this block.
        self._ended = True
        if connection is not None:
            kind_of(connection)  # TypeError for anything that cannot be joined
        self._ended = False

    def __enter__(self) -> C:
        if self._token is not None:
            raise ConfigError("this app.within(…) was entered before; call it again for each block")
        self._outer = innermost()
        self._job = current_job()
        self._token = _innermost.set(self)
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        assert self._token is not None, "entered"
        self._ended = True
        try:
            _innermost.reset(self._token)
        except ValueError:
            if error is None:
                raise ConfigError(
                    "app.within(…) was entered in one context and left in another, so nothing has joined it; enter it"
                    " in the function that enqueues, or in an async dependency"
                ) from None

    def __del__(self) -> None:
        if self._token is None and not self._ended:
            warn_unentered("app.within")

    async def __aenter__(self) -> C:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, tb)

    def _is_for(self, open_store: Callable[[], object]) -> bool:
        # A handler does not inherit the block in which its worker was started.
        return self._open == open_store and self._job is current_job()

    def _joined(self) -> C:
        if self._store is not self._open() and self._connection is not None:
            raise ConfigError("the app was closed inside this app.within(…) block; close it after the block")
        if self._ended and self._connection is not None:
            raise NotInTransaction(
                "the app.within(…) block in which this task or thread was started has ended; pass connection=, or"
                " enqueue inside app.within(None) to use a transaction of Holdfast's own"
            )
        return self._connection


def joined(open_store: Callable[[], object], given: object | None) -> object | None:
    """Return the connection to write on; None for our own transaction.

    It is the given one, the innermost block's, or that of the transaction that the store itself finds open.
    """
    if given is not None:
        return given
    block = innermost()
    while block is not None and not block._is_for(open_store):
        block = block._outer
    if block is not None:
        return cast(object, block._joined())
    try:
        store = open_store()
    except StorageUnavailable:
        return None  # the call itself finds out, and may be kept for later
    ambient: Callable[[], object | None] | None = getattr(store, "ambient", None)
    return None if ambient is None else ambient()
