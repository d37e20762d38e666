"""The page of all jobs: found, paged, and acted on together."""

from __future__ import annotations

import re
from html import unescape
from importlib import import_module
from urllib.parse import quote

import pytest

import holdfast
from holdfast.model import JobFilter
from holdfast.model.jobs import JobState
from holdfast.model.stats import QueueStats
from holdfast.web.pages.jobs import JobsQuery, address, counts_of, search_of
from holdfast.web.search.query import NOTHING, Search, parse

from .page_kit import HOSTILE, forms, hidden, opened, posted, words
from .web_kit import Site


def enqueue(app: holdfast.App, n: int = 1, **options: object) -> list[str]:
    task = app.tasks["double"].options(**options)  # type: ignore[arg-type]
    return [task.enqueue(i).id for i in range(n)]


def search(site: Site, line: str) -> str:
    return opened(site, f"/jobs?q={quote(line)}")


def states(app: holdfast.App, ids: list[str]) -> set[str]:
    return {str(app.jobs.get(job_id).state) for job_id in ids}


def test_an_empty_store_says_what_to_do(site: Site) -> None:
    assert "No jobs yet" in words(opened(site, "/jobs"))


def test_jobs_are_listed_newest_first_with_their_arguments(site: Site, app: holdfast.App) -> None:
    first, second = enqueue(app, 2)
    page = opened(site, "/jobs")
    assert page.index(f'data-key="{second}"') < page.index(f'data-key="{first}"')
    assert "n: 1" in words(page)


def test_ended_jobs_are_listed_by_when_they_ended(
    site: Site, app: holdfast.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("holdfast.web.pages.jobs"), "SHOWN", 1)
    first, second = enqueue(app, delay=60)[0], enqueue(app)[0]
    app.drain()
    assert app.jobs.run_now(first)
    app.drain()
    page = search(site, "state:succeeded ended_since:1h")
    assert (f'data-key="{first}"' in page, f'data-key="{second}"' in page) == (True, False)
    (older,) = re.findall(r'rel="next" href="([^"]+)"', page)
    page = opened(site, unescape(older))
    assert (f'data-key="{first}"' in page, f'data-key="{second}"' in page) == (False, True)
    assert "No matching jobs" in search(site, "ended_until:1h")
    assert "before" in words(opened(site, "/jobs?q=ended_since:1h&before=nonsense", 422))


def test_a_viewer_sees_neither_arguments_nor_actions(site: Site, app: holdfast.App) -> None:
    app.enqueue(app.tasks["broken"].job("a secret"))
    page = opened(site.as_role("viewer"), "/jobs")
    assert "broken" in page and "a secret" not in page
    assert forms(page) == [] and "data-pick" not in page


def test_a_viewer_who_acts_nevertheless_is_refused(site: Site, app: holdfast.App) -> None:
    ids = enqueue(app)
    form = {"action": "delete", "id": ids, "confirmed": "yes"}
    assert site.as_role("viewer").call("POST", "/jobs", data=form).status_code == 403
    assert states(app, ids) == {"ready"}


def test_jobs_are_found_by_what_is_written(site: Site, app: holdfast.App) -> None:
    (tagged,) = enqueue(app, tags={"vip": "yes", "order": 4711}, priority=7)
    (other,) = enqueue(app)
    broken = app.enqueue(app.tasks["broken"].job("needle in the hay")).id
    for line, found in [
        ("tag:order=4711", [tagged]),
        ("tag:vip", []),
        ("priority:>5", [tagged]),
        ("queue:mail", [broken]),
        ('"needle in"', [broken]),
        ("task:double", [tagged, other]),
        ("state:failed", []),
    ]:
        page = search(site, line)
        assert [one for one in (tagged, other, broken) if f'data-key="{one}"' in page] == found, line


