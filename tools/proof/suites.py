"""What is tried: each suite with the tests that make it up, and about how long they take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Suite:
    """Tests marked `proof` that belong together. `seconds` at a scale of 1, on a core of its own."""

    name: str
    tests: tuple[str, ...]
    seconds: int
    grows: bool = True
    """Whether a larger scale means more of it."""


CHAOS: Final = "tests/chaos"

SUITES: Final = (
    Suite("crash points, SQLite", (f"{CHAOS}/test_crash_points.py", "-k", "sqlite"), 80),
    Suite("crash points, Postgres", (f"{CHAOS}/test_crash_points.py", "-k", "postgres"), 90),
    Suite("log prefixes", (f"{CHAOS}/test_wal_prefixes.py",), 35),
    Suite("model", (f"{CHAOS}/test_model.py", "-k", "model_says_for_long"), 110),
    Suite("interleavings", (f"{CHAOS}/test_interleavings.py",), 55),
    Suite("simulation", (f"{CHAOS}/simulation",), 80),
    Suite("storm, SQLite", (f"{CHAOS}/storm", "-k", "sqlite"), 85),
    Suite("storm, Postgres", (f"{CHAOS}/storm", "-k", "postgres"), 80),
    Suite("rare faults", (f"{CHAOS}/environment_faults",), 130, grows=False),
    Suite("known bugs", (f"{CHAOS}/zoo",), 90, grows=False),
    Suite("fuzzing", (f"{CHAOS}/fuzz", "tests/conformance/test_signals_tokens.py"), 90),
    Suite("HTTP API against its OpenAPI document", ("tests/web/test_schemathesis.py",), 90),
)
"""What a change is checked with: ten minutes on two cores."""

LONG: Final = (
    Suite("model, by dice", (f"{CHAOS}/test_model.py", "-k", "dice"), 90),
    Suite("event logs of both databases", (f"{CHAOS}/test_event_logs.py",), 60),
    Suite("load", (f"{CHAOS}/load",), 1_300, grows=False),
    Suite("flows under kills", ("tests/acceptance/test_flows.py",), 200, grows=False),
    Suite("steps under kills", ("tests/acceptance/test_durable_steps.py",), 120, grows=False),
    Suite("limits", ("tests/acceptance/test_limits.py",), 120, grows=False),
    Suite("budgets", ("tests/acceptance/test_budgets.py",), 240, grows=False),
    Suite("streams under kills", ("tests/acceptance/test_streams.py",), 120, grows=False),
    Suite("artifacts under kills", ("tests/acceptance/test_artifacts.py",), 120, grows=False),
    Suite("outbox through outages", ("tests/acceptance/test_outbox.py",), 200, grows=False),
    Suite("webhooks through kills", ("tests/acceptance/test_webhooks.py",), 400, grows=False),
    Suite("callers of a Postgres that stands still", ("tests/acceptance/test_outage.py",), 160, grows=False),
    Suite("dashboard", ("tests/web/test_many_viewers.py", "tests/conformance/test_stats.py"), 300, grows=False),
)
"""What takes longer, besides."""
