"""Webhooks over HTTP."""

from __future__ import annotations

import holdfast

from .web_kit import Site

URL = "https://hooks.example.com/in/s3cr3t-path"


def test_a_secret_is_shown_once(site: Site) -> None:
    made = site.post("/webhooks", {"url": URL, "events": ["job.failed"], "tags": ["vip"]})
    assert made["secret"].startswith("whsec_")
    shown = site.get(f"/webhooks/{made['id']}")
    assert (shown["url"], shown["events"], shown["tags"]) == (URL, ["job.failed"], ["vip"])
    rotated = site.post(f"/webhooks/{made['id']}/rotate", {"overlap": 60})
    assert rotated["secret"] not in ("", made["secret"])
    listed = site.call("GET", "/api/v1/webhooks").text
    assert made["id"] in listed
    assert made["secret"] not in listed and rotated["secret"] not in listed and "secret" not in shown


def test_an_endpoint_is_switched_and_deleted(site: Site, app: holdfast.App) -> None:
    id = site.post("/webhooks", {"url": URL})["id"]
    assert site.post(f"/webhooks/{id}/disable", {"reason": "too loud"}) == {"changed": True}
    assert site.post(f"/webhooks/{id}/disable") == {"changed": False}
    assert site.post(f"/webhooks/{id}/enable") == {"changed": True}
    assert site.post(f"/webhooks/{id}/enable") == {"changed": False}
    assert site.delete(f"/webhooks/{id}") == {"changed": True}
    assert site.refused("DELETE", f"/webhooks/{id}")[0] == 404
    assert app.audit.list(action="webhook.disable")[-1].reason == "too loud"


def test_deliveries_are_shown_and_replayed(site: Site, app: holdfast.App) -> None:
    id = site.post("/webhooks", {"url": URL})["id"]
    sent = site.post(f"/webhooks/{id}/test")
    assert sent["event"] == "webhook.test"
    second = site.post(f"/webhooks/{id}/test")
    first = site.get(f"/webhooks/{id}/deliveries?limit=1")
    rest = site.get(f"/webhooks/{id}/deliveries?limit=1&after={first['next']}")
    assert [one["id"] for one in first["items"] + rest["items"]] == [second["id"], sent["id"]]
    assert site.get(f"/deliveries/{sent['id']}")["tries"] == []
    assert site.post(f"/deliveries/{sent['id']}/retry") == {"changed": False}
    app.jobs.cancel(sent["id"])
    assert site.post(f"/deliveries/{sent['id']}/retry") == {"changed": True}
    assert site.post(f"/webhooks/{id}/recover") == {"changed": False, "deliveries": []}


def test_what_is_unknown_or_forbidden_is_refused(site: Site) -> None:
    for method, path in (
        ("GET", "/webhooks/x"),
        ("POST", "/webhooks/x/rotate"),
        ("POST", "/webhooks/x/disable"),
        ("POST", "/webhooks/x/test"),
        ("GET", "/webhooks/x/deliveries"),
        ("POST", "/webhooks/x/recover"),
        ("GET", "/deliveries/x"),
        ("POST", "/deliveries/x/retry"),
    ):
        assert site.refused(method, path)[0] == 404, path
    assert site.refused("POST", "/webhooks", {"url": "http://169.254.169.254/latest"})[0] == 422
    status, message = site.refused("POST", "/webhooks", {"url": "ftp://example.com"})
    assert (status, "url" in message) == (400, True)
    status, message = site.refused("POST", "/webhooks", {"url": URL, "events": ["nonsense"]})
    assert (status, "nonsense" in message) == (422, True)


def test_only_who_may_operate_sees_the_whole_url_and_only_an_admin_a_secret(site: Site, app: holdfast.App) -> None:
    id = site.post("/webhooks", {"url": URL})["id"]
    viewer = site.as_role("viewer")
    assert viewer.get(f"/webhooks/{id}")["url"] == "https://hooks.example.com"
    assert "s3cr3t" not in viewer.call("GET", "/api/v1/webhooks").text
    assert viewer.refused("POST", f"/webhooks/{id}/disable")[0] == 403
    operator = site.as_role("operator")
    assert operator.get(f"/webhooks/{id}")["url"] == URL
    assert operator.refused("POST", f"/webhooks/{id}/rotate")[0] == 403
    assert operator.refused("POST", "/webhooks", {"url": URL})[0] == 403
    assert len(app.audit.list(action="access.refused")) == 3


def test_a_tenant_has_endpoints_of_its_own(site: Site) -> None:
    site.post("/webhooks", {"url": URL})
    acme = site.as_role("admin", tenant="acme")
    assert acme.get("/webhooks")["items"] == []
    made = acme.post("/webhooks", {"url": URL})
    assert made["tenant"] == "acme"
    assert site.as_role("admin", tenant="globex").refused("GET", f"/webhooks/{made['id']}")[0] == 404
