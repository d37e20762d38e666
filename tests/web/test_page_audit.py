"""The page of the audit."""

from __future__ import annotations

import holdfast
from holdfast.web.pages.audit import changes_of, said

from .form_kit import HOSTILE, live_parts, open_page
from .web_kit import Site


def test_an_empty_audit_says_what_will_be_there(site: Site) -> None:
    assert "No records yet" in open_page(site, "/audit")


def test_records_show_who_did_what_and_what_was_so_before(site: Site, app: holdfast.App) -> None:
    app.queues.pause("mail", actor="ada", reason="the relay is down")
    page = open_page(site, "/audit")
    assert "queue.pause" in page and "ada" in page and "the relay is down" in page
    assert "<del>active</del>" in page and "<ins>paused</ins>" in page
    assert 'href="/queues/mail"' in page
    assert live_parts(site, "/audit") == 1


def test_records_are_found_by_actor_action_target_and_time(site: Site, app: holdfast.App) -> None:
    app.queues.pause("mail", actor="ada")
    app.queues.pause("media", actor="bob")
    assert 'data-key="' in open_page(site, "/audit?actor=ada&window=1h")
    assert "media" not in open_page(site, "/audit?actor=ada&window=1h")
    assert "mail" not in open_page(site, "/audit?kind=queue&target=media")
    assert "No matching records" in open_page(site, "/audit?action=job.cancel")


def test_a_target_needs_a_kind_and_unknown_fields_are_named(site: Site) -> None:
    assert "give target_kind" in open_page(site, "/audit?target=mail", 400)
    assert "colour" in site.call("GET", "/audit?colour=red").text
    assert site.call("GET", "/audit?before=%00").status_code == 400


def test_older_records_are_on_the_next_page(site: Site, app: holdfast.App) -> None:
    for i in range(52):
        app.queues.pause(f"q{i:02}") if i % 2 == 0 else app.queues.disable(f"q{i:02}")
    page = open_page(site, "/audit")
    assert "/queues/q51" in page and "/queues/q01" not in page
    older = page.split('rel="next" href="')[1].split('"')[0].replace("&amp;", "&")
    rest = open_page(site, older)
    assert "/queues/q01" in rest and "/queues/q51" not in rest
    assert "Newest" in rest


def test_a_viewer_does_not_see_what_changed(site: Site, app: holdfast.App) -> None:
    app.queues.pause("mail", reason="why not")
    page = open_page(site.as_role("viewer"), "/audit")
    assert "why not" in page
    assert "<ins>paused</ins>" not in page
    assert "needs the scope payload" in page


def test_a_tenant_sees_what_was_done_to_its_own_jobs(site: Site, app: holdfast.App) -> None:
    own = app.enqueue(app.tasks["double"].job(1), tenant="acme")
    other = app.enqueue(app.tasks["double"].job(1), tenant="globex")
    app.queues.pause("mail", reason="of all")
    for job in (own, other):
        app.jobs.cancel(job.id, actor="ada")
    page = open_page(site.as_role("operator", tenant="acme"), "/audit")
    assert own.id in page
    assert other.id not in page and "of all" not in page


def test_hostile_text_stays_text(site: Site, app: holdfast.App) -> None:
    app.queues.pause("mail", actor=HOSTILE, reason=HOSTILE)
    app.limits.set_rate(HOSTILE, capacity=1, per_second=1, actor="x")
    page = open_page(site, "/audit")
    assert "<img src=x" not in page
    assert "{{7*7}}" in page


def test_values_are_told_as_people_read_them() -> None:
    assert said("timeout", 30_000_000) == "30 s"
    assert said("valid_until", 1_800_000_000_000_000).startswith("2027-01-15")
    assert said("limits", {"tokens": "60000"}) == "tokens 60000"
    assert said("scopes", ["read", "work"]) == "read, work"
    assert said("retry", None) == "none"
    (change,) = changes_of({"a": 1, "b": 2}, {"a": 1, "b": 3})
    assert (change.name, change.before, change.after) == ("b", "2", "3")
    (only,) = changes_of(None, {"n": 4})
    assert (only.name, only.before, only.after) == ("n", None, "4")
    assert changes_of("not json", None)[0].before == "not json"
    assert changes_of(None, None) == []
