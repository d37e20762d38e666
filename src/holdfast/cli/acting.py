"""Actions on jobs given by id, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from ..app import App
from ..errors import HoldfastError
from .command import OK, as_data, describe, exit_code
from .output import print_json

Answer = tuple[str, str, int]
"""A stable word for programs, a phrase for people, and the exit code."""


def act_on_each(app: App, ids: Sequence[str], one: Callable[[App, str], Answer], *, as_json: bool) -> None:
    """Process each in its own transaction; the exit code is that of the first failure."""
    results: list[dict[str, Any]] = []
    code = OK
    for job_id in ids:
        try:
            word, phrase, worth = one(app, job_id)
        except HoldfastError as error:
            worth = exit_code(error)
            results.append(failed(job_id, error, as_json=as_json))
        else:
            results.append({"id": job_id, "outcome": word})
            if not as_json:
                click.echo(f"{job_id} {phrase}")
        code = code or worth
    if as_json:
        print_json({"results": results})
    raise SystemExit(code)


def failed(job_id: str, error: HoldfastError, *, as_json: bool) -> dict[str, Any]:
    """Print the error of one job."""
    if not as_json:
        click.echo(f"error: {describe(error)}", err=True)
    return {"id": job_id, "error": as_data(error)}
