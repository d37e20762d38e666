"""What is done to jobs by hand is done in the store, and a second click says that it was."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from holdfast.clock import SECOND
from holdfast.errors import NotFound

from .hands import confirm, menu, press, still, told
from .shop import Shop


def last_act(shop: Shop, job_id: str) -> tuple[str, str, str]:
    act = shop.ask(lambda app: app.audit.list(target_kind="job", target=job_id)[0])
    return act.action, act.actor, act.reason


def test_cancelling_ends_a_job_and_keeps_the_reason(page: Page, shop: Shop) -> None:
    (job,) = shop.some(1)
    page.goto(f"/jobs/{job}")
    press(page, "Cancel")
    assert shop.state(job) == "ready", "nothing happens before the answer"
    confirm(page, "sent twice")
    told(page, "The job is cancelled.")
    assert shop.state(job) == "cancelled"
    assert last_act(shop, job) == ("job.cancel", "local", "sent twice")


def test_going_back_from_the_question_changes_nothing(page: Page, shop: Shop) -> None:
    (job,) = shop.some(1)
    page.goto(f"/jobs/{job}")
    press(page, "Cancel")
    press(page.locator("dialog#confirm"), "Go back")
    expect(page.locator("dialog#confirm")).to_be_hidden()
    assert shop.state(job) == "ready"


def test_a_second_click_says_that_it_was_done(context: BrowserContext, shop: Shop) -> None:
    (job,) = shop.some(1)
    first, second = context.new_page(), still(context.new_page())
    for page in (first, second):
        page.goto(f"/jobs/{job}")
        press(page, "Cancel")
    confirm(first)
    told(first, "The job is cancelled.")
    confirm(second)
    told(second, "The job had already finished; nothing changed.")


def test_an_open_question_stays_about_what_it_asked(page: Page, shop: Shop) -> None:
    (job,) = shop.some(1)
    page.goto(f"/jobs/{job}")
    press(page, "Cancel")
    shop.run("mail")
    expect(page.locator("[data-live-id=acts]")).to_contain_text("Run again")
    confirm(page)
    told(page, "The job had already finished; nothing changed.")
    assert shop.state(job) == "succeeded"


def test_retrying_a_failed_job_makes_it_ready(page: Page, shop: Shop) -> None:
    job = shop.failed()
    page.goto(f"/jobs/{job}")
    press(page, "Retry")
    told(page, "The job runs again")
    assert shop.state(job) == "ready"


def test_holding_and_releasing(page: Page, shop: Shop) -> None:
    (job,) = shop.some(1)
    page.goto(f"/jobs/{job}")
    press(page, "Hold")
    told(page, "The job is held.")
    assert shop.state(job) == "blocked"
    press(page, "Release")
    told(page, "The job is released.")
    assert shop.state(job) == "ready"


def test_run_now_makes_a_delayed_job_due(page: Page, shop: Shop) -> None:
    (job,) = shop.some(1, delay=3600)
    page.goto(f"/jobs/{job}")
    press(page, "Run now")
    told(page, "The job is due now.")
    due = shop.ask(lambda app: app.jobs.get(job))
    assert due.not_before < due.created_at + 3600 * SECOND


def test_changing_priority_and_queue(page: Page, shop: Shop) -> None:
    (job,) = shop.some(1)
    page.goto(f"/jobs/{job}")
    inside = menu(page, "More actions")
    inside.get_by_label("Priority").fill("7")
    press(inside, "Set priority")
    told(page, "The job has the new priority.")
    inside = menu(page, "More actions")
    inside.get_by_label("Queue").fill("reports")
    press(inside, "Move")
    told(page, "The job is moved to the other queue.")
    moved = shop.ask(lambda app: app.jobs.get(job))
    assert (moved.priority, moved.queue) == (7, "reports")


def test_deleting_removes_a_job_for_good(page: Page, shop: Shop) -> None:
    job = shop.failed()
    page.goto(f"/jobs/{job}")
    press(menu(page, "More actions"), "Delete")
    confirm(page)
    told(page, "deleted")
    with pytest.raises(NotFound):
        shop.state(job)


def test_revoking_takes_a_film_from_its_worker(page: Page, shop: Shop) -> None:
    film = shop.film("Sherlock Jr.")
    page.goto(f"/jobs/{film}")
    press(menu(page, "More actions"), "Revoke lease")
    confirm(page)
    told(page, "The job has its lease revoked and is ready again.")
    assert last_act(shop, film)[0] == "job.revoke"
    page.goto(f"/jobs/{film}")
    press(page, "Cancel")
    confirm(page)
    expect(page.locator("[data-live-id=state]")).to_contain_text("Cancelled")


def test_a_job_runs_again_with_other_arguments(page: Page, shop: Shop) -> None:
    (job,) = shop.some(1)
    page.goto(f"/jobs/{job}?tab=again")
    page.get_by_label("Arguments, as JSON").fill('{"to": "ada@example.com", "count": "many"}')
    press(page, "Enqueue new job")
    expect(page.locator(".field-error")).to_contain_text("count")
    page.get_by_label("Arguments, as JSON").fill('{"to": "ada@example.com", "count": 9007199254740993}')
    press(page, "Enqueue new job")
    told(page, "New job, created from")
    new = page.url.rpartition("/")[2]
    assert shop.ask(lambda app: app.jobs.get(new).payload) == '{"to":"ada@example.com","count":9007199254740993}'
    expect(page.locator("main")).to_contain_text("9007199254740993")


def test_a_chosen_few_are_counted_held_and_let_go_again(page: Page, shop: Shop) -> None:
    jobs = shop.some(3, tags=["chosen"])
    page.goto("/jobs?q=tag:chosen")
    for job in jobs[:2]:
        page.locator(f'tr[data-key="{job}"] [data-pick]').check()
    expect(page.locator("[data-bulk-count]")).to_have_text("2 selected")
    press(page, "Hold")
    expect(page.get_by_role("heading", level=1)).to_have_text("Hold 2 jobs?")
    assert [shop.state(job) for job in jobs] == ["ready"] * 3, "nothing happens before the answer"
    press(page, "Hold 2 jobs")
    page.get_by_role("heading", name="Held: 2 jobs").wait_for()
    assert [shop.state(job) for job in jobs] == ["blocked", "blocked", "ready"]
    press(page, "Undo: release them")
    page.get_by_role("heading", name="Released: 2 jobs").wait_for()
    assert [shop.state(job) for job in jobs] == ["ready"] * 3


def test_all_that_match_are_counted_first_and_only_they_are_cancelled(page: Page, shop: Shop) -> None:
    jobs = shop.some(60, tags=["many"])
    (other,) = shop.some(1)
    page.goto("/jobs?q=tag:many")
    page.locator("[data-pick-all]").check()
    page.locator("[data-bulk-all]").click()
    press(page, "Cancel")
    expect(page.get_by_role("heading", level=1)).to_have_text("Cancel 60 jobs?")
    (later,) = shop.some(1, tags=["many"])
    press(page, "Cancel 60 jobs")
    page.get_by_role("heading", name="Cancelled: 60 jobs").wait_for()
    assert {shop.state(job) for job in jobs} == {"cancelled"}
    assert (shop.state(other), shop.state(later)) == ("ready", "ready")


def test_many_get_another_priority_and_another_queue(page: Page, shop: Shop) -> None:
    jobs = shop.some(2, tags=["both"])
    for label, field, value in (("Set priority …", "Priority", "-3"), ("Move …", "Queue", "etl")):
        page.goto("/jobs?q=tag:both")
        page.locator("[data-pick-all]").check()
        press(page, label)
        page.get_by_label(field).fill(value)
        page.locator("main form button[type=submit]").first.click()
        page.get_by_role("heading", name="2 jobs").wait_for()
    found = shop.ask(lambda app: [app.jobs.get(job) for job in jobs])
    assert [(job.priority, job.queue) for job in found] == [(-3, "etl")] * 2


def test_retrying_all_failures_of_a_kind(page: Page, shop: Shop) -> None:
    job = shop.failed()
    shop.ask(lambda app: app.stats.roll())
    kind = shop.ask(lambda app: app.errors.list(task="billing.charge")[0].fingerprint)
    page.goto(f"/errors/{kind}")
    press(page, "Retry all …")
    page.locator("main form button[type=submit]").first.click()
    page.get_by_role("heading", name="Retried").wait_for()
    assert shop.state(job) == "ready"
    shop.run("billing")
