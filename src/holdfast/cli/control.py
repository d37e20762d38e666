"""`holdfast jobs revoke` and `jobs replay`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from ..app import App
from ..model.actions import AlreadySatisfied
from .bulk import Answer, act_on_each
from .command import CONFLICT, OK, Command, json_option, target_options
from .locate import find_app
from .operator import actor_option, reason_option

_NOTHING: Final = {
    "no_active_lease": ("is not running; nothing changed", OK),
    "different_owner": ("is held by another worker; nothing changed", CONFLICT),
    "epoch_moved": ("is held by another run now; nothing changed", CONFLICT),
}


@click.command(cls=Command)
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--owner", metavar="WORKER", help="Only from this worker.")
@click.option("--epoch", type=int, metavar="N", help="Only from its run under this epoch.")
@actor_option
@reason_option
@json_option
@target_options
def revoke(
    *,
    ids: Sequence[str],
    owner: str | None,
    epoch: int | None,
    app_name: str | None,
    store: str | None,
    actor: str,
    reason: str,
    as_json: bool,
    debug: bool,
) -> None:
    """Revoke the leases of running jobs: ready again without using an attempt; their handlers are stopped."""

    def one(app: App, job_id: str) -> Answer:
        answer = app.jobs.revoke(job_id, owner=owner, epoch=epoch, actor=actor, reason=reason)
        if isinstance(answer, AlreadySatisfied):
            phrase, worth = _NOTHING[answer.reason]
            return answer.reason, phrase, worth
        return "revoked", f"had its lease revoked and is {answer.state}", OK

    act_on_each(find_app(app_name, store), ids, one, as_json=as_json)


@click.command(cls=Command)
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--fresh", is_flag=True, help="Discard its recorded steps.")
@actor_option
@reason_option
@json_option
@target_options
def replay(
    *,
    ids: Sequence[str],
    fresh: bool,
    app_name: str | None,
    store: str | None,
    actor: str,
    reason: str,
    as_json: bool,
    debug: bool,
) -> None:
    """Run finished jobs again, up to 10 times each; durable ones resume from their recorded steps."""

    def one(app: App, job_id: str) -> Answer:
        if app.jobs.retry(job_id, fresh=fresh, actor=actor, reason=reason):
            return "replayed", "is ready again", OK
        return "key_taken", "was not replayed: a newer job has the same dedupe key", CONFLICT

    act_on_each(find_app(app_name, store), ids, one, as_json=as_json)
