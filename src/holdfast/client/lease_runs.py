"""What a run elsewhere says and does for its job, by its handle: the part of `app.leases` for the middle of a run.

A call that must not count twice can be repeated: under the same key, name or batch it is recognised.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..codec import encode
from ..errors import HoldfastError, InvalidInput, StreamFull
from ..ids import token
from ..model.artifact import Artifact
from ..model.budget import Spent
from ..model.lease import MOST_FRAMES, FrameDraft
from ..model.step import Step
from ..model.stream import Batch, Cursor, Draft, Progress
from ..names import check_name
from ..rules.amounts import Amount, check_amounts
from ..rules.handles import Lease
from ..rules.replay import check_call_name, key_of
from ..storage.ops import charging, lending, steps, streams
from ..storage.ops.reserving import Runner, Wish, admission_hold
from ..storage.port import Op
from ..storage.step import step
from ..streams.drafts import draft_of, patch_of, progress_of
from .lease_artifacts import store_artifact
from .lease_base import LeaseBase
from .lines import Line
from .steps import shown_steps

Amounts = Mapping[str, Amount]
_MOST_BYTES: Final = 4 * 1024 * 1024


class LeaseRuns(LeaseBase):
    """LeaseLost from any of these says that the job is no longer this run's: nothing was changed, and it should end."""

    def emit(self, handle: str, frames: Sequence[FrameDraft], *, batch: int | None = None) -> str:
        """Append frames to the job's stream; where it ends now, as a cursor.

        Batches of a run that are numbered from 1 can be sent again. Number all of them, progress included, or none.
        """
        return step(self._say(self._blocking, handle, frames, None, batch))

    async def aemit(self, handle: str, frames: Sequence[FrameDraft], *, batch: int | None = None) -> str:
        return await self._say(self._awaiting, handle, frames, None, batch)

    def progress(
        self,
        handle: str,
        percent: float | None = None,
        message: str | None = None,
        stage: str | None = None,
        *,
        batch: int | None = None,
    ) -> str:
        """Say how far the job is. What is left out stays as it was."""
        return step(self._say(self._blocking, handle, (), progress_of(percent, message, stage), batch))

    async def aprogress(
        self,
        handle: str,
        percent: float | None = None,
        message: str | None = None,
        stage: str | None = None,
        *,
        batch: int | None = None,
    ) -> str:
        return await self._say(self._awaiting, handle, (), progress_of(percent, message, stage), batch)

    def summarize(self, handle: str, patch: Mapping[str, Any]) -> int:
        """Change the job's summary by a merge patch (RFC 7396); its new version."""
        return step(self._summarize(self._blocking, handle, patch))

    async def asummarize(self, handle: str, patch: Mapping[str, Any]) -> int:
        return await self._summarize(self._awaiting, handle, patch)

    def spend(self, handle: str, budget: str, amounts: Amounts, *, key: str) -> Spent:
        """Charge a budget, once for each key of the job. It is always recorded, over its limit too."""
        return step(self._spend(self._blocking, handle, budget, amounts, key))

    async def aspend(self, handle: str, budget: str, amounts: Amounts, *, key: str) -> Spent:
        return await self._spend(self._awaiting, handle, budget, amounts, key)

    def settle(self, handle: str, budget: str, amounts: Amounts) -> None:
        """Count what was used of what the job set aside before it started, and give the rest back. Once."""
        step(self._settle(self._blocking, handle, budget, amounts))

    async def asettle(self, handle: str, budget: str, amounts: Amounts) -> None:
        await self._settle(self._awaiting, handle, budget, amounts)

    def artifact(self, handle: str, name: str, data: Any, *, content_type: str | None = None) -> Artifact:
        """Store named bytes: bytes, text, or an open file. The same again is recognised; others are a conflict."""
        return step(self._artifact(self._blocking, handle, name, data, content_type))

    async def aartifact(self, handle: str, name: str, data: Any, *, content_type: str | None = None) -> Artifact:
        return await self._artifact(self._awaiting, handle, name, data, content_type)

    def record_step(self, handle: str, name: str, value: object) -> Step:
        """Record what a step gave, for the runs after this one. What was recorded under its name first stays."""
        return step(self._record_step(self._blocking, handle, name, value))

    async def arecord_step(self, handle: str, name: str, value: object) -> Step:
        return await self._record_step(self._awaiting, handle, name, value)

    def steps(self, handle: str) -> list[Step]:
        """What the runs of the job have recorded so far, in order."""
        return step(self._steps(self._blocking, handle))

    async def asteps(self, handle: str) -> list[Step]:
        return await self._steps(self._awaiting, handle)

    # -- how they work

    async def _say(
        self, line: Line, handle: str, frames: Sequence[FrameDraft], progress: Progress | None, batch: int | None
    ) -> str:
        lease = await self._lease(line, handle)
        said = _batch(lease, _drafts(frames), progress, batch)
        (answer,) = await line.write(Op(lambda tx: streams.append(tx, [said])))
        if isinstance(answer, HoldfastError):
            raise answer
        if answer.refused:
            raise StreamFull(lease.job_id)
        return str(Cursor(answer.head, answer.live))

    async def _summarize(self, line: Line, handle: str, patch: Mapping[str, Any]) -> int:
        lease, plain = await self._lease(line, handle), patch_of(patch)
        op = Op(lambda tx: streams.summarize(tx, lease.worker, lease.job_id, lease.epoch, plain))
        return (await line.write(op)).version

    async def _spend(self, line: Line, handle: str, budget: str, amounts: Amounts, key: str) -> Spent:
        lease, name = await self._lease(line, handle), check_name("the budget's name", budget)
        wanted, mark = check_amounts("a spend", amounts), check_name("the spend's key", key)
        entry = Step(key=f"spend:{name}#{mark}", kind="spend", name=name, value=json.dumps(wanted))
        return await line.write(Op(lambda tx: lending.spend(tx, lease, mark, entry, name, wanted)))

    async def _settle(self, line: Line, handle: str, budget: str, amounts: Amounts) -> None:
        lease, name = await self._lease(line, handle), check_name("the budget's name", budget)
        wish = Wish(admission_hold(name), name, check_amounts("a settlement", amounts, zero=True))
        entry = Step(key=key_of("settle", name, 1), kind="settle", name=name, value=json.dumps(wish.amounts))
        run = Runner(lease.worker, lease.job_id, lease.epoch)

        async def settle(tx: Any) -> None:
            await charging.settle(tx, run, await lending.placed(tx, lease.job_id, entry), wish)

        await line.write(Op(settle))

    async def _artifact(self, line: Line, handle: str, name: str, data: Any, content_type: str | None) -> Artifact:
        return await store_artifact(line, await self._lease(line, handle), name, data, content_type)

    async def _record_step(self, line: Line, handle: str, name: str, value: object) -> Step:
        lease = await self._lease(line, handle)
        named = check_call_name(check_name("the step's name", name))
        text = encode(value, what=f"the value of step {named!r}", limit=self._limit())
        entry = Step(key=key_of("step", named, 1), kind="step", name=named, value=text)
        return await line.write(Op(lambda tx: lending.record_step(tx, lease, entry)))

    async def _steps(self, line: Line, handle: str) -> list[Step]:
        lease = await self._lease(line, handle)
        return shown_steps(await line.read(Op(lambda tx: steps.read_whole_journal(tx, lease.job_id))))


