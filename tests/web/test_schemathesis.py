"""The whole document against the site: data that fits it, data that does not, and every check there is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.web.api import GROUPS
from holdfast.web.guard.throttle import Throttle
from holdfast.web.wire.openapi import document
from tests.chaos.dials import SCALE, SEED, Figure, scaled

from .web_kit import served

# A value that fits its type may still be refused by a rule: 422. One that does not fit is refused: 400, never taken.
CONFIG = """
[checks]
positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "413", "422", "429"]
negative_data_rejection.expected-statuses = ["400", "401", "403", "404", "405", "409", "413", "415", "422", "429"]
"""
# What is followed goes on for ever.
FOLLOWED = """
[[operations]]
include-operation-id = {names}
request-timeout = 0.3
"""
ROOT = Path(__file__).parents[2]
RUN = "import sys; from schemathesis.cli import schemathesis; sys.argv[0] = 'st'; schemathesis()"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is made to wait for having come with wrong tokens, of which these tests have many."""
    monkeypatch.setattr(Throttle, "take", lambda self, key: 0.0)


@pytest.fixture
def filled(app: holdfast.App) -> holdfast.App:
    """A store that has one of each."""
    app.enqueue(app.tasks["double"].job(1))
    app.queues.pause("mail")
    app.limits.set_rate("openai", capacity=1, per_second=1)
    app.breakers.set("stripe", failures=3, open_for=30)
    app.budgets.set("team", {"usd": 10})
    app.quotas.set("api", concurrency=1)
    app.schedules.create("nightly", app.tasks["double"].job(1), cron="0 3 * * *")
    app.webhooks.add("https://hooks.example.com/in")
    app.keys.seed("k1", "ab" * 32)
    return app


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_no_answer_is_a_server_error_and_each_is_as_the_document_says(
    filled: holdfast.App, patient: None, tmp_path: Path
) -> None:
    explore(filled, tmp_path, phases="coverage,fuzzing", examples=3)


# Operations after each other take twice as long as all of them by themselves.
LONG = "fuzzing" if SCALE <= 1 else "examples,coverage,fuzzing,stateful"


@pytest.mark.proof
@pytest.mark.timeout(0)
@pytest.mark.parametrize("store_url", ["sqlite"] if SCALE <= 1 else ["sqlite", "postgres"], indirect=True)
def test_the_same_for_long_and_with_operations_after_each_other(
    filled: holdfast.App, patient: None, tmp_path: Path, figure: Figure
) -> None:
    explore(filled, tmp_path, phases=LONG, examples=scaled(60))
    figure(scaled(60), "examples for each operation over HTTP")


def explore(app: holdfast.App, folder: Path, *, phases: str, examples: int) -> None:
    """Run all checks against the site, as an administrator."""
    config = folder / "schemathesis.toml"
    config.write_text(CONFIG + FOLLOWED.format(names=streams()))
    token = app.tokens.create("explorer", role="admin").secret
    report = folder / "failures.txt"
    env = {**os.environ, "SCHEMATHESIS_HOOKS": "tests.web.schemathesis_hooks", "PYTHONPATH": str(ROOT)}
    with served(app) as address, report.open("w") as out:
        command = [
            sys.executable, "-c", RUN, "--config-file", str(config), "run", f"{address}/api/v1/openapi.json",
            "--header", f"Authorization: Bearer {token}", "--checks", "all", "--phases", phases, "--workers", "1",
            "--max-examples", str(examples), "--request-timeout", "20", "--warnings", "off", "--no-color",
            "--generation-database", "none", "--seed", str(SEED),
        ]  # fmt: skip
        done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False, cwd=folder, env=env)
    assert done.returncode == 0, report.read_text()[-8_000:]


def streams() -> str:
    """The operations that answer with events, as a list of TOML."""
    operations = [operation for path in document(GROUPS)["paths"].values() for operation in path.values()]
    return json.dumps([one["operationId"] for one in operations if "text/event-stream" in json.dumps(one["responses"])])
