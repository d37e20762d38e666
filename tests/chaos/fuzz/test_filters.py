"""Filters and searches on both stores, against a plain look at every job."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest

import holdfast
from holdfast.errors import InvalidInput
from holdfast.model import JobFilter
from holdfast.model.jobs import JobRecord, JobState
from holdfast.web.search.finding import find, find_ids
from holdfast.web.search.meaning import filter_of, matches
from holdfast.web.search.query import parse
from tests.chaos.dials import Figure, scaled
from tests.web.web_kit import Site

from .dice import TEXTS, dice, text
from .pair import Pair
from .population import TAGS, TENANTS, populate

FULL = [pytest.mark.proof, pytest.mark.timeout(0)]


@pytest.fixture(scope="module")
def peopled(pair: Pair) -> dict[str, list[JobRecord]]:
    """Some hundred jobs in every state, the same on both stores; all of them, newest first."""
    for app in pair:
        populate(app)
    return {
        kind: app.jobs.find(JobFilter(limit=10_000))
        for kind, app in (("sqlite", pair.sqlite), ("postgres", pair.postgres))
    }


def test_both_stores_were_given_the_same_jobs_in_every_state(peopled: dict[str, list[JobRecord]]) -> None:
    said = [[(job.id, job.state, job.queue, job.tags, job.attempts) for job in jobs] for jobs in peopled.values()]
    assert said[0] == said[1]
    assert {job.state for job in peopled["sqlite"]} >= set(JobState) - {JobState.EXPIRED, JobState.SKIPPED}


@pytest.mark.parametrize("count", [60, pytest.param(scaled(600), marks=FULL)])
def test_a_filter_finds_what_a_plain_look_finds(
    pair: Pair, peopled: dict[str, list[JobRecord]], count: int, figure: Figure
) -> None:
    for kind, app in (("sqlite", pair.sqlite), ("postgres", pair.postgres)):
        rng = dice("filters")
        for _ in range(count):
            wanted = filtered(rng, rng.choice(peopled[kind]))
            expected = [job.id for job in in_order(peopled[kind], wanted) if fits(job, wanted)][: wanted.limit]
            assert [job.id for job in app.jobs.find(wanted)] == expected, f"{kind}: {wanted}"
            assert [job.id for job in _paged(app, wanted)][: wanted.limit] == expected, f"{kind}: pages of {wanted}"
    figure(2 * count, "inputs: filters and searches")


@pytest.mark.parametrize("count", [40, pytest.param(scaled(350), marks=FULL)])
def test_a_search_line_finds_what_a_plain_look_finds(
    pair: Pair, peopled: dict[str, list[JobRecord]], count: int, figure: Figure
) -> None:
    with asyncio.Runner() as runner:
        for kind, app in (("sqlite", pair.sqlite), ("postgres", pair.postgres)):
            rng = dice("lines")
            for _ in range(count):
                runner.run(_searched(app, peopled[kind], line(rng, rng.choice(peopled[kind]))))
    figure(2 * count, "inputs: filters and searches")


@pytest.mark.parametrize("count", [40, pytest.param(scaled(500), marks=FULL)])
def test_nonsense_over_http_is_refused_or_answered_but_never_breaks(pair: Pair, count: int, figure: Figure) -> None:
    with asyncio.Runner() as runner:
        for app in pair:
            rng, site = dice("queries"), Site(app, runner, auth="off")
            for _ in range(count):
                path = rng.choice(
                    ("/api/v1/jobs", "/api/v1/flows", "/api/v1/errors", "/api/v1/events", "/api/v1/audit", "/jobs")
                )
                names = (
                    "q",
                    "queue",
                    "tag",
                    "state",
                    "text",
                    "id",
                    "limit",
                    "after",
                    "created_after",
                    "priority",
                    "older_than",
                )
                said = "&".join(f"{rng.choice(names)}={_quoted(rng)}" for _ in range(rng.randint(1, 3)))
                answer = site.call("GET", f"{path}?{said}")
                assert answer.status_code < 500, f"{path}?{said}: {answer.status_code} {answer.text[:300]}"
            site.close()
    figure(2 * count, "inputs: filters and searches")


def filtered(rng: random.Random, like: JobRecord) -> JobFilter:
    """A filter that asks for some of what a job is, and now and then for what none is."""
    ask: dict[str, Callable[[], Any]] = {
        "queue": lambda: like.queue, "task": lambda: like.task, "tenant": lambda: rng.choice((like.tenant or "acme",
        *TENANTS)),
        "reason": lambda: like.reason or "retry", "id": lambda: like.id[: rng.randint(1, 26)],
        "worker": lambda: like.owner or "x",
        "tag": lambda: rng.choice(TAGS), "text": lambda: rng.choice(("1", "boom", '"', "%", "_", "é", "zzz",
        like.payload[:9])),
        "priority": lambda: like.priority, "min_attempts": lambda: rng.randint(0, 3), "flow": lambda: like.flow or "x",
        "created_by": lambda: rng.choice((like.created_by, "token:none")),
        "created_after": lambda: like.created_at + rng.randint(-1, 1),
        "created_before": lambda: like.created_at + rng.randint(-1, 1),
        "finished_after": lambda: (like.finished_at or 5) + rng.randint(-1, 1), "older_than": lambda: rng.choice((0,
        10**15)),
        "finished_before": lambda: (like.finished_at or 5) + rng.randint(-1, 1),
        "before": lambda: like.id + rng.choice(("", "a")), "order": lambda: "ended",
    }  # fmt: skip
    chosen = {name: ask[name]() for name in rng.sample(sorted(ask), rng.randint(0, 3))}
    if rng.random() < 0.2:
        chosen[rng.choice(("queue", "task", "tag", "id", "text"))] = rng.choice(
            [one for one in TEXTS if _is_storable(one)]
        )
    if "order" in chosen and "before" in chosen:
        chosen["before"] = f"{(like.finished_at or 5) + rng.randint(-1, 1)}:{chosen['before']}"
    states: dict[str, Any] = {"state": str(like.state)} if rng.random() < 0.3 else {}
    if not states and rng.random() < 0.2:
        states = {"states": tuple(map(str, rng.sample(sorted(JobState), rng.randint(1, 4))))}
    return JobFilter(**chosen, **states, limit=rng.choice((1, 3, 50, 1_000)))


def fits(job: JobRecord, wanted: JobFilter) -> bool:
    """The filter as its documentation has it."""
    ended, tags = job.finished_at, [] if job.tags is None else json.loads(job.tags)
    same = ((wanted.state, str(job.state)), (wanted.queue, job.queue), (wanted.task, job.task), (wanted.tenant,
    job.tenant),
            (wanted.reason, job.reason), (wanted.flow, job.flow), (wanted.worker, job.owner), (wanted.priority,
            job.priority), (wanted.created_by, job.created_by))  # fmt: skip
    return (
        all(asked is None or asked == found for asked, found in same)
        and (wanted.states is None or str(job.state) in wanted.states)
        and (wanted.id is None or job.id.startswith(wanted.id))
        and (wanted.tag is None or wanted.tag in tags)
        and (wanted.text is None or wanted.text in job.payload or (job.error is not None and wanted.text in job.error))
        and (wanted.min_attempts is None or job.attempts >= wanted.min_attempts)
        and (wanted.created_after is None or job.created_at >= wanted.created_after)
        and (wanted.created_before is None or job.created_at < wanted.created_before)
        and (wanted.finished_after is None or (ended is not None and ended >= wanted.finished_after))
        and (wanted.finished_before is None or (ended is not None and ended < wanted.finished_before))
        and (wanted.older_than is None or (ended is not None and wanted.older_than == 0))
        and (wanted.order == "created" or ended is not None)
        and (wanted.before is None or _is_behind(job, wanted))
    )


def _is_behind(job: JobRecord, wanted: JobFilter) -> bool:
    assert wanted.before is not None
    if wanted.order == "created":
        return job.id < wanted.before
    end, _, id = wanted.before.partition(":")
    return job.finished_at is not None and (job.finished_at, job.id) < (int(end), id)


def in_order(jobs: list[JobRecord], wanted: JobFilter) -> list[JobRecord]:
    """The jobs, newest first, as the filter orders them."""
    if wanted.order == "created":
        return jobs
    return sorted(jobs, key=lambda job: (job.finished_at or 0, job.id), reverse=True)


def line(rng: random.Random, like: JobRecord) -> str:
    """A line of the search language, or something like one."""
    if rng.random() < 0.15:
        return text(rng, 30) + rng.choice(TEXTS[:60])
    at, side = datetime.fromtimestamp(like.created_at / 1e6, UTC), rng.choice(("", ">", "<", ">=", "<="))
    terms = (
        f"queue:{_in_quotes(like.queue)}", f"task:{like.task}", f"state:{like.state}", f"tag:{rng.choice(TAGS)}",
        f"priority:{side}{like.priority}", f"attempts:{side}{rng.randint(0, 3)}", "tenant:acme", "took:<1d", "took:>1h",
        f"since:{at:%Y-%m-%dT%H:%M:%S}+00:00", "since:1h", "until:1h", "boom", '"a b"', like.id[:20], "zzz",
        f"reason:{like.reason or 'retry'}", f"worker:{like.owner or 'x'}", f"flow:{like.flow or 'x'}", "state:lost",
        "queue:", 'x"y',
    )  # fmt: skip
    return " ".join(rng.sample(terms, rng.randint(1, 3)))


async def _searched(app: holdfast.App, everybody: list[JobRecord], said: str) -> None:
    try:
        search = parse(said)
    except InvalidInput as refused:
        assert str(refused)
        return
    now = int(datetime.now(UTC).timestamp() * 1e6)
    try:
        found = await find(app.jobs, search, now, before=None, limit=1_000, payload=True)
    except InvalidInput as refused:
        assert str(refused)
        return
    plain = [job for job in everybody if fits(job, filter_of(search, now)) and matches(job, search, now, payload=True)]
    assert [job.id for job in found.jobs] == [job.id for job in plain], f"{app.config.store}: {said!r}"
    ids, whole = await find_ids(app.jobs, search, now, payload=True, most=10_000)
    assert whole and ids == [job.id for job in plain]


def _paged(app: holdfast.App, wanted: JobFilter) -> Iterator[JobRecord]:
    while True:
        page = app.jobs.search(wanted)
        yield from page.jobs
        if page.next is None or len(page.jobs) >= wanted.limit:
            return
        wanted = replace(wanted, before=page.next)


def _in_quotes(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _quoted(rng: random.Random) -> str:
    given = rng.choice(
        (rng.choice(TEXTS), text(rng), "2026-11-15T09:00:00Z", "99999999999999999999", "1e400", "-1", "null", "ready")
    )
    return quote(given.encode("utf-8", "surrogatepass"), safe=rng.choice(("", "%&=")))


def _is_storable(name: str) -> bool:
    return "\x00" not in name and not any("\ud800" <= c <= "\udfff" for c in name)
