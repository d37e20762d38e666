"""The part of an app that runs what is due, here and now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from ..draining import Drained, drain_store, run_blocking

if TYPE_CHECKING:
    from ..app import App


class Drains:
    """For tests and scripts: a worker's work without a worker."""

    def drain(
        self,
        *,
        queues: Sequence[str] | None = None,
        until_empty: bool = True,
        concurrency: int = 1,
        webhooks: bool = True,
    ) -> Drained:
        """Run every due job here and now, one after the other, until nothing is due. For tests and scripts.

        Jobs that those jobs enqueue run too; with `until_empty=False` only as many as are due at the start. What is
        due in outboxes and what webhooks are to be told is sent as well, for real, and counts as jobs do; with
        `webhooks=False` webhooks wait for a worker.
        """
        drained = self.adrain(queues=queues, until_empty=until_empty, concurrency=concurrency, webhooks=webhooks)
        return run_blocking(drained, instead="await adrain(…)")

    async def adrain(
        self,
        *,
        queues: Sequence[str] | None = None,
        until_empty: bool = True,
        concurrency: int = 1,
        webhooks: bool = True,
    ) -> Drained:
        """The awaiting twin of `drain`."""
        app = cast("App", self)
        settings = app.settings(queues=queues, concurrency=concurrency).worker
        return await drain_store(app, settings, app.workload if webhooks else app.tasks, until_empty=until_empty)
