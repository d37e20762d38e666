"""Webhooks at the command line."""

from __future__ import annotations

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
    assert (logged["id"], logged["event"], logged["state"]) == (sent["id"], "webhook.test", "ready")
    assert sent["id"] in run("webhooks", "log", endpoint.id).output
    assert answer(run("webhooks", "replay", sent["id"], "--json")) == {"replayed": False}
    app.jobs.cancel(sent["id"])
    assert answer(run("webhooks", "replay", sent["id"], "--json")) == {"replayed": True}
    assert answer(run("webhooks", "recover", endpoint.id, "--json")) == {"deliveries": []}


def test_a_tenant_has_endpoints_of_its_own(app: App, run: Run) -> None:
    made = answer(run("webhooks", "add", URL, "--tenant", "acme", "--json"))
    app.webhooks.add(URL)
    listed = answer(run("webhooks", "list", "--tenant", "acme", "--json"))["endpoints"]
    assert [one["id"] for one in listed] == [made["id"]]


def test_a_url_into_the_own_network_is_refused(run: Run) -> None:
    refused = answer(run("webhooks", "add", "https://10.0.0.1/", "--json"), code=2)
    assert refused["error"]["code"] == "url_refused"
