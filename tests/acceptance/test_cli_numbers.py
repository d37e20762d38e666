"""`holdfast stats`, `errors` and `top`, and a worker's page of metrics, on both stores."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import holdfast
from holdfast.clock import ManualClock
from holdfast.model.stats import MINUTE
from tests.acceptance.cli_kit import call, environment, finished, program
from tests.patience import SOON


@pytest.fixture
def shop(store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[holdfast.App]:
    monkeypatch.setenv("HOLDFAST_STORE", store_url)
    app = holdfast.App(store_url)
    app.migrate()

    @app.task(queue="mail")
    def welcome(user: int) -> int:
        return user

    @app.task(max_attempts=1)
    def refuse(card: int) -> None:
        raise ValueError(f"no such card {card}")

    yield app
    app.close()


def keep_numbers(shop: holdfast.App) -> None:
    """What a worker does in the next minutes, done now."""
    import asyncio

    from holdfast.worker.maintenance.stats_roller import StatsRoller

    async def run() -> None:
        keeper = StatsRoller(shop.open(), lambda: True, ManualClock())
        while await keeper.run_once() == 0.0:
            pass

    asyncio.run(run())


def age_everything(shop: holdfast.App, seconds: int) -> None:
    """Move what happened into the past, and what ended into one minute."""
    with holdfast_connection(shop) as run:
        first, last = run("select min(finished_at), max(finished_at) from holdfast_any_job").fetchone()
        micros = seconds * 1_000_000
        if (first - micros) // MINUTE < (last - micros) // MINUTE:
            micros += (last - micros) % MINUTE + 1
        run(f"update holdfast_job set created_at = created_at - {micros}")
        for column in ("not_before", "claimed_at", "started_at", "finished_at"):
            run(f"update holdfast_live set {column} = {column} - {micros}")
            run(f"update holdfast_ended set {column} = {column} - {micros}")
        run(f"update holdfast_attempt set ended_at = ended_at - {micros}, started_at = started_at - {micros}")


class holdfast_connection:
    """Statements behind the store's back."""

    def __init__(self, shop: holdfast.App) -> None:
        self._url = shop.config.store
        self._shop = shop

    def __enter__(self):  # type: ignore[no-untyped-def]
        if "postgresql" in self._url:
            import psycopg

            self._connection = psycopg.connect(self._url)
        else:
            self._connection = self._shop.connect()
        return self._connection.execute

    def __exit__(self, *_: object) -> None:
        self._connection.commit()
        self._connection.close()


def worked(shop: holdfast.App) -> None:
    shop.enqueue_many([shop.tasks["welcome"].job(n) for n in range(4)])
    shop.enqueue_many([shop.tasks["refuse"].job(n) for n in range(3)])
    shop.drain()
    shop.tasks["welcome"].options(delay=600).enqueue(1)
    shop.tasks["welcome"].enqueue(2)


def test_stats_tell_labels_rates_and_the_stores_health(shop: holdfast.App) -> None:
    worked(shop)
    age_everything(shop, 90)
    keep_numbers(shop)
    data = call("stats", "--json").data
    mail = next(queue for queue in data["queues"] if queue["name"] == "mail")
    assert (mail["counts"]["waiting"], mail["counts"]["delayed"], mail["counts"]["succeeded"]) == (1, 1, 4)
    assert (mail["estimated"], mail["paused"], mail["slots"]) == ([], False, 0)
    assert mail["oldest_due_age"] >= 90
    rates = {rate["queue"]: rate for rate in data["throughput"]}
    assert rates["mail"]["per_minute"]["succeeded"] == 4 / 5
    assert rates["default"]["per_minute"]["failed"] == 3 / 5
    assert rates["mail"]["worst_minute"]["run"]["count"] == 4
    assert data["store"]["bytes"] > 0
    text = call("stats", "--minutes", "10").out
    assert [word in text for word in ("mail", "oldest due", "wait p50/p95/p99", "store: ")] == [True] * 4


