"""The pages of webhooks: endpoints and how they fare, secrets shown once, deliveries and what is done to them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from html import unescape
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

import holdfast
from holdfast.errors import NotFound
from holdfast.outbound.policy import Policy
from tests.patience import SOON

from .browse_kit import HOSTILE, act, page, said, shown, submit
from .form_kit import live_parts
from .web_kit import Site

URL = "https://hooks.example.com/in/s3cr3t-path"


@pytest.fixture
def endpoint(app: holdfast.App) -> str:
    """One that nobody listens at."""
    return app.webhooks.add(URL, events=["job.failed", "flow"], tags=["vip"]).id


@pytest.fixture
def listening() -> Iterator[str]:
    """The address of a server that takes every message."""

    class Take(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Take)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/in"
    server.shutdown()
    thread.join(SOON)
    server.server_close()


def given_up(app: holdfast.App, endpoint: str) -> str:
    """A delivery that failed for good, since its endpoint was disabled; which is enabled again."""
    delivery = app.webhooks.test(endpoint).id
    app.webhooks.disable(endpoint)
    app.drain()
    assert app.webhooks.delivery(delivery).state == "failed"
    app.webhooks.enable(endpoint)
    return delivery


def test_without_endpoints_the_list_says_how_to_add_one(site: Site) -> None:
    assert "No endpoints yet" in page(site, "/webhooks")
    assert "Add endpoint" in page(site, "/webhooks")
    assert "Add endpoint" not in page(site.as_role("operator"), "/webhooks")


def test_the_list_shows_what_each_hears_and_how_it_fares(site: Site, app: holdfast.App, endpoint: str) -> None:
    text = shown(site, "/webhooks")
    assert "job.failed, flow, tagged vip" in text
    assert "untried" in text
    given_up(app, endpoint)
    assert "0.0 %" in shown(site, "/webhooks")
    app.webhooks.disable(endpoint, reason="too loud")
    assert "too loud" in page(site, "/webhooks")
    assert live_parts(site, "/webhooks") == 1


def test_a_url_is_whole_only_for_those_who_operate(site: Site, app: holdfast.App, endpoint: str) -> None:
    operator, viewer = site.as_role("operator"), site.as_role("viewer")
    for path in ("/webhooks", f"/webhooks/{endpoint}"):
        assert "s3cr3t-path" in page(operator, path)
        seen = page(viewer, path)
        assert "s3cr3t-path" not in seen
        assert "hooks.example.com" in seen


def test_a_new_endpoint_shows_its_secret_once(site: Site, app: holdfast.App) -> None:
    assert "Add endpoint" in page(site, "/webhooks?make=yes")
    made = submit(site, "/webhooks", url=URL, events="job.failed, flow", tags="vip", concurrency="2", reason="new")
    assert made.status_code == 200
    (found,) = app.webhooks.list()
    assert (found.events, found.tags, found.concurrency) == (("job.failed", "flow"), ("vip",), 2)
    secret = unescape(made.text).partition("data-secret>")[2].partition("<")[0]
    assert secret.startswith("whsec_")
    assert made.headers["cache-control"] == "no-store"
    for path in ("/webhooks", f"/webhooks/{found.id}"):
        assert secret not in page(site, path)
    rotated = submit(site, f"/webhooks/{found.id}/rotate", confirmed="yes")
    another = unescape(rotated.text).partition("data-secret>")[2].partition("<")[0]
    assert another.startswith("whsec_")
    assert another != secret
    assert {entry.action for entry in app.audit.list()} >= {"webhook.add", "webhook.rotate"}


def test_a_url_that_is_refused_is_said_and_kept(site: Site, app: holdfast.App) -> None:
    for url in ("http://hooks.example.com/", "https://127.0.0.1/", "nonsense"):
        answer = submit(site, "/webhooks", url=url)
        assert answer.status_code == 422
        assert "Not added" in answer.text
        assert f'value="{url}"' in answer.text
    assert app.webhooks.list() == []


def test_only_administrators_add_and_rotate(site: Site, app: holdfast.App, endpoint: str) -> None:
    operator = site.as_role("operator")
    assert submit(operator, "/webhooks", url=URL).status_code == 403
    assert submit(operator, f"/webhooks/{endpoint}/rotate", confirmed="yes").status_code == 403
    assert "/rotate" not in page(operator, f"/webhooks/{endpoint}")


def test_a_viewer_sees_no_actions_and_may_not_act(site: Site, app: holdfast.App, endpoint: str) -> None:
    app.webhooks.test(endpoint)
    viewer = site.as_role("viewer")
    assert f'action="/webhooks/{endpoint}' not in page(viewer, f"/webhooks/{endpoint}")
    for path in ("disable", "enable", "test", "recover", "delete", "rotate"):
        assert submit(viewer, f"/webhooks/{endpoint}/{path}", confirmed="yes").status_code == 403
    assert app.webhooks.get(endpoint).state == "active"


def test_switching_asks_first_and_says_so_where_nothing_changes(site: Site, app: holdfast.App, endpoint: str) -> None:
    operator = site.as_role("operator")
    assert "Disable this endpoint?" in submit(operator, f"/webhooks/{endpoint}/disable", reason="").text
    assert app.webhooks.get(endpoint).state == "active"
    assert "Disabled" in act(operator, f"/webhooks/{endpoint}/disable", reason="too loud")
    assert "too loud" in page(operator, f"/webhooks/{endpoint}")
    assert "already" in act(operator, f"/webhooks/{endpoint}/disable")
    assert "Enabled" in said(submit(operator, f"/webhooks/{endpoint}/enable"))
    assert "already" in said(submit(operator, f"/webhooks/{endpoint}/enable"))
    entry = next(entry for entry in app.audit.list() if entry.action == "webhook.disable")
    assert (entry.actor, entry.reason) == ("token:operator-all", "too loud")


def test_a_test_is_sent_and_what_came_of_it_is_shown(site: Site, app: holdfast.App, listening: str) -> None:
    app.outbound = Policy(allow_http=True, allow_private=True, ports=(int(listening.rpartition(":")[2].split("/")[0]),))
    endpoint = app.webhooks.add(listening).id
    answer = submit(site, f"/webhooks/{endpoint}/test")
    assert "Test sent" in said(answer)
    app.drain()
    text = shown(site, answer.headers["location"])
    assert "webhook.test" in text
    assert "Delivered" in text
    assert ">204<" in text
    assert "100.0 %" in text
    assert "healthy" in text
    assert live_parts(site, answer.headers["location"]) == 5


def test_what_was_given_up_is_sent_again_one_by_one_or_all(site: Site, app: holdfast.App, endpoint: str) -> None:
    delivery = given_up(app, endpoint)
    assert "Failed" in page(site, f"/webhooks/{endpoint}")
    assert "No failed attempts" not in page(site, f"/webhooks/{endpoint}?delivery={delivery}")
    assert "Sending again" in said(submit(site, f"/webhooks/{endpoint}/retry", delivery=delivery))
    assert app.webhooks.delivery(delivery).state == "ready"
    assert "Already due" in said(submit(site, f"/webhooks/{endpoint}/retry", delivery=delivery))
    app.webhooks.disable(endpoint)
    app.drain()
    app.webhooks.enable(endpoint)
    assert "Retry failed deliveries?" in submit(site, f"/webhooks/{endpoint}/recover", reason="").text
    assert "1 deliveries are being retried" in act(site, f"/webhooks/{endpoint}/recover")
    assert "No failed deliveries" in act(site, f"/webhooks/{endpoint}/recover")


def test_a_delivery_of_another_endpoint_is_not_replayed_here(site: Site, app: holdfast.App, endpoint: str) -> None:
    other = app.webhooks.add(URL).id
    delivery = given_up(app, other)
    assert "another endpoint" in said(submit(site, f"/webhooks/{endpoint}/retry", delivery=delivery))
    assert app.webhooks.delivery(delivery).state == "failed"
    assert "Message msg_" not in page(site, f"/webhooks/{endpoint}?delivery={delivery}")


def test_an_endpoint_is_deleted_after_the_question(site: Site, app: holdfast.App, endpoint: str) -> None:
    assert "Delete this endpoint?" in submit(site, f"/webhooks/{endpoint}/delete", reason="").text
    app.webhooks.get(endpoint)
    assert "deleted" in act(site, f"/webhooks/{endpoint}/delete")
    with pytest.raises(NotFound):
        app.webhooks.get(endpoint)
    assert submit(site, f"/webhooks/{endpoint}/delete", confirmed="yes").status_code == 404


def test_deliveries_are_listed_page_by_page(site: Site, app: holdfast.App, endpoint: str) -> None:
    sent = [app.webhooks.test(endpoint).id for _ in range(52)]
    first = page(site, f"/webhooks/{endpoint}")
    assert sum(f'data-key="{one}"' in first for one in sent) == 50
    older = page(site, f"/webhooks/{endpoint}?before={sent[2]}")
    assert [one for one in sent if f'data-key="{one}"' in older] == sent[:2]


def test_hostile_reasons_stay_text(site: Site, app: holdfast.App, endpoint: str) -> None:
    app.webhooks.disable(endpoint, reason=HOSTILE)
    for path in ("/webhooks", f"/webhooks/{endpoint}"):
        text = page(site, path)
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert" in text


def test_a_tenant_sees_its_own_endpoints_alone(site: Site, app: holdfast.App, endpoint: str) -> None:
    own = app.webhooks.add("https://acme.example.com/in", tenant="acme").id
    acme = site.as_role("operator", tenant="acme")
    text = page(acme, "/webhooks")
    assert own in text
    assert endpoint not in text
    page(acme, f"/webhooks/{endpoint}", 404)
    assert submit(acme, f"/webhooks/{endpoint}/disable", confirmed="yes").status_code == 404
    assert "Disabled" in act(acme, f"/webhooks/{own}/disable")
    assert app.webhooks.get(endpoint).state == "active"
