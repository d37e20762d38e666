"""Pending approvals: each open waitpoint, and each name that a job waits for, with a form for its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import msgspec

from ...errors import Conflict, InvalidInput, NotFound
from ...model.signal import Pending, name_id
from ..wire.call import Call
from ..wire.operation import Group
from .answerforms import Field, form_of, payload_of
from .asking import sentence, words_of
from .frame import Done, Page

group = Group("Approvals", kind="page")

SHOWN: Final = 50
_LOOKED_AT: Final = 1_000
_LETTERS: Final = 100

_Text = Annotated[str, msgspec.Meta(max_length=128)]
_Id = Annotated[str, msgspec.Meta(max_length=257)]
_Answer = Annotated[str, msgspec.Meta(max_length=200_000)]


class ApprovalsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whose, and after which one."""

    tenant: _Text = ""
    after: _Id = ""


class AnswerForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An answer: one value for each field that was asked for, or JSON."""

    job: _Text
    value: list[_Answer] = []
    raw: _Answer = ""
    reason: Annotated[str, msgspec.Meta(max_length=500)] = ""


@dataclass(frozen=True, slots=True)
class Asking:
    """A waitpoint, with the form for its answer, and what was written there if that would not do."""

    pending: Pending
    form: Field
    wrong: str = ""
    values: tuple[str, ...] = ()
    raw: str = ""


@group.get("/approvals", needs="read")
async def show(call: Call, query: ApprovalsQuery) -> Page:
    """What is open, the oldest first."""
    return Page("approvals.html", await _shows(call, query))


@group.post("/approvals/{waitpoint}", needs="signal")
async def answer(call: Call, waitpoint: str, form: AnswerForm) -> Done | Page:
    """Answer one. The second answer is told of the first."""
    found = next((one for one in await _open(call, form.job) if one.id == waitpoint), None)
    if found is None:
        return Done("/approvals", await _over(call, waitpoint, form.job), ok=False)
    try:
        payload = payload_of(form_of(found.schema), form.value, form.raw)
        sent = await call.client.signals.aanswer(waitpoint, payload, actor=call.actor, reason=form.reason)
    except InvalidInput as wrong:
        asked = Asking(found, form_of(found.schema), words_of(wrong), tuple(form.value), form.raw)
        return Page("approvals.html", await _shows(call, ApprovalsQuery(), asked), 422)
    except Conflict as refused:
        return Done("/approvals", sentence(str(refused)), ok=False)
    if sent is None:
        return Done("/approvals", await _over(call, waitpoint, form.job), ok=False)
    went_on = "the job goes on" if sent.effect == "resumed" else "the job takes it when it comes so far"
    return Done("/approvals", f"Answered; {went_on}.")


async def _shows(call: Call, query: ApprovalsQuery, asked: Asking | None = None) -> dict[str, Any]:
    found = await call.client.signals.apending(tenant=query.tenant or None, after=query.after, limit=SHOWN + 1)
    shown = [Asking(one, form_of(one.schema)) for one in found[:SHOWN]]
    if asked is not None:
        others = [one for one in shown if one.pending.id != asked.pending.id]
        shown = [asked, *others]
    more = len(found) > SHOWN
    kept = {"tenant": query.tenant} if query.tenant else {}
    return {
        "page": "approvals",
        "asking": shown,
        "query": query,
        "more": more,
        "next": "/approvals?" + urlencode({**kept, "after": shown[-1].pending.id}) if more else None,
        "first": "/approvals" + (f"?{urlencode(kept)}" if kept else "") if query.after else None,
        "nav_counts": {"approvals": len(shown)} if not query.after and not query.tenant else {},
    }


async def _open(call: Call, job_id: str) -> list[Pending]:
    return await call.client.signals.apending(job_id, limit=_LOOKED_AT) if job_id else []


async def _over(call: Call, waitpoint: str, job_id: str) -> str:
    """Why it takes no answer: most often because somebody was faster."""
    try:
        letters = await call.client.signals.areceived(job_id, limit=_LETTERS)
    except (NotFound, InvalidInput):
        return "There is no such waitpoint, or no longer."
    said = next((letter for letter in letters if waitpoint in (letter.waitpoint, name_id(job_id, letter.name))), None)
    if said is None:
        return "It takes no answer any more: its time is over, or its job has ended."
    return f"It was answered already, by {said.source or 'somebody with its link'}; nothing was changed."
