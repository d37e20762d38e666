"""Signals from a program: by name, by token, in its own transaction, and how quickly a job hears of it."""

from __future__ import annotations

import asyncio
from contextlib import closing
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from holdfast import Context, InvalidInput, NotFound
from holdfast.errors import InvalidToken, JobEnded, PayloadMismatch, PayloadTooLarge
from tests.patience import SOON

from .worker_kit import Shop, live


def asks(shop: Shop) -> tuple[Any, list[str]]:
    """A task that asks for approval, and the tokens that it has mailed."""
    mailed: list[str] = []

    async def mail(token: str) -> None:
        mailed.append(token)

    @shop.app.task(name="asks")
    async def asks(ctx: Context) -> bool:
        place = await ctx.waitpoint("approval", expires=3600, type=bool)
        await ctx.step("mail", mail, place.token)
        return await ctx.wait_for(place, type=bool)

    return asks, mailed


async def suspended(shop: Shop, job: Any) -> Any:
    return await shop.until(job, lambda record: record.state == "suspended")


@live
async def test_whoever_has_the_token_answers_once(shop: Shop) -> None:
    task, mailed = asks(shop)
    async with shop.working():
        job = await task.aenqueue()
        await suspended(shop, job)
        (token,) = mailed
        (place,) = await shop.app.signals.apending()
        assert (place.job_id, place.name, place.schema, place.awaited) == (
            job.id,
            "approval",
            {"type": "boolean"},
            True,
        )
        with pytest.raises(PayloadMismatch):
            await shop.app.asignal(token, payload="yes")
        sent = await shop.app.asignal(token, payload=True)
        assert (sent.job_id, sent.effect) == (job.id, "resumed")
        assert await job.aresult(SOON) is True
        with pytest.raises(InvalidToken) as used:
            await shop.app.asignal(token, payload=True)
        with pytest.raises(InvalidToken) as forged:
            await shop.app.asignal("v1.x.y.z", payload=True)
        assert str(used.value) == str(forged.value)
    assert mailed == [token]
    assert await shop.app.signals.arefused() == 2


@live
async def test_a_step_that_has_the_token_is_not_repeated_and_the_token_is_the_same_after_a_crash(shop: Shop) -> None:
    tokens: list[str] = []

    @shop.app.task(max_attempts=3, retry=None)
    async def asks(ctx: Context) -> str:
        place = await ctx.waitpoint("approval", expires=3600)
        tokens.append(place.token)
        return await ctx.wait_for(place, type=str)

    async with shop.working():
        job = await asks.aenqueue()
        await suspended(shop, job)
        await shop.app.asignal(tokens[0], payload="yes")
        assert await job.aresult(SOON) == "yes"
    assert len(tokens) == 2
    assert len(set(tokens)) == 1


@live
async def test_text_from_outside_is_never_taken_for_a_job_id(shop: Shop) -> None:
    task, _ = asks(shop)
    async with shop.working():
        job = await task.aenqueue()
        await suspended(shop, job)
        with pytest.raises(InvalidToken):
            await shop.app.asignal(job.id, payload=True)
        with pytest.raises(InvalidInput, match="name"):
            await shop.app.asignal(job, payload=True)
        assert (await job.astatus()).state == "suspended"


def test_a_signal_to_what_is_no_job_is_refused(small_shop: Shop) -> None:
    for target in (None, 5):
        with pytest.raises(InvalidInput, match="must be text"):
            small_shop.app.signal(target, "approval")  # type: ignore[arg-type]


@live
async def test_a_signal_to_a_job_that_has_ended_is_an_error_that_says_so(shop: Shop) -> None:
    @shop.app.task
    async def quick() -> None: ...

    async with shop.working():
        job = await quick.aenqueue()
        await job.aresult(SOON)
        with pytest.raises(JobEnded, match="succeeded"):
            await shop.app.asignal(job, "anything")
    with pytest.raises(NotFound):
        await shop.app.asignal("nobody", "anything")


@pytest.mark.parametrize(
    ("name", "fields", "error"),
    [
        ("", {}, InvalidInput),
        ("x" * 200, {}, InvalidInput),
        ("a\nb", {}, InvalidInput),
        ("go", {"payload": "x" * 300_000}, PayloadTooLarge),
        ("go", {"payload": object()}, InvalidInput),
        ("go", {"key": ""}, InvalidInput),
        ("go", {"source": "a\x00b"}, InvalidInput),
    ],
)
def test_what_cannot_be_a_signal_is_refused_before_anything_is_looked_at(
    small_shop: Shop, name: str, fields: dict[str, Any], error: type[Exception]
) -> None:
    small_shop.app.config = replace(small_shop.app.config, max_value_bytes=300_000)
    with pytest.raises(error):
        small_shop.app.signal("nobody", name, **fields)


def test_a_payload_that_is_just_small_enough_is_taken(small_shop: Shop) -> None:
    small_shop.app.config = replace(small_shop.app.config, max_value_bytes=300_000)

    @small_shop.app.task
    async def waits() -> None: ...

    job = waits.enqueue()
    assert small_shop.app.signal(job, "go", "x" * (300_000 - 2)).effect == "stored"


@live
async def test_a_signal_in_the_callers_transaction_comes_with_its_commit_or_not_at_all(shop: Shop) -> None:
    @shop.app.task
    async def waits(ctx: Context) -> Any:
        return await ctx.wait_for("go")

    async with shop.working():
        job = await waits.aenqueue()
        await suspended(shop, job)
        await asyncio.to_thread(_signal_within, shop, job.id, "rolled back", False)
        assert (await job.astatus()).state == "suspended"
        await asyncio.to_thread(_signal_within, shop, job.id, "committed", True)
        assert await job.aresult(SOON) == "committed"


def _signal_within(shop: Shop, job_id: str, payload: str, commit: bool) -> None:
    connection: Any = psycopg.connect(shop.url) if shop.store.backend == "postgres" else shop.app.connect()
    with closing(connection):
        connection.execute("begin" if shop.store.backend == "sqlite" else "select 1")
        shop.app.signal(job_id, "go", payload, connection=connection)
        if commit:
            connection.commit()
        else:
            connection.rollback()


@live
async def test_a_job_hears_its_signal_at_once(real_shop: Shop) -> None:
    """The worker polls once in a minute and beats more seldom: it is the wakeups that wakes it."""

    @real_shop.app.task
    async def waits(ctx: Context) -> Any:
        return await ctx.wait_for("go")

    async with real_shop.working(lease=600):
        job = await waits.aenqueue()
        await suspended(real_shop, job)
        await real_shop.app.asignal(job, "go", 1)
        assert await job.aresult(SOON) == 1


@live
async def test_an_operator_ends_a_wait_that_is_his_alone(shop: Shop) -> None:
    @shop.app.task
    async def reviewed(ctx: Context) -> Any:
        return await ctx.wait_for(type=str)

    async with shop.working():
        job = await reviewed.aenqueue()
        record = await suspended(shop, job)
        assert record.reason == "operator"
        await shop.app.signals.aresume(job, "fine", actor="ann", reason="looked")
        assert await job.aresult(SOON) == "fine"
    assert [entry.action for entry in shop.app.audit.list()] == ["job.resume"]