def _batch(lease: Lease, drafts: tuple[Draft, ...], progress: Progress | None, batch: int | None) -> Batch:
    if batch is not None and not 1 <= batch < 2**53:
        raise InvalidInput(f"batch is {batch!r}; number the batches of a run from 1")
    return Batch(
        job_id=lease.job_id,
        owner=lease.worker,
        epoch=lease.epoch,
        generation=lease.generation,
        attempt=lease.attempt,
        writer=token() if batch is None else f"{lease.worker}.{lease.epoch}",
        serial=batch or 1,
        drafts=drafts,
        progress=progress,
        stages=(progress.stage,) if progress and progress.stage is not None else (),
    )


def _drafts(frames: Sequence[FrameDraft]) -> tuple[Draft, ...]:
    if len(frames) > MOST_FRAMES:
        raise InvalidInput(f"{len(frames):,} frames are too many for one call; send at most {MOST_FRAMES:,}")
    drafts = tuple(_draft(frame) for frame in frames)
    if (size := sum(len(draft.data) for draft in drafts)) > _MOST_BYTES:
        raise InvalidInput(f"the frames take {size:,} bytes; send at most {_MOST_BYTES:,} in one call")
    return drafts


def _draft(frame: FrameDraft) -> Draft:
    return draft_of(frame.data, frame.kind, "", frame.best_effort, frame.source, frame.correlation_id)
