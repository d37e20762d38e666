"""Webhooks at the command line."""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast import App

from .kit import Run, answer

URL = "https://hooks.example.com/in"


def test_an_endpoint_is_made_rotated_disabled_enabled_and_deleted_and_it_is_recorded(app: App, run: Run) -> None:
    made = answer(run("webhooks", "add", URL, "--event", "job.failed", "--tag", "vip", "--json"))
    assert (made["url"], made["events"], made["tags"], made["state"]) == (URL, ["job.failed"], ["vip"], "active")
    assert made["secret"].startswith("whsec_")
    rotated = run("webhooks", "rotate", made["id"], "--overlap", "1h").output
    assert "whsec_" in rotated
    assert made["secret"] not in rotated
    assert "job.failed, tagged vip" in run("webhooks", "list").output
    (listed,) = answer(run("webhooks", "list", "--json"))["endpoints"]
    assert datetime.fromisoformat(listed["created_at"]) <= datetime.fromisoformat(listed["updated_at"])
    assert listed["succeeded_at"] is None
    assert "secret" not in listed
    assert answer(run("webhooks", "disable", made["id"], "--reason", "moved", "--json")) == {"changed": True}
    assert answer(run("webhooks", "disable", made["id"], "--json")) == {"changed": False}
    assert "disabled: moved" in " ".join(run("webhooks", "list").output.split())
    assert answer(run("webhooks", "enable", made["id"], "--json")) == {"changed": True}
    assert answer(run("webhooks", "delete", made["id"], "--json")) == {"removed": True}
    assert run("webhooks", "delete", made["id"]).exit_code == 3
    records = app.audit.list(target_kind="webhook")
    assert [record.action for record in reversed(records)] == [
        "webhook.add", "webhook.rotate", "webhook.disable", "webhook.enable", "webhook.disable", "webhook.delete",
    ]  # fmt: skip
    assert {record.actor for record in records} == {"ada"}
    assert made["secret"] not in repr(records)


def test_a_test_delivery_is_in_the_log_and_can_be_sent_at_once(app: App, run: Run) -> None:
    endpoint = app.webhooks.add(URL)
    sent = answer(run("webhooks", "test", endpoint.id, "--json"))
    (logged,) = answer(run("webhooks", "log", endpoint.id, "--json"))["deliveries"]
    at = datetime.fromisoformat(logged["at"])
    assert (at.tzinfo, logged["at"][-1], logged["finished_at"]) == (UTC, "Z", None)
    assert (logged["id"], logged["event"], logged["state"]) == (sent["id"], "webhook.test", "ready")
    assert sent["id"] in run("webhooks", "log", endpoint.id).output
    assert answer(run("webhooks", "retry", sent["id"], "--json")) == {"retried": False}
    app.jobs.cancel(sent["id"])
    assert answer(run("webhooks", "retry", sent["id"], "--json")) == {"retried": True}
    assert answer(run("webhooks", "recover", endpoint.id, "--json")) == {"deliveries": []}


def test_a_tenant_has_endpoints_of_its_own(app: App, run: Run) -> None:
    made = answer(run("webhooks", "add", URL, "--tenant", "acme", "--json"))
    app.webhooks.add(URL)
    listed = answer(run("webhooks", "list", "--tenant", "acme", "--json"))["endpoints"]
    assert [one["id"] for one in listed] == [made["id"]]


def test_a_url_into_the_own_network_is_refused(run: Run) -> None:
    refused = answer(run("webhooks", "add", "https://10.0.0.1/", "--json"), code=2)
    assert refused["error"]["code"] == "url_refused"


def test_the_queue_of_deliveries_is_told_apart_and_shown_only_where_it_was_used(app: App, run: Run) -> None:
    with app.worker():
        assert "webhooks" not in run("stats").output + run("queues", "list").output
        assert "webhooks (built in)" in run("workers", "list").output
    app.webhooks.test(app.webhooks.add(URL).id)
    for shown in ("queues", "list"), ("stats",):
        assert "webhooks (built in)" in run(*shown).output
        assert "webhooks" in [queue["name"] for queue in answer(run(*shown, "--json"))["queues"]]


def test_what_names_a_webhook_among_the_tags_of_a_job_is_not_shown_as_one(app: App, run: Run) -> None:
    job = app.tasks["mail"].options(webhook=URL, webhook_events=["job.failed"], tags=["vip"]).enqueue()
    (shown,) = answer(run("jobs", "show", job.id, "--json"))["jobs"]
    assert shown["tags"] == ["vip"]
    (line,) = (line for line in run("jobs", "show", job.id).output.splitlines() if line.startswith("tags"))
    assert line.split() == ["tags", "vip"]
