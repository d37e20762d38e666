"""`holdfast jobs grants`, and warnings about jobs that no worker can run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from ..model.routing import Grant, Stranded
from ..rules.routing import Reason
from .command import Command, echo, json_option, target_options
from .locate import find_app
from .output import instant, plain, print_json, print_table


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
        echo(f"warning: {subject}: {item.text}", err=True)


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
