"""Fills the results of other jobs into a job's arguments, just before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from ...model.jobs import Claimed, JobState
from ...model.values import is_reference, reference_of
from ...storage.ops.jobs import queries, values
from ...storage.port import Op, Reads
from ...values.codec import VALUE_LIMIT
from ...values.references import MissingInput, decode_inputs, fill

# A small first page in case results are large; then as many as fit at the average size so far.
_FIRST: Final = 64
_MOST: Final = 4_000


class UnfitInputs(Exception):
    """The results are missing or too large. `kind` is why the job fails."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        super().__init__(text)


class Inputs:
    """Reads results, and arguments that are too large for a claim, from the store."""

    def __init__(self, store: Reads) -> None:
        self._store = store

    async def fill(self, job: Claimed, limit: int = VALUE_LIMIT) -> Claimed:
        """Return the job with complete arguments. UnfitInputs if results are missing or exceed `limit` bytes."""
        if is_reference(job.payload):
            job = msgspec.structs.replace(job, payload=await self._load(job.payload))
        if job.inputs is None:
            return job
        inputs = decode_inputs(job.inputs)
        results = await self._results(list(dict.fromkeys(item.job for item in inputs)), limit)
        try:
            payload = fill(job.payload, inputs, results)
        except MissingInput as missing:
            raise UnfitInputs("inputs_missing", str(missing)) from missing
        return msgspec.structs.replace(job, payload=payload)

    async def _results(self, ids: Sequence[str], limit: int) -> dict[str, str]:
        """Return the results of the jobs that succeeded, as JSON."""
        found: dict[str, str] = {}
        size, done, page = 0, 0, _FIRST
        while done < len(ids):
            some = ids[done : done + page]
            for job_id, column in (await self._read(some)).items():
                found[job_id] = column
                size += reference_of(column).size if is_reference(column) else len(column)
            if size > limit:
                raise UnfitInputs("inputs_too_large", _TOO_LARGE.format(size=size, jobs=len(found), limit=limit))
            done += len(some)
            page = min(_MOST, max(_FIRST, (limit - size) * done // max(size, 1)))
        # Only now: results that do not fit are not read.
        return {job_id: await self._load(column) for job_id, column in found.items()}

    async def _load(self, column: str) -> str:
        if not is_reference(column):
            return column
        return await self._store.aread(Op(lambda tx: values.load(tx, column), single=True))

    async def _read(self, ids: Sequence[str]) -> dict[str, str]:
        ended = await self._store.aread(Op(lambda tx: queries.bare_outcomes_of(tx, ids), single=True))
        succeeded = [end for end in ended if end.state is JobState.SUCCEEDED]
        for end in succeeded:
            if end.result is None:
                raise UnfitInputs("inputs_missing", f"the result of job {end.id}, an argument here, was pruned")
        return {end.id: end.result for end in succeeded if end.result is not None}


_TOO_LARGE: Final = (
    "the results of {jobs:,} jobs take {size:,} bytes as arguments, and that may not be all; the limit is "
    "{limit:,} (max_value_bytes): store them as artifacts or elsewhere, and pass references to them"
)
