"""Forms that change a queue's settings and limits."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from ...errors import ConfigError, InvalidInput
from ...rules.retry import RetryPolicy
from ..wire.call import Call
from ..wire.operation import Group
from .addresses import queue_path
from .asking import ActForm, Word, number_of, span_of, words_of
from .frame import Done, Page
from .queue import DURATIONS, shows

group = Group("Queue settings", kind="page")


class SettingsForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All settings as text; empty fields reset to the default."""

    timeout: Word = ""
    keep_succeeded: Word = ""
    keep_failed: Word = ""
    keep_cancelled: Word = ""
    keep_expired: Word = ""
    keep_skipped: Word = ""
    keep_result: Word = ""
    cap: Word = ""
    events: Literal["", "off", "outcomes", "all"] = ""
    retry: Annotated[str, msgspec.Meta(max_length=4_000)] = ""


class AtOnceForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A concurrency limit; empty means unlimited."""

    kind: Literal["most", "total"]
    n: Word = ""


@group.post("/queues/{queue}/settings", needs="operate")
async def set_settings(call: Call, queue: str, form: SettingsForm) -> Done | Page:
    """Change the queue's settings."""
    queues = call.whole("a queue's settings").queues
    try:
        changes = changes_of(form)
        before = await queues.aget(queue)
        after = await queues.aset(queue, actor=call.actor, reason=form.reason, **changes)
    except (InvalidInput, ConfigError) as wrong:
        asked = {name: str(value) for name, value in msgspec.structs.asdict(form).items()}
        return Page("queue.html", await shows(call, queue, asked=asked, wrong=words_of(wrong)), 422)
    if before == after:
        return Done(queue_path(queue), "Already set; nothing changed.", ok=False)
    names = [name.replace("_", " ") for name in changes if getattr(before, name) != getattr(after, name)]
    return Done(queue_path(queue), f"Set for {queue}: {', '.join(names)}.")


@group.post("/queues/{queue}/at-once", needs="operate")
async def set_at_once(call: Call, queue: str, form: AtOnceForm) -> Done | Page:
    """Set the queue's concurrency limit."""
    limits = call.whole("a queue's limits").limits
    who = {"actor": call.actor, "reason": form.reason}
    try:
        n = number_of("the concurrency", form.n)
        if form.kind == "total":
            await limits.aset_total(queue, n, **who)
            return Done(
                queue_path(queue), "Total removed." if n is None else f"Concurrency of {n}, split across workers."
            )
        if n is None:
            removed = await limits.aclear_concurrency(queue=queue, **who)
            say = "Limit removed." if removed else "There was no limit; nothing changed."
            return Done(queue_path(queue), say, ok=removed)
        await limits.aset_concurrency(n, queue=queue, **who)
    except InvalidInput as wrong:
        return Done(queue_path(queue), words_of(wrong), ok=False)
    return Done(queue_path(queue), f"Concurrency set to {n}.")


def changes_of(form: SettingsForm) -> dict[str, Any]:
    """Return the settings as the client takes them. InvalidInput names the field that cannot be parsed."""
    spans = {name: span_of(label.lower(), getattr(form, name)) for name, label, _ in DURATIONS}
    cap = number_of("the number of finished jobs to keep", form.cap)
    return {**spans, "cap": cap, "events": form.events or None, "retry": policy_of(form.retry)}


def policy_of(text: str) -> RetryPolicy | None:
    if not text.strip():
        return None
    try:
        return msgspec.json.decode(text, type=RetryPolicy)
    except msgspec.DecodeError as wrong:
        raise InvalidInput(f"invalid retry policy: {wrong}") from wrong
