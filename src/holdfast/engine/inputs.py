"""Puts the results that a job was promised into its arguments, just before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from ..codec import PAYLOAD_LIMIT
from ..model.job import Claimed, JobState
from ..references import MissingInput, decode_inputs, fill
from ..storage.ops import insight
from ..storage.port import Op, Reads

LIMIT: Final = 8 * PAYLOAD_LIMIT
# At first so few that even the largest results are no burden; then as many as what was read promises to fit.
_FIRST: Final = 64
_MOST: Final = 4_000


class UnfitInputs(Exception):
    """The results cannot be had, or are too much. `kind` is why the job fails."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        super().__init__(text)


class Inputs:
    """Reads results from the store."""

    def __init__(self, store: Reads) -> None:
        self._store = store

    async def fill(self, job: Claimed) -> Claimed:
        """The job with its arguments complete. UnfitInputs where they cannot be."""
        if job.inputs is None:
            return job
        inputs = decode_inputs(job.inputs)
        results = await self._results(list(dict.fromkeys(item.job for item in inputs)))
        try:
            payload = fill(job.payload, inputs, results)
        except MissingInput as missing:
            raise UnfitInputs("inputs_missing", str(missing)) from missing
        return msgspec.structs.replace(job, payload=payload)

    async def _results(self, ids: Sequence[str]) -> dict[str, str]:
        """Those of the jobs that succeeded, as JSON."""
        found: dict[str, str] = {}
        size, done, page = 0, 0, _FIRST
        while done < len(ids):
            some = ids[done : done + page]
            for job_id, text in (await self._read(some)).items():
                found[job_id] = text
                size += len(text)
            if size > LIMIT:
                raise UnfitInputs("inputs_too_large", _TOO_LARGE.format(size=size, jobs=len(found)))
            done += len(some)
            page = min(_MOST, max(_FIRST, (LIMIT - size) * done // max(size, 1)))
        return found

    async def _read(self, ids: Sequence[str]) -> dict[str, str]:
        ended = await self._store.aread(Op(lambda tx: insight.outcomes_of(tx, ids), single=True))
        succeeded = [end for end in ended if end.state is JobState.SUCCEEDED]
        for end in succeeded:
            if end.result is None:
                raise UnfitInputs("inputs_missing", f"the result of job {end.id}, an argument here, was pruned")
        return {end.id: end.result for end in succeeded if end.result is not None}


_TOO_LARGE: Final = (
    "the results of {jobs:,} jobs take {size:,} bytes as arguments, and that is not all; the limit is "
    f"{LIMIT:,}: store them elsewhere and pass references to them"
)