def test_who_may_not_see_arguments_cannot_search_in_them(site: Site, app: holdfast.App) -> None:
    job = app.enqueue(app.tasks["broken"].job("needle"))
    assert job.id in search(site, "needle")
    assert f'data-key="{job.id}"' not in search(site.as_role("viewer"), "needle")


def test_fields_of_links_stand_above_the_line(site: Site, app: holdfast.App) -> None:
    assert search_of(JobsQuery(q="queue:a word", queue="b", state="failed")) == parse("queue:b state:failed word")
    assert search_of(JobsQuery(tag='x "y"')).tags == ('x "y"',)
    assert search_of(JobsQuery(from_=1_700_000_000_000_000)).since == "2023-11-14T22:13:20.000000Z"
    assert address(Search(state="failed"), before="x") == "/jobs?q=state%3Afailed&before=x"


def test_what_cannot_be_read_is_named_on_the_page(site: Site) -> None:
    for path in (
        "/jobs?q=colour:red",
        "/jobs?state=purple",
        "/jobs?q=%22",
        "/jobs?before=%00",
        "/jobs?from=9" + "9" * 17,
    ):
        page = opened(site, path, 400)
        assert "search-wrong" in page
    assert "colour" in words(opened(site, "/jobs?q=colour:red", 400))
    assert "hue" in words(opened(site, "/jobs?hue=red", 400))


def test_the_id_of_a_job_leads_to_it(site: Site, app: holdfast.App) -> None:
    (job_id,) = enqueue(app)
    answer = site.call("GET", f"/jobs?q={job_id}")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs/{job_id}")
    assert "No matching jobs" in words(opened(site, f"/jobs?q={job_id[:-1]}0"))


def test_pages_go_on_to_older_jobs_and_back(site: Site, app: holdfast.App) -> None:
    ids = enqueue(app, 120)[::-1]
    seen: list[list[str]] = []
    page, path = "", "/jobs?q=task:double"
    for _ in range(3):
        page = opened(site, path)
        seen.append([one for one in ids if f'data-key="{one}"' in page])
        path = link(page, "next")
    assert path == ""
    assert seen == [ids[:50], ids[50:100], ids[100:]]
    back = opened(site, link(page, "prev"))
    assert f'data-key="{ids[50]}"' in back
    assert f'data-key="{ids[0]}"' in opened(site, link(back, "prev"))


def link(page: str, rel: str) -> str:
    rest = page.partition(f'rel="{rel}" href="')[2]
    return rest.partition('"')[0].replace("&amp;", "&") if rest else ""


def test_states_are_counted_where_counting_is_cheap(site: Site, app: holdfast.App) -> None:
    enqueue(app, 3)
    app.enqueue(app.tasks["broken"].job("x"))
    assert "Ready 4" in words(opened(site, "/jobs"))
    assert "Ready 3" in words(search(site, "queue:default"))
    assert "Ready 3" not in words(search(site, "task:double"))


def test_jobs_that_are_scheduled_for_later_have_a_list_of_their_own(site: Site, app: holdfast.App) -> None:
    enqueue(app, 2)
    (later,) = enqueue(app, delay=3600)
    assert "Scheduled 1" in words(opened(site, "/jobs"))
    listed = search(site, "label:delayed")
    assert later in listed and "1 job" in words(listed)
    assert later in opened(site, "/jobs?label=delayed&queue=default")
    assert "label=delayed" in opened(site, "/queues/default")
    assert "no label" in words(opened(site, "/jobs?label=waiting", status=400))


def test_an_estimated_count_says_so() -> None:
    queue = QueueStats.of("q", counts={"waiting": 5, "retrying": 2, "succeeded": 9}, estimated=["succeeded"])
    counts = counts_of(NOTHING, [queue])
    assert counts[JobState.READY] == (7, False)
    assert counts[JobState.SUCCEEDED] == (9, True)
    assert counts_of(Search(task="t"), [queue]) == {}


