"""The Grafana dashboard and the Prometheus alerts: made from the catalogue of metrics, and taken by their readers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

import holdfast
from holdfast.contrib.prometheus import FAMILIES, render
from tests.docs.pages import ROOT
from tools import monitoring

FOLDER = ROOT / "examples" / "monitoring"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / monitoring.DASHBOARD).read_text("utf-8"))
RULES: list[dict[str, Any]] = yaml.safe_load((FOLDER / monitoring.ALERTS).read_text("utf-8"))["groups"][0]["rules"]
EXPRESSIONS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
QUERIES = [*EXPRESSIONS, *(rule["expr"] for rule in RULES)]
BY_NAME = {family.name: family for family in FAMILIES}


def test_the_committed_files_are_those_that_the_script_makes() -> None:
    made = monitoring.files()
    assert {name: (FOLDER / name).read_text("utf-8") for name in made} == made, "run: python -m tools.monitoring"


def family_of(name: str) -> str:
    return name if name in BY_NAME else re.sub(r"_(bucket|count|sum)$", "", name)


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_is_about_metrics_of_the_catalogue_and_their_labels(query: str) -> None:
    names = {family_of(name) for name in re.findall(r"holdfast_\w+", query)}
    assert names
    assert names <= BY_NAME.keys()
    known = {label for name in names for label in BY_NAME[name].labels} | {"le", "instance"}
    grouped = {label for group in re.findall(r"by \((.*?)\)", query) for label in group.split(", ")}
    assert grouped | set(re.findall(r"(\w+)=~?\"", query)) <= known


def test_the_dashboard_shows_every_group_of_metrics() -> None:
    shown = {family_of(name) for query in EXPRESSIONS for name in re.findall(r"holdfast_\w+", query)}
    unshown = {"holdfast_jobs_estimated", "holdfast_queue_workers", "holdfast_budget_blocked_jobs"}
    assert BY_NAME.keys() - shown == unshown


def test_the_dashboard_fits_its_schema() -> None:
    checker = str(Path(sys.executable).with_name("check-jsonschema"))
    schema = str(Path(__file__).with_name("grafana.schema.json"))
    done = run(checker, "--schemafile", schema, str(FOLDER / monitoring.DASHBOARD))
    assert done.returncode == 0, done.stdout


def test_no_panel_lies_on_another_and_each_has_a_number_of_its_own() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for one, other in combinations((panel["gridPos"] for panel in panels), 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]


@pytest.mark.extended
def test_prometheus_takes_the_alerts_and_the_configuration(tmp_path: Path) -> None:
    assert promtool("check", "rules", str(FOLDER / "alerts.yaml"))
    assert promtool("check", "config", "--syntax-only", str(FOLDER / "prometheus.yml"))


@pytest.mark.extended
def test_prometheus_takes_every_query_of_the_dashboard(tmp_path: Path) -> None:
    queries = [query.replace("$__rate_interval", "5m").replace("$queue", ".*") for query in EXPRESSIONS]
    rules = [{"record": f"panel:{n}", "expr": query} for n, query in enumerate(queries)]
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert promtool("check", "rules", str(tmp_path / "panels.yaml"))


@pytest.mark.extended
def test_prometheus_takes_the_page_of_a_worker(tmp_path: Path) -> None:
    app = holdfast.App(tmp_path / "jobs.db")

    @app.task(max_attempts=1)
    def work(n: int) -> float:
        return 1 / n

    app.enqueue_many([work.job(n) for n in range(2)])
    app.drain()
    page = render(app)
    app.close()
    assert promtool("check", "metrics", given=page)


@pytest.mark.extended
def test_an_alert_fires_when_its_condition_lasts(tmp_path: Path) -> None:
    case = {
        "rule_files": [str(FOLDER / "alerts.yaml")],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": 'holdfast_workers{state="alive",instance="a"}', "values": "1x30"},
                    {"series": 'holdfast_jobs{queue="mail",label="waiting"}', "values": "7x30"},
                    {"series": 'holdfast_queue_workers{queue="mail"}', "values": "0x30"},
                    {"series": 'holdfast_jobs{queue="web",label="waiting"}', "values": "7x30"},
                    {"series": 'holdfast_queue_workers{queue="web"}', "values": "1x30"},
                    {"series": 'holdfast_minute_jobs{queue="web",event="failed"}', "values": "2x30"},
                    {"series": 'holdfast_minute_jobs{queue="web",event="succeeded"}', "values": "6x30"},
                ],
                "alert_rule_test": [
                    fires("HoldfastQueueWithoutWorkers", "4m"),
                    fires("HoldfastQueueWithoutWorkers", "6m", queue="mail", severity="critical"),
                    fires("HoldfastManyFailures", "11m", queue="web", severity="warning"),
                    fires("HoldfastNoWorkers", "20m"),
                    fires("HoldfastNoMetrics", "20m"),
                ],
            }
        ],
    }
    # The texts of an alert are part of what is compared.
    for expected in case["tests"][0]["alert_rule_test"]:  # type: ignore[index]
        rule = next(rule for rule in RULES if rule["alert"] == expected["alertname"])
        for alert in expected["exp_alerts"]:
            alert["exp_annotations"] = {
                name: text.replace("{{ $labels.queue }}", alert["exp_labels"]["queue"])
                .replace("{{ $value | humanizePercentage }}", "25%")
                .replace("{{ $value }}", "7")
                for name, text in rule["annotations"].items()
            }
    (tmp_path / "test.yaml").write_text(json.dumps(case))
    assert promtool("test", "rules", str(tmp_path / "test.yaml"))


def fires(name: str, at: str, **labels: str) -> dict[str, Any]:
    return {"alertname": name, "eval_time": at, "exp_alerts": [{"exp_labels": labels}] if labels else []}


def promtool(*words: str, given: str = "") -> bool:
    done = run("promtool", *words, given=given)
    assert done.returncode == 0, done.stdout + done.stderr
    return True


def run(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, input=given, capture_output=True, text=True, check=False)
