"""Streams of jobs: appended by the run that owns the job, read by any client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from ...errors import Corruption, HoldfastError, LeaseLost, NotFound
from ...model.streams import END, SUPERSEDED, Appended, Batch, Cursor, Draft, Frame, FramePage, Head, Progress, Summary
from ...model.values import instant_of
from ...rules.streams import fitting, kept, measure, merged
from ...values.codec import encode
from ..port import Params, Row, Tx
from ..statements import sql
from . import events
from .jobs.queries import get_job


async def append(tx: Tx, batches: Sequence[Batch]) -> list[Appended | HoldfastError]:
    """Append frames of several runs, each to its own job's stream; LeaseLost where a run does not own its job.

    A batch that was appended before is not appended again, even if its sender does not know.
    """
    if len({batch.job_id for batch in batches}) < len(batches):
        # An old run of a job may still write beside its new one.
        return [answer for batch in batches for answer in await append(tx, [batch])]
    order = sorted(range(len(batches)), key=lambda i: batches[i].job_id)
    asked: list[Params] = [_owner(batches[i]) for i in order]
    answers: dict[int, Appended | HoldfastError] = {}
    moves: list[Params] = []
    rows: list[Row] = []
    for i, row in zip(order, await tx.each(sql.lock_stream, asked), strict=True):
        if row is None:
            answers[i] = await lost(tx, batches[i].job_id)
        else:
            answers[i] = await _extend(tx, batches[i], Head(*row), rows, moves)
    if rows:
        await tx.copy(sql.copy_frames, rows)
    if moves:
        await tx.each(sql.move_stream, moves)
    return [answers[i] for i in range(len(batches))]


async def _extend(tx: Tx, batch: Batch, head: Head, rows: list[Row], moves: list[Params]) -> Appended:
    if head.writer == batch.writer and head.batch >= batch.serial:
        return Appended(head.head, head.live)
    durable = [len(draft.data) for draft in batch.drafts if _is_durable(draft)]
    room = fitting(head.head, head.bytes, durable)
    place, size, taken = Cursor(head.head, head.live), head.bytes, 0
    for draft in batch.drafts:
        if draft.encoding == "restart":
            # Its earlier frames may be in this very batch.
            await _store(tx, rows)
            place = await _restart(tx, batch, draft.step, place, head.now, rows)
        elif draft.best_effort:
            place = replace(place, live=place.live + 1)
            rows.append(_row(batch, draft, place, head.now))
        elif taken < room:
            taken, size, place = taken + 1, size + len(draft.data), replace(place, seq=place.seq + 1)
            rows.append(_row(batch, draft, place, head.now))
    if batch.stages:
        await events.stages(tx, batch.job_id, _run(batch), batch.stages)
    moves.append(await _moved(tx, batch, head, place, size, rows))
    tx.notify(f"stream:{batch.job_id}")
    return Appended(place.seq, place.live, refused=len(durable) - taken)


async def _moved(tx: Tx, batch: Batch, head: Head, place: Cursor, stored: int, rows: list[Row]) -> Params:
    """Return the new head; surplus best-effort frames are trimmed."""
    fresh = place.live - head.live
    rate, rate_at, trimmed = head.rate, head.rate_at, head.trimmed
    if fresh:
        rate = measure(rate, fresh, None if rate_at is None else head.now - rate_at)
        size = sum(len(draft.data) for draft in batch.drafts if draft.best_effort) // fresh
        rate_at, trimmed = head.now, max(trimmed, place.live - kept(rate, size=size))
    if trimmed > head.trimmed:
        await _store(tx, rows)
        await tx.one(sql.trim_frames, job_id=batch.job_id, upto=trimmed)
    said = batch.progress or Progress()
    return {
        "job_id": batch.job_id, "head": place.seq, "live": place.live, "trimmed": trimmed, "bytes": stored,
        "rate": rate, "rate_at": rate_at, "writer": batch.writer, "batch": batch.serial,
        "run": _run(batch) if batch.progress else None,
        "percent": said.percent, "message": said.message, "stage": said.stage,
    }  # fmt: skip


async def _restart(tx: Tx, batch: Batch, step: str, place: Cursor, now: int, rows: list[Row]) -> Cursor:
    """Restart a step: its frames are superseded, and a frame says so to readers that have read them."""
    gone = await tx.all(sql.supersede_frames, job_id=batch.job_id, step=step)
    numbers = [seq for seq, best_effort in gone if not best_effort]
    if not numbers:
        return place
    place = replace(place, seq=place.seq + 1)
    data = msgspec.json.encode({"step": step, "first": min(numbers), "last": max(numbers)})
    rows.append(_row(batch, Draft(SUPERSEDED, "control", data), place, now))
    return place


async def _store(tx: Tx, rows: list[Row]) -> None:
    if rows:
        await tx.copy(sql.copy_frames, rows)
        rows.clear()


async def read(
    tx: Tx, job_id: str, after: Cursor, n: int, *, best_effort: bool = True, until: Cursor = END
) -> FramePage:
    """Read at most `n` frames after a cursor, up to another, and the end of the stream. One statement."""
    rows = await tx.all(
        sql.read_stream, job_id=job_id, seq=after.seq, live=after.live, until_seq=until.seq, until_live=until.live,
        n=n, best_effort=int(best_effort),
    )  # fmt: skip
    if not rows:
        raise NotFound("job", job_id)
    finished_at, head, live, trimmed = rows[0][:4]
    frames = tuple(_frame(row[4:]) for row in rows if row[4] is not None)
    return FramePage(finished_at is not None, Cursor(head, live), trimmed, frames)


async def has_stream(tx: Tx, job_id: str) -> bool:
    return await tx.one(sql.has_stream, job_id=job_id) is not None


async def progress_of(tx: Tx, job_id: str) -> Progress:
    row = await tx.one(sql.get_progress, job_id=job_id)
    if row is None:
        raise NotFound("job", job_id)
    percent, message, stage, at = row
    return Progress(percent=percent, message=message, stage=stage, at=instant_of(at))


async def summary_of(tx: Tx, job_id: str) -> Summary:
    row = await tx.one(sql.get_summary, job_id=job_id)
    if row is None:
        raise NotFound("job", job_id)
    document, version, at = row
    return Summary({}, 0) if document is None else Summary(_document(job_id, document), version, instant_of(at))


async def summarize(tx: Tx, owner: str, job_id: str, epoch: int, patch: dict[str, Any]) -> Summary:
    """Change the summary of a job that this run owns. A stored one that cannot be read is left unchanged."""
    if await tx.one(sql.lock_summary, job_id=job_id, owner=owner, epoch=epoch) is None:
        raise await lost(tx, job_id)
    before = await summary_of(tx, job_id)
    after = Summary(merged(before.document, patch), before.version + 1)
    document = encode(after.document, what="the summary")
    await tx.one(sql.put_summary, job_id=job_id, document=document, version=after.version)
    tx.notify(f"stream:{job_id}")
    return after


async def lost(tx: Tx, job_id: str) -> LeaseLost | NotFound:
    try:
        job = await get_job(tx, job_id)
    except NotFound as missing:
        return missing
    return LeaseLost(f"job {job_id} is {job.state} and no longer this run's; its stream takes nothing from it")


def _document(job_id: str, text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError) as wrong:
        raise Corruption(f"the summary of job {job_id} cannot be read: {wrong}") from wrong


def _frame(row: Row) -> Frame:
    seq, live, best_effort, kind, encoding, data, step, generation, attempt, at, source, correlation_id = row
    return Frame(
        cursor=f"{seq}.{live}", seq=live if best_effort else seq, kind=kind, data=decoded(encoding, bytes(data)),
        attempt=attempt, step=step or None, at=instant_of(at), best_effort=bool(best_effort), generation=generation,
        source=source or None, correlation_id=correlation_id or None, control=encoding == "control",
    )  # fmt: skip


def decoded(encoding: str, data: bytes) -> Any:
    """Return the content of a frame."""
    try:
        match encoding:
            case "text":
                return data.decode()
            case "bytes":
                return data
            case "json" | "control":
                return msgspec.json.decode(data)
            case _:
                pass
    except (msgspec.MsgspecError, ValueError) as wrong:
        raise Corruption(f"a frame is not valid {encoding}: {wrong}") from wrong
    raise Corruption(f"a frame has the encoding {encoding!r}, which this version does not know")


def _row(batch: Batch, draft: Draft, place: Cursor, now: int) -> Row:
    return (
        batch.job_id, place.seq, place.live, int(draft.best_effort), draft.kind, draft.encoding, draft.data,
        draft.step, batch.generation, batch.attempt, now, draft.source, draft.correlation_id,
    )  # fmt: skip


def _run(batch: Batch) -> str:
    return f"{batch.generation}.{batch.attempt}"


def _owner(batch: Batch) -> Params:
    return {"job_id": batch.job_id, "owner": batch.owner, "epoch": batch.epoch}


def _is_durable(draft: Draft) -> bool:
    return not draft.best_effort and draft.encoding != "restart"
