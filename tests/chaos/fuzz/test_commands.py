"""The command line with arguments as nobody types them: an answer, or an error that is said; never a traceback."""

from __future__ import annotations

import json
import random

import pytest
from click.testing import CliRunner

from holdfast.cli.main import cli
from holdfast.model import JobFilter
from tests.chaos.dials import Figure, scaled

from .dice import TEXTS, dice, text
from .pair import Pair
from .population import populate
from .test_filters import fits

CODES = (0, 1, 2, 3, 4)
"""All but that of a store that fails."""
NAMED = ("jobs show", "jobs explain", "jobs cancel", "jobs retry", "queues pause", "cron show", "cron pause",
         "flows show",
         "budgets show", "tokens revoke", "webhooks show", "workers bury", "jobs tail", "jobs move --to x",
         "breakers show")  # fmt: skip


@pytest.fixture(scope="module")
def peopled(pair: Pair) -> Pair:
    for app in pair:
        populate(app)
    return pair


@pytest.mark.parametrize("count", [15, pytest.param(scaled(120), marks=[pytest.mark.proof, pytest.mark.timeout(0)])])
def test_a_list_shows_what_a_plain_look_finds_and_nothing_ends_in_a_traceback(
    peopled: Pair, count: int, figure: Figure
) -> None:
    for app in peopled:
        rng, everybody = dice("commands"), app.jobs.find(JobFilter(limit=10_000))
        for _ in range(count):
            like = rng.choice(everybody)
            known = {"state": str(like.state), "queue": like.queue, "task": like.task, "tenant": like.tenant or None}
            wanted = {name: value for name, value in known.items() if value is not None and rng.random() < 0.4}
            code, said = _run(app.config.store, ["jobs", "list", *_options(wanted), "--limit", "1000", "--json"])
            expected = [job.id for job in everybody if fits(job, JobFilter(**wanted))]
            assert (code, [job["id"] for job in json.loads(said)["jobs"]]) == (0, expected), wanted
            code, said = _run(app.config.store, _nonsense(rng))
            assert code in CODES and "Traceback" not in said
    figure(4 * count, "inputs: command line")


def _nonsense(rng: random.Random) -> list[str]:
    given = rng.choice((rng.choice(TEXTS), text(rng), "x\udcff"))
    if rng.random() < 0.5:
        option = rng.choice(("--state", "--queue", "--task", "--tenant", "--limit", "--before"))
        return ["jobs", "list", f"{option}={given}"]
    return [*rng.choice(NAMED).split(), "--", given]


def _options(wanted: dict[str, str]) -> list[str]:
    return [f"--{name}={value}" for name, value in wanted.items()]


def _run(store: str, arguments: list[str]) -> tuple[int, str]:
    result = CliRunner().invoke(cli, arguments, env={"HOLDFAST_STORE": store})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise AssertionError(f"{arguments} ended in {result.exception!r}") from result.exception
    return result.exit_code, result.output
