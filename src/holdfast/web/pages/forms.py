"""Helpers shared by the pages for queues, limits, workers and settings: action forms and their confirmation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import wraps
from typing import Annotated, Any

import msgspec

from ...errors import BeyondScope, Conflict, HoldfastError, InvalidInput, NotFound
from ...rules.actions import JobAction, Parameter
from ...rules.durations import check_span
from ..wire.call import Call
from .frame import Done, Page
from .templates import mount_of

Act = Callable[..., Awaitable[Done | Page]]
Word = Annotated[str, msgspec.Meta(max_length=512)]


class ActForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An action with its reason, and whether the user has confirmed it."""

    reason: Annotated[str, msgspec.Meta(max_length=500)] = ""
    confirmed: Word = ""


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A query without parameters."""


def back_at(path: str) -> Callable[[Act], Act]:
    """Show conflicts, invalid input and what is missing on the page at `path` instead of an error page."""
    return _refusals_at(lambda **_: path, Conflict, InvalidInput, NotFound)


def refusals_at(path: Callable[..., str]) -> Callable[[Act], Act]:
    """Show conflicts and invalid input on a page; `path` returns its address from the arguments of the act."""
    return _refusals_at(path, Conflict, InvalidInput)


def _refusals_at(path: Callable[..., str], *shown: type[HoldfastError]) -> Callable[[Act], Act]:
    def decorate(act: Act) -> Act:
        @wraps(act)
        async def guarded(call: Call, **given: Any) -> Done | Page:
            try:
                return await act(call, **given)
            except BeyondScope:
                raise
            except shown as refused:
                return Done(path(**given), sentence(str(refused)), ok=False)

        return guarded

    return decorate


def ask(call: Call, form: ActForm, *, title: str, text: str, go: str, back: str, **more: Any) -> Page:
    """Return the confirmation page for browsers without script. It submits the same form again."""
    mount = mount_of(call.request.scope)
    given = msgspec.structs.asdict(form)
    kept = [(name, value) for name, value in given.items() if value and name not in ("reason", "confirmed")]
    shows = {"title": title, "text": text, "go": go, "reason": "optional", "danger": False, "page": "", **more}
    return Page("confirm.html", {**shows, "to": call.request.url.path, "fields": kept, "back": mount + back})


def values_of(record: JobAction, form: object) -> dict[str, object]:
    """Parse the parameters of an action from the texts of a form."""
    return {one.name: _value(one, getattr(form, one.name, "")) for one in record.parameters}


def _value(one: Parameter, text: str) -> object:
    what = one.label or one.name
    match one.kind:
        case "flag":
            return bool(text)
        case "priority" | "number":
            return number_of(what, text)
        case "duration" | "delay":
            return span_of(what, text)
        case "instant":
            return _instant(what, text) if text.strip() else None
        case _:
            return text or None


def _instant(what: str, text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidInput(f"{what} is {text!r}; give a date and a time, such as 2026-03-01T06:00") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def span_of(what: str, text: str) -> float | None:
    """Parse a duration such as 30m into seconds; None if empty."""
    return check_span(what, text) if text.strip() else None


def number_of(what: str, text: str) -> int | None:
    """Parse a whole number; None if empty."""
    try:
        return int(text.replace(",", "").replace("\u202f", "")) if text.strip() else None
    except ValueError:
        raise InvalidInput(f"{what} is {text!r}; give a whole number") from None


def wanted_number(what: str, text: str) -> int:
    """Parse a whole number that must be given."""
    found = number_of(what, text)
    if found is None:
        raise InvalidInput(f"{what} is missing; give a whole number")
    return found


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def words_of(error: HoldfastError) -> str:
    return sentence(str(error))
