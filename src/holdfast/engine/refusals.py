"""Outcomes that the store refuses: the job fails instead, since it would wait for ever to be recorded."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from ..errors import HoldfastError, InvalidInput, StorageError
from ..model.outcome import Failed, Finish
from ..rules.failure import error_text

logger: Final = logging.getLogger("holdfast.engine")

_UNRECORDABLE: Final = "unrecordable"


def is_refusal(error: Exception) -> bool:
    """Whether the store took exception to a value, rather than being away, full or busy."""
    return not isinstance(error, HoldfastError) or isinstance(error, InvalidInput) or type(error) is StorageError


async def record_apart(
    finishes: Sequence[Finish], record: Callable[[Finish], Awaitable[object]]
) -> tuple[list[Finish], Exception | None]:
    """The store refuses something in a batch: record each apart, so that only that one job suffers.

    What is still to be recorded, and the error that is no refusal, where one ended this.
    """
    kept: list[Finish] = []
    for at, finish in enumerate(finishes):
        try:
            await record(finish)
        except Exception as error:
            if not is_refusal(error) or _is_last_word(finish):
                return [*kept, *finishes[at:]], error
            logger.error("the outcome of job %s cannot be stored (%s); it fails instead", finish.id, error)
            kept.append(Finish(finish.id, finish.epoch, Failed(_UNRECORDABLE, error_text(error))))
    return kept, None


def _is_last_word(finish: Finish) -> bool:
    return isinstance(finish.outcome, Failed) and finish.outcome.kind == _UNRECORDABLE
