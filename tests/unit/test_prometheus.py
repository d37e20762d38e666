"""The page for Prometheus, read by Prometheus's own parser."""

from __future__ import annotations

import math
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import holdfast
from holdfast.contrib.exposition import CONTENT_TYPE, Exposition, Family
from holdfast.contrib.prometheus import FAMILIES, render, serve
from holdfast.errors import ConfigError
from tests.patience import SOON

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(text: str) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, "a sample is there twice"
            found[key] = sample.value
    return found


def value(text: str, name: str, **labels: str) -> float:
    return samples(text)[name, tuple(sorted(labels.items()))]


@pytest.fixture
def app(tmp_path: Path) -> Iterator[holdfast.App]:
    app = holdfast.App(tmp_path / "jobs.db")

    @app.task(queue="mail", max_attempts=1)
    def send(n: int) -> None:
        if n == 0:
            raise ValueError("no address")

    yield app
    app.close()


def test_the_page_parses_and_tells_what_happened(app: holdfast.App) -> None:
    jobs = app.enqueue_many([app.tasks["send"].job(n) for n in range(3)])
    app.tasks["send"].options(delay=60).enqueue(1)
    with app.worker(meter_interval=0):
        for job in jobs:
            job.wait(SOON)
        page = render(app)
    assert value(page, "holdfast_jobs", queue="mail", label="succeeded") == 2
    assert value(page, "holdfast_jobs", queue="mail", label="failed") == 1
    assert value(page, "holdfast_jobs", queue="mail", label="delayed") == 1
    assert value(page, "holdfast_worker_runs_total", queue="mail", task="send", outcome="succeeded") == 2
    assert value(page, "holdfast_worker_runs_total", queue="mail", task="send", outcome="failed") == 1
    assert value(page, "holdfast_worker_run_seconds_count", queue="mail", task="send") == 3
    assert value(page, "holdfast_queue_slots", queue="mail") == 20
    assert value(page, "holdfast_workers", state="alive") == 1
    assert value(page, "holdfast_store_bytes") > 0
    assert value(page, "holdfast_store_operation_seconds_count", operation="enqueue_many", outcome="ok") == 1
    assert value(page, "holdfast_store_operation_seconds_bucket", operation="enqueue", outcome="ok", le="+Inf") == 1
    assert value(page, "holdfast_store_operation_seconds_sum", operation="enqueue", outcome="ok") > 0


def test_every_sample_belongs_to_a_family_of_the_list(app: holdfast.App) -> None:
    app.enqueue_many([app.tasks["send"].job(n) for n in range(3)])
    app.limits.set_concurrency(1, task="send")
    app.drain()
    names = {family.name for family in FAMILIES}
    assert {family.name for family in text_string_to_metric_families(render(app))} <= {
        name.removesuffix("_total") for name in names
    }
    assert len(names) == len(FAMILIES)


def test_an_app_that_did_nothing_has_a_page(app: holdfast.App) -> None:
    assert value(render(app), "holdfast_workers", state="alive") == 0


@pytest.mark.parametrize(
    "text", ['a"b', "back\\slash", "line\nbreak", "\\n", 'mixed\\"\n', "é—✓", '{a="b"}', "", " x "]
)
def test_labels_come_back_as_they_were(text: str) -> None:
    page = Exposition()
    page.add(Family("m", "gauge", "A help with \\ and\nnewline.", ("label",)), 1, text)
    assert value(page.text(), "m", label=text) == 1


def test_numbers_come_back_as_they_were() -> None:
    page, family = Exposition(), Family("m", "gauge", "help", ("n",))
    numbers: list[float] = [0, 1, -1, 0.1, 1e-9, 123456789012, 1e300, 2.5, math.inf]
    for n, number in enumerate(numbers):
        page.add(family, number, str(n))
    assert [value(page.text(), "m", n=str(n)) for n in range(len(numbers))] == numbers


