"""`holdfast jobs grant`, `withdraw` and `grants`: jobs reserved for one worker, for a while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from ..app import App
from ..model.routing import Grant, Stranded
from ..rules.routing import Reason
from .bulk import Answer, act_on_each
from .command import OK, Command, json_option, target_options
from .locate import find_app
from .operator import Duration, actor_option, for_people, reason_option
from .output import instant, plain, print_json, print_table


@click.command(cls=Command)
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--worker", required=True, metavar="NAME", help="The worker's name, as in `workers list`.")
@click.option(
    "--expires", type=Duration(), default="30", metavar="DURATION", help="Duration of the grant. [default: 30 s]"
)
@actor_option
@reason_option
@json_option
@target_options
def grant(
    *,
    ids: Sequence[str],
    worker: str,
    expires: float,
    app_name: str | None,
    store: str | None,
    actor: str,
    reason: str,
    as_json: bool,
    debug: bool,
) -> None:
    """Reserve a waiting job for one worker; after a while any worker may claim it again."""

    def one(app: App, job_id: str) -> Answer:
        app.jobs.grant(job_id, worker=worker, expires=expires, actor=actor, reason=reason)
        return "granted", f"is reserved for worker {worker} for {for_people(expires)}", OK

    act_on_each(find_app(app_name, store), ids, one, as_json=as_json)


@click.command(cls=Command)
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@actor_option
@reason_option
@json_option
@target_options
def withdraw(
    ids: Sequence[str], app_name: str | None, store: str | None, actor: str, reason: str, as_json: bool, debug: bool
) -> None:
    """Withdraw a grant: any worker may claim the job now."""

    def one(app: App, job_id: str) -> Answer:
        if app.jobs.withdraw(job_id, actor=actor, reason=reason):
            return "withdrawn", "can be claimed by any worker", OK
        return "not_granted", "was not granted; nothing changed", OK

    act_on_each(find_app(app_name, store), ids, one, as_json=as_json)


@click.command(cls=Command)
@json_option
@target_options
def grants(app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """List the jobs reserved for one worker, the first to expire first."""
    found = find_app(app_name, store).jobs.grants()
    if as_json:
        print_json({"grants": [_grant_data(one) for one in found]})
        return
    rows = [(one.job_id, one.worker, instant(one.granted_at), instant(one.expires_at), _over(one)) for one in found]
    print_table(("job", "worker", "granted", "expires", ""), rows, empty="no grants")


def warn_of(stranded: Sequence[Stranded]) -> None:
    """Print warnings about jobs that no worker can run, below a list."""
    for item in stranded:
        subject = f"{item.job} of queue {item.queue}, and similar jobs" if item.job else f"queue {item.queue}"
        click.echo(f"warning: {subject}: {item.text}", err=True)


def stranded_data(stranded: Sequence[Stranded]) -> list[dict[str, Any]]:
    return [plain(item) for item in stranded]


def reason_data(reasons: Mapping[str, Reason], job_id: str) -> dict[str, Any] | None:
    """Return why no worker can run a job; None if one can."""
    reason = reasons.get(job_id)
    return None if reason is None else {"code": reason.code, "text": reason.text}


def _grant_data(one: Grant) -> dict[str, Any]:
    return {
        "job": one.job_id,
        "worker": one.worker,
        "granted_at": instant(one.granted_at),
        "expires_at": instant(one.expires_at),
        "expired": one.is_expired,
    }


def _over(one: Grant) -> str:
    return "expired" if one.is_expired else ""
