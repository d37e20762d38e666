"""Cursors that were tampered with, of another list, of another tenant: refused, or a right page; no stranger's row."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

import holdfast
from holdfast.errors import CursorExpired, InvalidCursor
from holdfast.model.events import Cursor as EventCursor
from holdfast.model.streams import Cursor as StreamCursor
from holdfast.rules import base64url
from holdfast.web.api.paging import cursor_at, place_at
from tests.chaos.dials import Figure, scaled
from tests.web.web_kit import Site

from .dice import TEXTS, dice, tampered, text
from .pair import Pair

FULL = [pytest.mark.proof, pytest.mark.timeout(0)]
THEM, US = "alpha", "beta"
SECRET = "Zebra"
"""In everything of theirs."""
ROLES = ("operator", "admin")
"""One for each size of the test: a token's name may be in use."""
LISTS = (
    "jobs",
    "flows",
    "signals",
    "webhooks",
    "audit",
    "schedules",
    "budgets",
    "quotas",
    "events",
    "tokens",
    "errors",
)


@pytest.mark.parametrize("count", [400, pytest.param(scaled(6_000), marks=FULL)])
def test_a_cursor_is_read_as_it_was_written_or_refused(count: int, figure: Figure) -> None:
    rng, tried = dice("cursors"), 0
    for _ in range(count):
        for read, good in _good(rng):
            assert read(good) is not None
            for wrong in (*tampered(rng, good), rng.choice(TEXTS)):
                tried += 1
                try:
                    read(wrong)
                except InvalidCursor as error:
                    assert str(error)
        if tried >= count:
            break
    figure(tried, "inputs: cursors")


@pytest.fixture(scope="module")
def two_tenants(pair: Pair) -> Pair:
    """Each tenant has some of everything; theirs has a word in it that nobody else may see."""
    for app in pair:
        for tenant, word in ((THEM, SECRET), (US, "Oak")):
            _furnish(app, tenant, word)
        app.drain(webhooks=False)
    return pair


@pytest.mark.parametrize("rounds", [1, pytest.param(scaled(3), marks=FULL)])
def test_no_cursor_over_http_breaks_a_list_or_shows_what_is_not_ours(
    two_tenants: Pair, rounds: int, figure: Figure
) -> None:
    tried = 0
    with asyncio.Runner() as runner:
        for app in two_tenants:
            site, rng = Site(app, runner, auth="off"), dice("lists")
            ours = site.as_role(ROLES[rounds > 1], tenant=US)
            stranger = site.as_role(ROLES[rounds > 1], tenant=THEM)
            theirs = {path: _cursors(stranger, path) for path in _paths(app, THEM)}
            everybodys = [one for found in theirs.values() for one in found]
            for path in _paths(app, US):
                genuine = _cursors(ours, path)
                for _ in range(rounds):
                    for cursor in _strange(rng, [*genuine, *everybodys]):
                        tried += 1
                        _harmless(ours, path, cursor)
            site.close()
    figure(tried, "inputs: cursors")


@pytest.mark.parametrize("rounds", [5, pytest.param(scaled(60), marks=FULL)])
def test_cursors_of_logs_and_streams_are_answered_or_refused(two_tenants: Pair, rounds: int, figure: Figure) -> None:
    tried = 0
    for app in two_tenants:
        rng, view = dice("logs"), app.scoped(US)
        job = next(one.id for one in app.jobs.find() if one.task == "talk" and one.tenant == US)
        stranger = next(one.id for one in app.jobs.find() if one.task == "talk" and one.tenant == THEM)
        for _ in range(rounds):
            event, frame = app.events.read("start", limit=3)[-1].cursor, view.streams.read(job).frames[-1].cursor
            for cursor in (
                *tampered(rng, event),
                *tampered(rng, frame),
                "999999999999999999-0",
                "0-999999999",
                "7.999999999999999999",
            ):
                tried += 2
                _answered(lambda c=cursor, app=app: app.events.read(c, limit=2))
                _answered(lambda c=cursor, view=view, job=job: view.streams.read(job, after=c))
        with pytest.raises(holdfast.errors.NotFound):
            view.streams.read(stranger)
    figure(tried, "inputs: cursors")