def test_a_histogram_adds_up() -> None:
    page = Exposition()
    page.add_histogram(Family("h", "histogram", "help", ("task",)), (0.1, 1.0), (2, 3, 4), 12.5, "t")
    text = page.text()
    assert [value(text, "h_bucket", task="t", le=le) for le in ("0.1", "1", "+Inf")] == [2, 5, 9]
    assert (value(text, "h_sum", task="t"), value(text, "h_count", task="t")) == (12.5, 9)


def test_a_wrong_name_is_refused() -> None:
    with pytest.raises(ValueError, match="no name"):
        Family("a-b", "gauge", "help")


def test_the_page_is_served_on_loopback(app: holdfast.App) -> None:
    app.tasks["send"].enqueue(1)
    server = serve(app, [0])
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=SOON) as answer:
            assert answer.headers["Content-Type"] == CONTENT_TYPE
            page = answer.read().decode()
        assert value(page, "holdfast_jobs", queue="mail", label="waiting") == 1
        assert _code(f"http://127.0.0.1:{server.port}/other") == 404
        with pytest.raises(ConfigError, match="in use"):
            serve(app, [server.port])
        second = serve(app, [server.port, 0])
        second.close()
        assert second.port != server.port
    finally:
        server.close()


@pytest.mark.parametrize(
    "host",
    [
        "shop.example",
        "127.0.0.1.shop.example",
        "10.0.0.7:9100",
        "",
        "[::1",
        "localhost@shop.example",
        "shop.example#localhost",
    ],
)
def test_on_loopback_a_request_for_another_host_is_refused(app: holdfast.App, host: str) -> None:
    server = serve(app, [0])
    try:
        assert _code(f"http://127.0.0.1:{server.port}/metrics", Host=host) == 421
        for own in (f"localhost:{server.port}", "127.0.0.1", "[::1]:80"):
            assert _code(f"http://127.0.0.1:{server.port}/metrics", Host=own) == 200
    finally:
        server.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "10.1.2.3", "metrics.example"])
def test_beyond_loopback_a_token_is_demanded(app: holdfast.App, host: str) -> None:
    with pytest.raises(ConfigError, match="HOLDFAST_METRICS_TOKEN"):
        serve(app, [0], host)


@pytest.mark.parametrize("token", ["", "short", "with a space in it", "ünïcödé-ünïcödé-ünïcödé"])
def test_a_token_that_can_be_guessed_or_not_be_sent_is_refused(app: holdfast.App, token: str) -> None:
    with pytest.raises(ConfigError, match="at least 16"):
        serve(app, [0], token=token)


@pytest.mark.parametrize(("host", "url"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::1", "[::1]")])
def test_with_a_token_only_its_holder_gets_the_page_by_any_name(app: holdfast.App, host: str, url: str) -> None:
    token = "0123456789abcdef0123456789abcdef"
    server = serve(app, [0], host, token)
    page = f"http://{url}:{server.port}/metrics"
    try:
        assert _code(page, Authorization=f"Bearer {token}", Host="worker-7.example") == 200
        for wrong in ("", "Bearer", f"Bearer {token}x", f"Basic {token}", f"bearer{token}", "Bearer ünïcödé"):
            assert _code(page, Authorization=wrong) == 401
        assert _code(f"http://{url}:{server.port}/other") == 401
    finally:
        server.close()


def _code(url: str, **headers: str) -> int:
    asked = urllib.request.Request(
        url, headers={name: text.encode().decode("latin-1") for name, text in headers.items()}
    )
    try:
        with urllib.request.urlopen(asked, timeout=SOON) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_a_store_that_is_away_is_told_and_nothing_else(app: holdfast.App, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> Any:
        raise holdfast.errors.StorageUnavailable("password=secret refused", backend="sqlite")

    monkeypatch.setattr(app.stats, "queues", away)
    server = serve(app, [0])
    try:
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=SOON)
        with caught.value as answer:
            assert (answer.code, b"secret" in answer.read()) == (503, False)
    finally:
        server.close()
