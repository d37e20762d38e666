"""Approvals: a form for each open waitpoint, made from its type, and what an answer does."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any, Literal
from urllib.parse import quote

import msgspec
import pytest

import holdfast
from holdfast.errors import InvalidInput
from holdfast.model.values import decoded
from holdfast.rules.schemas import schema_of
from holdfast.web.pages.answer_forms import form_of, payload_of

from .browse_kit import HOSTILE, page, said, shown, submit
from .form_kit import live_parts
from .web_kit import Site


class Grade(Enum):
    GOLD = "gold"
    TIN = "tin"


class Review(msgspec.Struct):
    grade: Grade
    amount: int
    express: bool
    note: str = ""
    tags: list[str] = []


TYPES: dict[str, Any] = {
    "bool": bool, "grade": Literal["gold", "tin"], "amount": int, "text": str, "review": Review, "any": None,
}  # fmt: skip


@pytest.fixture(autouse=True)
def ask(app: holdfast.App) -> None:
    @app.task
    async def ask(ctx: holdfast.Context, kind: str = "bool", name: str = "approval") -> object:
        place = await ctx.waitpoint(name, expires=3600, type=TYPES[kind])
        return await ctx.wait_for(place, timeout=3600)


def waiting(
    app: holdfast.App, kind: str = "bool", *, tenant: str | None = None, name: str = "approval"
) -> tuple[str, str]:
    """A job that waits, and its waitpoint."""
    job = app.enqueue(app.tasks["ask"].job(kind, name), tenant=tenant)
    app.drain()
    return job.id, app.signals.pending(job.id)[0].id


def result(app: holdfast.App, job: str) -> Any:
    app.drain()
    return json.loads(app.jobs.get(job).result or "null")


def test_where_nobody_waits_the_page_says_how_a_job_would(site: Site, app: holdfast.App) -> None:
    assert "No pending approvals" in page(site, "/approvals")


def test_a_yes_or_no_is_two_buttons_with_who_asks_and_until_when(site: Site, app: holdfast.App) -> None:
    job, place = waiting(app, tenant="acme")
    text = shown(site, "/approvals")
    assert ">Approve<" in text.replace("</svg>Approve", ">Approve")
    assert "Reject" in text
    assert f'action="/approvals/{place}"' in text
    assert f"/jobs/{job}" in text
    assert '{"kind":"bool","name":"approval"}' in text
    assert "Expires" in text
    assert live_parts(site, "/approvals") == 1


def test_an_answer_lets_the_job_go_on_and_is_audited(site: Site, app: holdfast.App) -> None:
    job, place = waiting(app)
    operator = site.as_role("operator")
    assert "the job resumes" in said(submit(operator, f"/approvals/{place}", job=job, value="yes", reason="fine"))
    assert result(app, job) is True
    entry = next(entry for entry in app.audit.list() if entry.action == "job.answer")
    assert (entry.actor, entry.target, entry.reason) == ("token:operator-all", job, "fine")
    assert app.signals.received(job)[0].source == "token:operator-all"


def test_a_job_that_waits_for_a_name_is_answered_like_one_with_a_waitpoint(site: Site, app: holdfast.App) -> None:
    @app.task
    async def listen(ctx: holdfast.Context, name: str) -> object:
        return await ctx.wait_for(name, type=bool)

    operator = site.as_role("operator")
    for name in ("approval", "legal/approval, of all"):
        job = listen.enqueue(name).id
        app.drain()
        text = shown(site, "/approvals")
        assert ">Approve<" in text.replace("</svg>Approve", ">Approve")
        assert "never" in text
        path = f"/approvals/{quote(f'{job},{name}', safe='')}"
        assert "the job resumes" in said(submit(operator, path, job=job, value="yes", reason="fine"))
        assert result(app, job) is True
        assert "Already answered by token:operator-all" in said(submit(operator, path, job=job, value="no"))


def test_a_second_answer_says_who_was_first_and_changes_nothing(site: Site, app: holdfast.App) -> None:
    job, place = waiting(app)
    first, second = site.as_role("operator"), site.as_role("admin")
    submit(first, f"/approvals/{place}", job=job, value="no")
    answer = said(submit(second, f"/approvals/{place}", job=job, value="yes"))
    assert "Already answered by token:operator-all" in answer
    assert '"ok": false' in answer
    assert len(app.signals.received(job)) == 1
    assert result(app, job) is False
    assert "Already answered" in said(submit(second, f"/approvals/{place}", job=job, value="yes"))


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("bool", {"value": "no"}, False),
        ("grade", {"value": "1"}, "tin"),
        ("amount", {"value": str(2**60 + 1)}, 2**60 + 1),
        ("text", {"value": " as is "}, " as is "),
        ("any", {"raw": '{"free": [1, 2]}'}, {"free": [1, 2]}),
        (
            "review",
            {"value": ["0", "12", "yes", "", ""]},
            {"grade": "gold", "amount": 12, "express": True},
        ),
        (
            "review",
            {"value": ["1", "7", "no", "well", '["a"]']},
            {"grade": "tin", "amount": 7, "express": False, "note": "well", "tags": ["a"]},
        ),
    ],
)
def test_a_form_gives_the_job_what_its_type_asks_for(
    site: Site, app: holdfast.App, kind: str, given: dict[str, Any], expected: Any
) -> None:
    job, place = waiting(app, kind)
    page(site, "/approvals")
    assert "Answered" in said(submit(site, f"/approvals/{place}", job=job, **given))
    assert result(app, job) == expected


@pytest.mark.parametrize(
    ("kind", "given", "complaint"),
    [
        ("bool", {"value": "perhaps"}, "choose yes or no"),
        ("grade", {"value": "9"}, "choose one of gold, tin"),
        ("amount", {"value": "a lot"}, "whole number"),
        ("any", {"raw": "{"}, "not valid JSON"),
        ("review", {"value": ["0", "", "yes", "", ""]}, "amount"),
        ("review", {"value": ["0", "1"]}, "expected input has changed"),
    ],
)
def test_an_answer_that_does_not_fit_is_said_beside_the_form_and_the_waitpoint_stays_open(
    site: Site, app: holdfast.App, kind: str, given: dict[str, Any], complaint: str
) -> None:
    job, place = waiting(app, kind)
    answer = submit(site, f"/approvals/{place}", job=job, **given)
    assert answer.status_code == 422
    assert complaint in answer.text
    assert [one.id for one in app.signals.pending(job)] == [place]


def test_a_viewer_sees_who_waits_but_neither_arguments_nor_buttons(site: Site, app: holdfast.App) -> None:
    job, place = waiting(app, name="secret-plan")
    viewer = site.as_role("viewer")
    text = shown(viewer, "/approvals")
    assert "secret-plan" in text
    assert '"kind"' not in text
    assert "<form" not in text.partition('data-live-id="asking"')[2].partition("</main>")[0]
    assert submit(viewer, f"/approvals/{place}", job=job, value="yes").status_code == 403
    assert len(app.signals.pending(job)) == 1


def test_hostile_names_and_arguments_stay_text(site: Site, app: holdfast.App) -> None:
    waiting(app, name=HOSTILE)
    text = page(site, "/approvals")
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


def test_a_tenant_answers_its_own_alone(site: Site, app: holdfast.App) -> None:
    (job, place), (theirs, other) = waiting(app, tenant="acme"), waiting(app, tenant="globex")
    acme = site.as_role("operator", tenant="acme")
    text = page(acme, "/approvals")
    assert place in text
    assert other not in text
    assert "waitpoint does not exist" in said(submit(acme, f"/approvals/{other}", job=theirs, value="yes"))
    assert len(app.signals.pending(theirs)) == 1
    assert "the job resumes" in said(submit(acme, f"/approvals/{place}", job=job, value="yes"))


def test_what_waits_is_listed_page_by_page(site: Site, app: holdfast.App) -> None:
    for _ in range(51):
        app.enqueue(app.tasks["ask"].job())
    app.drain()
    places = [one.id for one in app.signals.pending(limit=100)]
    first = page(site, "/approvals")
    assert sum(place in first for place in places) == 50
    assert places[50] in page(site, f"/approvals?after={places[49]}")


def test_forms_are_made_from_types() -> None:
    assert form_of(decoded(schema_of(bool))).kind == "boolean"
    assert form_of(decoded(schema_of(Grade))).choices == ("gold", "tin")
    assert form_of(decoded(schema_of(int))).kind == "integer"
    assert form_of(decoded(schema_of(float))).kind == "number"
    review = form_of(decoded(schema_of(Review)))
    assert [(one.name, one.kind, one.required) for one in review.fields] == [
        ("grade", "choice", True), ("amount", "integer", True), ("express", "boolean", True),
        ("note", "string", False), ("tags", "json", False),
    ]  # fmt: skip
    assert form_of(None).kind == "json"
    assert form_of(decoded(schema_of(list[int]))).kind == "json"
    optional = form_of(decoded(schema_of(int | None)))
    assert (optional.kind, optional.nullable, payload_of(optional, [""], "")) == ("integer", True, None)


@pytest.mark.parametrize(
    "schema",
    ["", "[]", "{", '{"$ref": "#"}', '{"$ref": "#/$defs/x"}', '{"enum": [{"a": 1}]}', '{"anyOf": [{"anyOf": []}]}',
     '{"type": "object", "properties": {"a": 3, "b": {"$ref": 7}}}', '{"title": 5, "type": ["string", "null"]}'],
)  # fmt: skip
def test_no_schema_breaks_the_page(schema: str) -> None:
    form = form_of(decoded(schema))
    assert form.kind in ("json", "object", "choice")
    if form.kind == "json":
        assert payload_of(form, [], "[1]") == [1]
        with pytest.raises(InvalidInput):
            payload_of(form, [], "[")