def test_stats_of_one_queue_are_about_it_alone(shop: holdfast.App) -> None:
    worked(shop)
    assert [queue["name"] for queue in call("stats", "--queue", "mail", "--json").data["queues"]] == ["mail"]
    unknown = call("stats", "--queue", "nobody", "--json").data["queues"][0]
    assert sum(unknown["counts"].values()) == 0
    assert call("stats", "--queue", "a,b").code == 2
    assert call("stats", "--minutes", "0").code == 2


def test_stats_by_task_tell_counts_failure_rate_and_times_of_each(shop: holdfast.App) -> None:
    worked(shop)
    age_everything(shop, 90)
    keep_numbers(shop)
    data = call("stats", "--by", "task", "--json").data
    refuse, welcome = data["tasks"]
    assert (data["minutes"], welcome["task"], welcome["failure_rate"]) == (60, "welcome", 0.0)
    assert (welcome["counts"]["started"], welcome["counts"]["succeeded"], welcome["run"]["count"]) == (4, 4, 4)
    assert (refuse["task"], refuse["counts"]["failed"], refuse["failure_rate"]) == ("refuse", 3, 1.0)
    text = call("stats", "--by", "task", "--minutes", "1440").out
    assert [word in text for word in ("welcome", "100%", "failure rate", "run mean/p50/p95/p99")] == [True] * 4
    assert call("stats", "--by", "task", "--queue", "mail").code == 2
    assert call("stats", "--by", "task", "--minutes", "1441").code == 2
    assert call("stats", "--minutes", "241").code == 2


def test_stats_of_an_empty_store_say_so(shop: holdfast.App) -> None:
    answer = call("stats")
    assert (answer.code, "no queues" in answer.out) == (0, True)


def test_errors_are_listed_by_kind_and_shown_with_their_traceback(shop: holdfast.App) -> None:
    assert call("errors", "list").out == "no errors\n"
    worked(shop)
    age_everything(shop, 90)
    keep_numbers(shop)
    (group,) = call("errors", "list", "--json").data["errors"]
    assert (group["task"], group["type"], group["count"]) == ("refuse", "ValueError", 3)
    assert group["fingerprint"] in call("errors", "list").out
    shown = call("errors", "show", group["fingerprint"])
    assert "Traceback" in shown.out
    assert call("errors", "show", group["fingerprint"], "--json").data["traceback"].startswith("Traceback")
    assert call("errors", "list", "--task", "welcome").out == "no errors\n"
    assert call("errors", "show", "nobody").code == 3


def test_top_prints_one_frame(shop: holdfast.App) -> None:
    worked(shop)
    age_everything(shop, 90)
    keep_numbers(shop)
    frame = call("top", "--once").out
    assert [word in frame for word in ("holdfast top", "mail", "no workers", "ValueError", "no worker")] == [True] * 5
    assert {"queues", "throughput", "workers", "errors", "store"} == call("top", "--json").data.keys()


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_top_fills_the_screen_until_it_is_told_to_quit(shop: holdfast.App, key: str) -> None:
    worked(shop)
    process, screen = _on_terminal("top", "--every", "0.2", store=shop.config.store)
    try:
        seen = _read_until(screen, b"mail")
        os.write(screen, key.encode())
        seen += _read_until(screen, b"\x1b[?1049l")
        assert process.wait(SOON) == 0
        assert b"\x1b[?1049h" in seen
    finally:
        process.kill()
        process.wait()
        os.close(screen)


def _on_terminal(*arguments: str, store: str) -> tuple[subprocess.Popen[bytes], int]:
    ours, theirs = pty.openpty()
    variables = environment(HOLDFAST_STORE=store, TERM="xterm-256color", COLUMNS="140", LINES="30")
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *arguments],
        stdin=theirs, stdout=theirs, stderr=theirs, env=variables, start_new_session=True, preexec_fn=_own_terminal,
    )  # fmt: skip
    os.close(theirs)
    return process, ours