def _good(rng: random.Random) -> list[tuple[Callable[[str], Any], str]]:
    place = (text(rng).replace("\x00", ""), text(rng).replace("\x00", ""))
    return [
        (lambda c: place_at(c, 1), cursor_at(place[:1])),
        (lambda c: place_at(c, 2), cursor_at(place)),
        (EventCursor.parse, str(EventCursor(rng.randrange(10**18), rng.randrange(10**9)))),
        (StreamCursor.read, str(StreamCursor(rng.randrange(10**17), rng.randrange(10**17)))),
    ]


def _furnish(app: holdfast.App, tenant: str, word: str) -> None:
    if "talk" not in app.tasks:

        @app.task(name="talk", max_attempts=1)
        async def talk(ctx: holdfast.Context, word: str) -> str:
            await ctx.emit(word)
            await ctx.emit(word)
            return word

        @app.task(name="wait")
        async def wait(ctx: holdfast.Context, word: str) -> None:
            await ctx.wait_for(await ctx.waitpoint(word, expires=86_400))

    view = app.scoped(tenant)
    for n in range(3):
        view.enqueue(app.tasks["talk"].options(tags=[word]).job(word))
        view.signals.send(view.enqueue(app.tasks["wait"].job(word)).id, f"note {word}", word)
        view.budgets.set(f"{word}-{n}", {"tokens": 5})
        view.quotas.set(f"{word}-{n}", concurrency=2)
        view.schedules.create(f"{word}-{n}", app.tasks["talk"].job(word), cron="0 3 * * *")
        view.webhooks.add(f"https://{word.lower()}.example.com/{n}", reason=word)
        with view.flow(f"{word}-{n}") as flow:
            flow.add(app.tasks["talk"].job(word))
        app.tokens.create(f"{word}-{n}", role="viewer", tenant=tenant, reason=word)


def _paths(app: holdfast.App, tenant: str) -> list[str]:
    waiting = next(one.id for one in app.jobs.find() if one.task == "wait" and one.tenant == tenant)
    said = next(one.id for one in app.jobs.find() if one.task == "talk" and one.tenant == tenant)
    endpoint = app.scoped(tenant).webhooks.list()[0].id
    return [*LISTS, f"jobs/{waiting}/signals", f"jobs/{said}/stream", f"webhooks/{endpoint}/deliveries"]


def _cursors(site: Site, path: str) -> list[str]:
    """Where a list says that it goes on."""
    found, place = [], ""
    for _ in range(3):
        answer = site.call("GET", f"/api/v1/{path}?limit=1{place}")
        following = answer.json().get("next") or answer.json().get("cursor") if answer.status_code == 200 else None
        if not isinstance(following, str):
            break
        found.append(following)
        place = f"&after={quote(following, safe='')}"
    return found


def _strange(rng: random.Random, genuine: list[str]) -> Iterator[str]:
    yield from genuine
    for cursor in rng.sample(genuine, min(3, len(genuine))):
        yield from (one for one in tampered(rng, cursor) if "\ud800" not in one)
    for place in (
        [text(rng)],
        ["a", "b"],
        [],
        [1],
        ["\x00"],
        ["x" * 1_500],
        [["a"]],
        {"a": 1},
        "z",
        None,
        ["\U0010ffff"],
        [""],
        [US, ""],
        [THEM, ""],
    ):
        yield base64url.encode(json.dumps(place).encode())
    yield from ("", "A", "====", "9" * 400, "0-0", "start", "0.0", "999999999999999999-0", "1.1", "-1", "AAAA" * 600)


def _harmless(site: Site, path: str, cursor: str) -> None:
    answer = site.call("GET", f"/api/v1/{path}?after={quote(cursor, safe='')}")
    assert answer.status_code < 500, f"{path}?after={cursor!r}: {answer.status_code} {answer.text[:300]}"
    assert answer.status_code == 200 or answer.json()["error"]["code"], f"{path}?after={cursor!r}: {answer.text[:300]}"
    assert SECRET.lower() not in answer.text.lower().replace(quote(cursor).lower(), ""), (
        f"{path}?after={cursor!r}: {answer.text[:500]}"
    )


def _answered(call: Callable[[], Any]) -> None:
    try:
        call()
    except (InvalidCursor, CursorExpired) as error:
        assert str(error)