def test_a_tenant_sees_its_own_jobs_alone(site: Site, app: holdfast.App) -> None:
    (ours,), (theirs,) = enqueue(app, tenant="acme"), enqueue(app, tenant="globex")
    acme = site.as_role("operator", tenant="acme")
    page = opened(acme, "/jobs")
    assert ours in page and theirs not in page
    assert theirs not in search(acme, "tenant:globex")
    posted(acme, "/jobs", action="delete", id=[ours, theirs], confirmed="yes")
    assert [job.id for job in app.jobs.find(JobFilter())] == [theirs]


def test_hostile_names_stay_text(site: Site, app: holdfast.App) -> None:
    app.declare(HOSTILE).options(tags=[HOSTILE], tenant=HOSTILE).enqueue(x=HOSTILE)
    for page in (
        opened(site, "/jobs"),
        search(site, f'"{HOSTILE[:20]}"'),
        opened(site, f"/jobs?q={quote(HOSTILE)}", 400),
    ):
        assert "<img" not in page
    assert "7*7" in opened(site, "/jobs")


# -- many at once


def test_before_an_action_its_effect_is_counted_and_nothing_is_changed(site: Site, app: holdfast.App) -> None:
    ids = enqueue(app, 3)
    app.jobs.cancel(ids[0])
    page = posted(site, "/jobs", action="cancel", id=ids)
    said = words(page)
    assert "Cancel 2 jobs?" in said and "2 are cancelled" in said and "1 had already finished" in said
    assert states(app, ids) == {"ready", "cancelled"}


def test_what_is_confirmed_is_done_and_audited(site: Site, app: holdfast.App) -> None:
    ids = enqueue(app, 3)
    asked = posted(site, "/jobs", action="cancel", id=ids)
    page = posted(site, "/jobs", action="cancel", ids=hidden(asked, "ids"), confirmed="yes", reason="too many")
    assert "Cancelled: 3 jobs" in words(page)
    assert states(app, ids) == {"cancelled"}
    (record,) = app.audit.list(action="job.cancel")
    assert (record.actor, record.reason) == ("local", "too many")


def test_a_second_click_says_that_it_was_done(site: Site, app: holdfast.App) -> None:
    ids = enqueue(app, 2)
    posted(site, "/jobs", action="hold", id=ids, confirmed="yes")
    again = words(posted(site, "/jobs", action="hold", id=ids, confirmed="yes"))
    assert "Held: 0 jobs" in again and "2 are already held" in again


def test_a_hold_of_many_is_undone_by_one_click(site: Site, app: holdfast.App) -> None:
    ids = enqueue(app, 3)
    done = posted(site, "/jobs", action="hold", id=ids, confirmed="yes")
    assert states(app, ids) == {"blocked"}
    assert hidden(done, "action") == "release"
    posted(site, "/jobs", action="release", ids=hidden(done, "ids"), confirmed="yes")
    assert states(app, ids) == {"ready"}


def test_a_delete_offers_no_undo(site: Site, app: holdfast.App) -> None:
    ids = enqueue(app, 2)
    page = posted(site, "/jobs", action="delete", id=ids, confirmed="yes")
    assert "Deleted: 2 jobs" in words(page) and forms(page) == []
    assert app.jobs.find(JobFilter()) == []


def test_all_that_match_are_those_that_matched_when_they_were_counted(site: Site, app: holdfast.App) -> None:
    ids = enqueue(app, 60)
    asked = posted(site, "/jobs", action="hold", scope="matching", filter="task:double")
    assert "Hold 60 jobs?" in words(asked)
    (late,) = enqueue(app)
    fields = {name: hidden(asked, name) for name in ("action", "scope", "filter", "ids", "confirmed")}
    posted(site, "/jobs", 200, **fields)
    assert states(app, ids) == {"blocked"}
    assert states(app, [late]) == {"ready"}


