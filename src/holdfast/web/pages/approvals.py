"""Pending approvals: open waitpoints and signals that jobs wait for, each with a form for the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import msgspec

from ...errors import Conflict, InvalidInput, NotFound
from ...model.signals import Pending, name_id
from ..wire.call import Call
from ..wire.operation import Group
from .answer_forms import Field, form_of, payload_of
from .forms import sentence, words_of
from .frame import Done, Page

group = Group("Approvals", kind="page")

SHOWN: Final = 50
_LOOKED_AT: Final = 1_000
_RECEIVED: Final = 100

_Text = Annotated[str, msgspec.Meta(max_length=128)]
_Id = Annotated[str, msgspec.Meta(max_length=257)]
_Answer = Annotated[str, msgspec.Meta(max_length=200_000)]


class ApprovalsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The tenant, and the position in the list."""

    tenant: _Text = ""
    after: _Id = ""


class AnswerForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An answer: one value per field of the form, or JSON."""

    job: _Text
    value: list[_Answer] = []
    raw: _Answer = ""
    reason: Annotated[str, msgspec.Meta(max_length=500)] = ""


@dataclass(frozen=True, slots=True)
class Asking:
    """A waitpoint with its form, and the rejected input if there was any."""

    pending: Pending
    form: Field
    wrong: str = ""
    values: tuple[str, ...] = ()
    raw: str = ""


@group.get("/approvals", needs="read")
async def show(call: Call, query: ApprovalsQuery) -> Page:
    """Show the pending approvals, oldest first."""
    return Page("approvals.html", await _shows(call, query))


@group.post("/approvals/{waitpoint}", needs="signal")
async def answer(call: Call, waitpoint: str, form: AnswerForm) -> Done | Page:
    """Answer one. A second answer reports the first and changes nothing."""
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
    effect = "the job resumes" if sent.effect == "resumed" else "the job uses the answer when it reaches this point"
    return Done("/approvals", f"Answered; {effect}.")


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
    """Explain why it accepts no answer; usually it has been answered already."""
    try:
        received = await call.client.signals.areceived(job_id, limit=_RECEIVED)
    except (NotFound, InvalidInput):
        return "This waitpoint does not exist or was removed."
    said = next((one for one in received if waitpoint in (one.waitpoint, name_id(job_id, one.name))), None)
    if said is None:
        return "No longer accepting answers: the waitpoint has expired, or its job has finished."
    return f"Already answered by {said.source or 'someone with the link'}; nothing changed."