def _own_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _read_until(screen: int, wanted: bytes) -> bytes:
    seen, deadline = b"", time.monotonic() + SOON
    while wanted not in seen:
        assert select.select([screen], [], [], deadline - time.monotonic())[0], seen
        seen += os.read(screen, 65_536)
    return seen


JOBS = """
import holdfast
app = holdfast.App()

@app.task(queue="mail")
async def welcome(user: int) -> None: ...
"""


def test_a_worker_shows_its_metrics_on_loopback(shop: holdfast.App, tmp_path: Path) -> None:
    (tmp_path / "metered.py").write_text(JOBS)
    port = _free_port()
    process = program(
        "worker", "metered:app", "--metrics-port", str(port), folder=tmp_path, HOLDFAST_STORE=shop.config.store
    )
    try:
        shop.tasks["welcome"].enqueue(1).wait(SOON)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SOON) as answer:
            families = {family.name: family for family in text_string_to_metric_families(answer.read().decode())}
        (sample,) = [s for s in families["holdfast_worker_runs"].samples if s.name.endswith("_total")]
        assert (sample.labels, sample.value) == ({"queue": "mail", "task": "welcome", "outcome": "succeeded"}, 1)
        mail = [s for s in families["holdfast_jobs"].samples if s.labels["queue"] == "mail"]
        assert {s.labels["label"]: s.value for s in mail}["succeeded"] == 1
    finally:
        process.send_signal(signal.SIGTERM)
        answer = finished(process)
    assert answer.code == 0, answer.err
    assert f"metrics are at http://127.0.0.1:{port}/metrics" in answer.err


def test_a_port_that_is_taken_is_told_before_anything_runs(shop: holdfast.App, tmp_path: Path) -> None:
    (tmp_path / "metered.py").write_text(JOBS)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = program(
            "worker", "metered:app", "--metrics-port", str(port), folder=tmp_path, HOLDFAST_STORE=shop.config.store
        )
        answer = finished(process)
    assert (answer.code, "in use" in answer.err) == (2, True)


def test_a_worker_shows_its_metrics_on_any_address_to_who_has_the_token(shop: holdfast.App, tmp_path: Path) -> None:
    (tmp_path / "metered.py").write_text(JOBS)
    port, token = _free_port(), "0123456789abcdef"
    flags = ("--metrics-port", str(port), "--metrics-host", "0.0.0.0", "--processes", "2")
    known = {"HOLDFAST_STORE": shop.config.store, "HOLDFAST_METRICS_TOKEN": token}
    process = program("worker", "metered:app", *flags, folder=tmp_path, **known)
    try:
        shop.tasks["welcome"].enqueue(1).wait(SOON)
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked, timeout=SOON) as answer:
            assert "holdfast_jobs" in answer.read().decode()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SOON)
    finally:
        process.send_signal(signal.SIGTERM)
        assert finished(process).code == 0


@pytest.mark.parametrize("processes", ["1", "2"])
def test_an_open_address_without_a_token_is_refused_before_anything_runs(
    shop: holdfast.App, tmp_path: Path, processes: str
) -> None:
    (tmp_path / "metered.py").write_text(JOBS)
    flags = ("--metrics-port", "9100", "--metrics-host", "0.0.0.0", "--processes", processes)
    answer = finished(program("worker", "metered:app", *flags, folder=tmp_path, HOLDFAST_STORE=shop.config.store))
    assert (answer.code, "HOLDFAST_METRICS_TOKEN" in answer.err) == (2, True)


@pytest.mark.parametrize("text", ["0", "70000", "x", "9-1", "1-2-3", "-5"])
def test_what_is_no_port_is_refused(shop: holdfast.App, text: str) -> None:
    answer = call("worker", "metered:app", f"--metrics-port={text}")
    assert (answer.code, bool(re.search("port", answer.err))) == (2, True)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
