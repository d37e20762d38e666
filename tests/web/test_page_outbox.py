"""The page of outboxes: what waits, what was abandoned, and trying again."""

from __future__ import annotations

import pytest

import holdfast

from .browse_kit import HOSTILE, act, page, said, shown, submit
from .form_kit import live_parts
from .web_kit import Site


@pytest.fixture
def cloud(app: holdfast.App) -> holdfast.App:
    """An app with a destination that gives up what is of the kind "bad", and puts off what is of the kind "late"."""

    @app.destination("cloud")
    async def cloud(events: list[holdfast.model.OutboxEvent]) -> holdfast.outcomes.Rejected:
        if any(event.kind == "late" for event in events):
            raise ConnectionError("503 Service Unavailable")
        return holdfast.outcomes.Rejected(
            {event.id: "the account is closed" for event in events if event.kind == "bad"}
        )

    return app


def counts(app: holdfast.App, name: str = "cloud") -> tuple[int, int, int]:
    (found,) = [one for one in app.outbox.list() if one.name == name]
    return found.pending + found.parked, found.abandoned, found.delivered


def test_without_destinations_the_page_says_how_to_make_one(site: Site, app: holdfast.App) -> None:
    assert "No outbox yet" in page(site, "/outbox")


def test_a_destination_without_entries_is_shown(site: Site, cloud: holdfast.App) -> None:
    text = page(site, "/outbox")
    assert ">cloud<" in text
    assert "Retry now" not in text


def test_the_page_shows_what_is_where_and_since_when(site: Site, cloud: holdfast.App) -> None:
    box = cloud.outbox("cloud")
    for kind in ("fine", "bad", "bad"):
        box.put({"n": 1}, kind=kind)
    cloud.drain()
    box.put({"n": 1}, kind="late")
    cloud.drain()
    assert counts(cloud) == (1, 2, 1)
    text = shown(site, "/outbox")
    assert "/jobs?state=failed&queue=outbox.cloud" in text
    assert text.count("oldest <time") >= 2
    assert live_parts(site, "/outbox") == 1


def test_retry_now_makes_due_what_waits_and_says_so_the_second_time(site: Site, cloud: holdfast.App) -> None:
    cloud.outbox("cloud").put({"n": 1}, kind="late")
    cloud.drain()
    operator = site.as_role("operator")
    assert "1 entry of cloud" in said(submit(operator, "/outbox/cloud/retry", reason="it is back"))
    entry = next(entry for entry in cloud.audit.list() if entry.action == "outbox.retry")
    assert (entry.actor, entry.target, entry.reason) == ("token:operator-all", "cloud", "it is back")
    assert "already due" in said(submit(operator, "/outbox/cloud/retry", reason=""))


def test_a_drain_counts_by_kind_first(site: Site, cloud: holdfast.App) -> None:
    for _ in range(3):
        cloud.outbox("cloud").put({"n": 1}, kind="bad")
    cloud.drain()
    dry = submit(site, "/outbox/cloud/drain", older_than="")
    assert "nothing has been changed yet" in dry.text
    assert ">bad<" in dry.text
    assert "Retry 3" in dry.text
    assert counts(cloud) == (0, 3, 0)
    none = submit(site, "/outbox/cloud/drain", older_than="30d")
    assert "No entries of that age are abandoned" in none.text
    assert "3 entries of cloud will be retried" in act(site, "/outbox/cloud/drain")
    assert counts(cloud) == (3, 0, 0)
    assert "no abandoned entries" in act(site, "/outbox/cloud/drain")
    assert {entry.action for entry in cloud.audit.list()} >= {"outbox.drain"}


def test_an_age_that_makes_no_sense_is_said(site: Site, cloud: holdfast.App) -> None:
    assert '"ok": false' in said(submit(site, "/outbox/cloud/drain", older_than="for ever"))


def test_a_viewer_sees_no_actions_and_may_not_act(site: Site, cloud: holdfast.App) -> None:
    cloud.outbox("cloud").put({"n": 1}, kind="bad")
    cloud.drain()
    viewer = site.as_role("viewer")
    assert 'action="/outbox/' not in page(viewer, "/outbox")
    assert submit(viewer, "/outbox/cloud/drain", confirmed="yes").status_code == 403
    assert submit(viewer, "/outbox/cloud/retry", reason="").status_code == 403
    assert counts(cloud) == (0, 1, 0)


def test_a_tenant_sees_and_drains_its_own_entries_alone(site: Site, cloud: holdfast.App) -> None:
    cloud.scoped("acme").outbox("cloud").put({"n": 1}, kind="bad")
    cloud.outbox("cloud").put({"n": 2}, kind="bad")
    cloud.drain()
    assert "of that age" not in page(site.as_role("viewer", tenant="globex"), "/outbox")
    acme = site.as_role("operator", tenant="acme")
    assert "Retry 1" in submit(acme, "/outbox/cloud/drain", older_than="").text
    act(acme, "/outbox/cloud/drain")
    assert counts(cloud) == (1, 1, 0)


def test_hostile_kinds_stay_text(site: Site, cloud: holdfast.App) -> None:
    @cloud.destination("other")
    async def other(events: list[holdfast.model.OutboxEvent]) -> holdfast.outcomes.Rejected:
        return holdfast.outcomes.Rejected({event.id: "no" for event in events})

    cloud.outbox("other").put({"n": 1}, kind=HOSTILE)
    cloud.drain()
    text = submit(site, "/outbox/other/drain", older_than="").text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text