def test_great_numbers_are_found_by_the_store_and_not_named(
    site: Site, app: holdfast.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("holdfast.web.pages.bulk"), "_NAMED", 5)
    ids = enqueue(app, 8)
    asked = posted(site, "/jobs", action="hold", scope="matching", filter="task:double")
    assert hidden(asked, "ids") == "" and "until:" in hidden(asked, "filter")
    (late,) = enqueue(app)
    posted(site, "/jobs", action="hold", scope="matching", filter=hidden(asked, "filter"), confirmed="yes")
    assert states(app, ids) == {"blocked"}
    assert states(app, [late]) == {"ready"}


def test_all_that_match_a_text_are_found_by_looking(site: Site, app: holdfast.App) -> None:
    tagged, plain = enqueue(app, 3, tags=["x"]), enqueue(app, 3)
    asked = posted(site, "/jobs", action="cancel", scope="matching", filter="tag:x")
    posted(site, "/jobs", action="cancel", scope="matching", ids=hidden(asked, "ids"), confirmed="yes")
    assert states(app, tagged) == {"cancelled"}
    assert states(app, plain) == {"ready"}


def test_priority_and_move_ask_for_their_value(site: Site, app: holdfast.App) -> None:
    ids = enqueue(app, 2)
    assert "Change the priority of 2 jobs?" in words(posted(site, "/jobs", action="set_priority", id=ids))
    assert "priority" in words(
        posted(site, "/jobs", 422, action="set_priority", id=ids, priority="high", confirmed="yes")
    )
    posted(site, "/jobs", action="set_priority", id=ids, priority="-5", confirmed="yes")
    assert {app.jobs.get(one).priority for one in ids} == {-5}
    assert "queue" in words(posted(site, "/jobs", 422, action="move", id=ids, queue="a b", confirmed="yes"))
    posted(site, "/jobs", action="move", id=ids, queue="other", confirmed="yes")
    assert {app.jobs.get(one).queue for one in ids} == {"other"}


def test_many_are_rescheduled_after_a_question(site: Site, app: holdfast.App) -> None:
    ids = enqueue(app, 2)
    asked = posted(site, "/jobs", action="reschedule", id=ids)
    assert "Reschedule 2 jobs?" in words(asked) and "2 have a new time" in words(asked)
    assert "either at or delay" in words(posted(site, "/jobs", 422, action="reschedule", id=ids, confirmed="yes"))
    done = posted(site, "/jobs", action="reschedule", id=ids, delay="1h", confirmed="yes")
    assert "Rescheduled: 2 jobs" in words(done)
    assert {app.jobs.get(one).due for one in ids} == {0}


def test_every_action_can_be_counted_for_nothing_at_all(site: Site) -> None:
    for action in ("retry", "cancel", "delete", "run_now", "hold", "release", "set_priority", "move", "reschedule"):
        assert "No jobs selected" in words(posted(site, "/jobs", action=action))


def test_an_unknown_action_is_refused(site: Site) -> None:
    assert site.call("POST", "/jobs", data={"action": "explode"}).status_code == 400
    assert site.call("POST", "/jobs", data={"action": "hold", "filter": "colour:red"}).status_code == 422


def test_a_browsers_own_form_without_a_referrer_is_taken_and_a_strangers_is_not(site: Site, app: holdfast.App) -> None:
    ids = enqueue(app)
    form = {"action": "hold", "id": ids, "confirmed": "yes"}
    own = {"origin": "null", "sec-fetch-site": "same-origin"}
    for strange in (
        {"origin": "null"},
        {"origin": "null", "sec-fetch-site": "cross-site"},
        {"origin": "null", "sec-fetch-site": "none"},
        {"origin": "http://evil.example", "sec-fetch-site": "same-origin"},
    ):
        assert site.call("POST", "/jobs", data=form, headers=strange).status_code == 403
    assert site.call("POST", "/jobs", data=form, headers=own).status_code == 200
    assert states(app, ids) == {"blocked"}
