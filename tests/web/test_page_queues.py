"""The pages of queues: what they show, what opens and closes them, what is set for them."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

import holdfast

from .form_kit import HOSTILE, answer_of, live_parts, open_page, post, send
from .web_kit import Site


def test_no_queue_is_there_until_it_is_used(site: Site) -> None:
    assert "No queues yet" in open_page(site, "/queues")


def test_queues_are_found_by_name_and_state_and_sorted(site: Site, app: holdfast.App) -> None:
    app.enqueue(app.tasks["double"].job(1))
    app.queues.pause("mail")
    page = open_page(site, "/queues?state=paused")
    assert 'data-key="mail"' in page
    assert 'data-key="default"' not in page
    assert 'data-key="default"' in open_page(site, "/queues?q=DEF&sort=waiting")
    assert "No matching queues" in open_page(site, "/queues?q=nothing")
    assert site.call("GET", "/queues?colour=red").status_code == 400


def test_pausing_is_audited_and_a_second_click_says_so(site: Site, app: holdfast.App) -> None:
    to, said = send(site, "/queues/mail/pause", reason="the relay is down", back="queues", confirmed="yes")
    assert (to, "mail is paused" in said) == ("/queues", True)
    to, said = send(site, "/queues/mail/pause", confirmed="yes")
    assert (to, "already" in said) == ("/queues/mail", True)
    (record,) = app.audit.list(action="queue.pause")
    assert (record.actor, record.reason) == ("local", "the relay is down")
    assert "This queue is paused" in open_page(site, "/queues/mail")
    send(site, "/queues/mail/resume")
    assert app.queues.get("mail").state == "active"


@pytest.mark.parametrize(("verb", "state"), [("drain", "draining"), ("disable", "disabled")])
def test_closing_a_queue_asks_first_where_no_script_did(site: Site, app: holdfast.App, verb: str, state: str) -> None:
    status, page = answer_of(site, f"/queues/mail/{verb}", back="queues")
    assert (status, 'name="confirmed"' in page, 'name="back" value="queues"' in page) == (200, True, True)
    assert app.queues.get("mail").state == "active"
    send(site, f"/queues/mail/{verb}", confirmed="yes")
    assert app.queues.get("mail").state == state


def test_a_viewer_sees_no_actions_and_may_not_act(site: Site, app: holdfast.App) -> None:
    app.enqueue(app.tasks["double"].job(1))
    viewer = site.as_role("viewer")
    for path in ("/queues", "/queues/default"):
        assert 'method="post" action="/queues' not in open_page(viewer, path)
    assert post(viewer, "/queues/default/pause").status_code == 403
    assert app.queues.get("default").state == "active"
    assert 'action="/queues/default/pause"' in open_page(site.as_role("operator"), "/queues")


def test_a_tenant_sees_its_own_jobs_and_changes_no_queue(site: Site, app: holdfast.App) -> None:
    app.enqueue(app.tasks["double"].job(1), tenant="acme")
    app.enqueue(app.tasks["broken"].job("x"), tenant="globex")
    acme = site.as_role("operator", tenant="acme")
    page = open_page(acme, "/queues")
    assert ('data-key="default"' in page, 'data-key="mail"' in page) == (True, False)
    assert "/pause" not in page
    assert "No jobs." in open_page(acme, "/queues/mail")
    assert post(acme, "/queues/default/pause").status_code == 403
    assert post(acme, "/queues/default/settings", **{"cap": "1"}).status_code == 403


def test_hostile_names_stay_text_and_lead_to_their_page(site: Site, app: holdfast.App) -> None:
    name = "a/<b>?#%"
    app.enqueue(app.tasks["double"].options(queue=name).job(1))
    page = open_page(site, "/queues")
    assert "<b>?" not in page
    assert f"/queues/{quote(name, safe='')}" in page
    shown = open_page(site, f"/queues/{quote(name, safe='')}")
    assert "a/&lt;b&gt;?#%" in shown
    assert "No worker serves this queue" in shown
    to, _ = send(site, f"/queues/{quote(name, safe='')}/pause")
    assert to == f"/queues/{quote(name, safe='')}"
    assert app.queues.get(name).state == "paused"


def test_settings_are_set_as_people_write_them(site: Site, app: holdfast.App) -> None:
    fields = {"timeout": "30s", "keep_succeeded": "7d", "cap": "1000", "events": "all"}
    _, said = send(site, "/queues/mail/settings", **fields, retry='{"kind":"fixed","initial":5}', reason="cheap")
    assert "timeout, keep succeeded, cap, events, retry" in said
    after = app.queues.get("mail")
    assert (after.timeout, after.keep_succeeded, after.cap) == (30.0, 7 * 86_400.0, 1000)
    page = open_page(site, "/queues/mail")
    assert 'value="30s"' in page and 'value="7d"' in page
    _, said = send(site, "/queues/mail/settings", **fields, retry=json.dumps(after.retry))
    assert "nothing changed" in said
    send(site, "/queues/mail/settings", keep_succeeded="7d")
    assert app.queues.get("mail").timeout is None
    assert app.audit.list(action="queue.set")[-1].reason == "cheap"


@pytest.mark.parametrize(
    ("field", "value"),
    [("timeout", "soon"), ("timeout", "0"), ("cap", "many"), ("retry", "{"), ("retry", '{"kind":"sometimes"}')],
)
def test_a_setting_that_cannot_be_read_is_named_and_kept_in_the_form(
    site: Site, app: holdfast.App, field: str, value: str
) -> None:
    status, page = answer_of(site, "/queues/mail/settings", **{field: value, "reason": HOSTILE})
    assert (status, 'role="alert"' in page, value in page) == (422, True, True)
    assert app.queues.get("mail").timeout is None


def test_how_many_run_at_once_is_set_and_removed(site: Site, app: holdfast.App) -> None:
    send(site, "/queues/mail/at-once", kind="most", n="4", reason="slow relay")
    assert [(lane.key, lane.capacity) for lane in app.limits.show().lanes] == [("queue:mail", 4)]
    assert "queue:mail" in open_page(site, "/queues/mail")
    assert "Limit removed" in send(site, "/queues/mail/at-once", kind="most", n="")[1]
    assert "nothing changed" in send(site, "/queues/mail/at-once", kind="most", n="")[1]
    send(site, "/queues/mail/at-once", kind="total", n="6")
    assert app.limits.show().totals == {"mail": 6}
    assert "whole number" in send(site, "/queues/mail/at-once", kind="total", n="lots")[1]


def test_their_parts_can_be_followed(site: Site, app: holdfast.App) -> None:
    app.enqueue(app.tasks["double"].job(1))
    assert live_parts(site, "/queues") == 2
    assert live_parts(site, "/queues/default") == 6
