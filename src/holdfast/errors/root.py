"""The root of all errors, and its families."""

from __future__ import annotations

from typing import ClassVar, Final

_ANYWHERE: Final = "check the name and the store"
_WHERE: Final = {
    "job": "check the id and the store, and that the transaction it was enqueued in has been committed",
    "flow": "check the id and the store, and that the transaction it was stored in has been committed",
    "budget": "make it with app.budgets.set or: holdfast budgets set",
    "quota": "make it with app.quotas.set or: holdfast quotas set",
    "rate": "make it with app.rate or: holdfast limits rate",
    "breaker": "make it with app.breaker or: holdfast breakers set",
    "schedule": "holdfast cron list shows those there are",
    "worker": "holdfast workers list shows those there are",
    "token": "holdfast tokens list shows those there are",
    "key": "holdfast keys list shows those there are",
    "queue": "holdfast queues list shows those there are",
}


class HoldfastError(Exception):
    """The root of all errors raised by Holdfast."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False


class ConfigError(HoldfastError):
    """A setting is wrong; nothing has run."""

    code = "config"


class UnknownOption(ConfigError, TypeError):
    """No such option exists; the message says what it is called here."""

    code = "unknown_option"


class MissingExtra(ConfigError, ImportError):
    """A package that this part of Holdfast needs is not installed; the message is the command that installs it."""

    code = "missing_extra"

    PACKAGES: ClassVar[dict[str, tuple[str, ...]]] = {
        "postgres": ("psycopg",),
        "web": ("starlette", "uvicorn", "jinja2", "httpcore2"),
        "otel": ("opentelemetry",),
    }

    @classmethod
    def explains(cls, missing: ImportError, extra: str) -> bool:
        """Return whether an extra would install what could not be imported."""
        return (missing.name or "").partition(".")[0] in cls.PACKAGES[extra]

    def __init__(self, what: str, missing: ImportError, extra: str) -> None:
        package = missing.name or "a package"
        super().__init__(f'{what} needs {package}, which cannot be imported; run: pip install "holdfast[{extra}]"')
        self.name = missing.name


class BlockingCall(HoldfastError, RuntimeError):
    """A wait inside a task, or a blocking wait in an event loop, could last forever. Nothing was awaited."""

    code = "blocking_call"


class NotAwaited(HoldfastError, RuntimeError):
    """A handler never awaited a call of its context; the call was not made, and the job fails."""

    code = "not_awaited"

    def __init__(self, call: str) -> None:
        self.call = call
        name = call.partition("(")[0]
        super().__init__(f"ctx.{call} was never awaited, so it was not done; write: await ctx.{name}(…)")


class NoCurrentJob(HoldfastError, RuntimeError):
    """`holdfast.current()` was called where no job runs."""

    code = "no_current_job"

    def __init__(self, *, ended: bool = False) -> None:
        super().__init__(
            "the job that started this code has ended; await or join what a handler starts before it returns"
            if ended
            else "no job runs here; call holdfast.current() in a handler or below it. A thread that you start yourself"
            " needs the handler's context: contextvars.copy_context().run(…), or asyncio.to_thread"
        )


class InvalidInput(HoldfastError):
    """A value was refused before anything was written."""

    code = "invalid"


class NotFound(HoldfastError):
    """Nothing of that kind has that id."""

    code = "not_found"

    def __init__(self, kind: str, id: str) -> None:
        self.kind = kind
        self.id = id
        super().__init__(f"no {kind} {id!r}; {_WHERE.get(kind, _ANYWHERE)}")


class Conflict(HoldfastError):
    """The stored state forbids this change."""

    code = "conflict"


class QueueFull(HoldfastError):
    """Too many writes are waiting in this process; slow down or retry."""

    code = "queue_full"
    retryable = True
