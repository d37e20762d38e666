"""What operators do by hand to queues, limits, schedules, approvals, deliveries and tokens is done in the store."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, Page, expect

from holdfast.model import JobFilter
from tests.patience import SOON

from .hands import confirm, menu, press, still, told
from .shop import Shop, start_flow


def test_a_queue_is_paused_with_a_reason_and_resumed(page: Page, shop: Shop) -> None:
    page.goto("/queues/etl")
    press(page, "Pause")
    confirm(page, "the replica lags")
    told(page, "etl")
    assert str(shop.ask(lambda app: app.queues.get("etl").state)) == "paused"
    (act, *_) = shop.ask(lambda app: app.audit.list(action="queue.pause"))
    assert (act.actor, act.reason) == ("local", "the replica lags")
    press(page, "Resume")
    confirm(page)
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    assert str(shop.ask(lambda app: app.queues.get("etl").state)) == "active"


def test_pausing_a_paused_queue_says_so(context: BrowserContext, shop: Shop) -> None:
    first, second = context.new_page(), still(context.new_page())
    for page in (first, second):
        page.goto("/queues/reports")
        press(page, "Pause")
    confirm(first)
    told(first, "reports")
    confirm(second)
    told(second, "reports is already paused; nothing changed.")
    shop.ask(lambda app: app.queues.resume("reports"))


def test_a_budget_is_raised(page: Page, shop: Shop) -> None:
    page.goto("/limits")
    inside = menu(page, "Raise research")
    inside.get_by_label("New limit").fill("25000")
    inside.get_by_label("Reason").fill("month end")
    press(inside, "Raise")
    told(page, "research: new limit of 25000 tokens.")
    (line,) = shop.ask(lambda app: app.budgets.get("research").dimensions)
    assert line.limit == 25_000


def test_a_breaker_is_tripped_and_reset(page: Page, shop: Shop) -> None:
    page.goto("/limits")
    breaker = page.locator("#breakers").locator('tr[data-key="partner"]')
    press(breaker, "Trip")
    confirm(page)
    told(page, "partner is open.")
    assert str(shop.ask(lambda app: app.breakers.get("partner").state)) == "open"
    press(breaker, "Reset")
    confirm(page)
    told(page, "partner is closed")
    assert str(shop.ask(lambda app: app.breakers.get("partner").state)) == "closed"


def test_a_rate_is_made(page: Page, shop: Shop) -> None:
    page.goto("/limits")
    inside = menu(page, "New rate")
    inside.get_by_label("Name").fill("letters")
    inside.get_by_label("Per second").fill("2")
    inside.get_by_label("Burst").fill("10")
    press(inside, "Create")
    told(page, "letters: 2 per second, burst of 10.")
    assert "letters" in [rate.scope for rate in shop.ask(lambda app: app.limits.show().rates)]


def test_a_schedule_runs_now_and_pauses(page: Page, shop: Shop) -> None:
    page.goto("/schedules/nightly")
    press(page, "Run now")
    confirm(page, "the night was lost")
    told(page, "Enqueued by nightly.")
    job = page.url.rpartition("/")[2]
    assert shop.ask(lambda app: app.jobs.get(job).task) == "nightly"
    page.goto("/schedules/nightly")
    press(page, "Pause")
    told(page, "Paused")
    assert str(shop.ask(lambda app: app.schedules.get("nightly").state)) == "paused"
    press(page, "Resume")
    told(page, "Active")
    assert str(shop.ask(lambda app: app.schedules.get("nightly").state)) == "active"


def test_an_approval_lets_a_report_go_on_and_is_given_once(context: BrowserContext, shop: Shop) -> None:
    job = shop.waiting()
    (place,) = shop.ask(lambda app: app.signals.pending(job))
    first, second = context.new_page(), still(context.new_page())
    for page in (first, second):
        page.goto("/approvals")
    form = f'form[action="/approvals/{place.id}"]'
    press(first.locator(form), "Approve")
    told(first, "Answered; the job resumes.")
    shop.run("reports")
    assert shop.ask(lambda app: app.job(job).result(timeout=SOON)) == "approved"
    press(second.locator(form), "Reject")
    told(second, "Already answered")


def test_an_answer_is_given_on_the_page_of_the_job(page: Page, shop: Shop) -> None:
    job = shop.waiting()
    page.goto(f"/jobs/{job}")
    page.get_by_role("link", name="Answer").click()
    press(page, "No")
    told(page, "Resumed by signal 1.")
    shop.run("reports")
    assert shop.ask(lambda app: app.job(job).result(timeout=SOON)) == "refused"


def test_a_flow_is_cancelled(page: Page, shop: Shop) -> None:
    flow = shop.ask(start_flow)
    page.goto(f"/flows/{flow}")
    inside = menu(page, "Cancel the flow")
    inside.get_by_role("button").first.click()
    confirm(page, "the wrong night")
    page.locator("[data-toasts] .toast").wait_for()
    jobs = shop.ask(lambda app: app.jobs.find(JobFilter(flow=flow)))
    assert {str(job.state) for job in jobs} <= {"cancelled", "skipped"}


def test_a_webhook_is_disabled_and_enabled(page: Page, shop: Shop) -> None:
    (endpoint, *_) = shop.ask(lambda app: app.webhooks.list())
    page.goto(f"/webhooks/{endpoint.id}")
    press(menu(page, "More actions"), "Disable")
    confirm(page, "too loud")
    expect(page.get_by_role("button", name="Enable")).to_be_visible()
    assert str(shop.ask(lambda app: app.webhooks.get(endpoint.id).state)) == "disabled"
    press(page, "Enable")
    expect(page.get_by_role("button", name="Send test").first).to_be_visible()
    assert str(shop.ask(lambda app: app.webhooks.get(endpoint.id).state)) == "active"


def test_a_webhook_is_added_and_its_secret_is_shown_once(page: Page, shop: Shop) -> None:
    page.goto("/webhooks?make=yes")
    page.locator("main").get_by_label("URL").fill("https://hooks.example.com/other")
    press(page, "Add endpoint")
    expect(page.locator("main")).to_contain_text("whsec_")
    assert "https://hooks.example.com/other" in [one.url for one in shop.ask(lambda app: app.webhooks.list())]
    page.get_by_role("link", name="Go to endpoint").click()
    assert "whsec_" not in page.content()


def test_an_outbox_is_tried_again(page: Page, shop: Shop) -> None:
    page.goto("/outbox")
    press(page.locator('tr[data-key="crm"]'), "Retry now")
    told(page, "of crm")
    (act, *_) = shop.ask(lambda app: app.audit.list(action="outbox.retry"))
    assert act.actor == "local"


def test_a_token_is_made_shown_once_used_and_revoked(page: Page, shop: Shop) -> None:
    page.goto("/settings")
    card = page.locator("#new-token")
    card.get_by_label("Name").fill("ci-deploys")
    press(card, "Create token")
    secret = page.locator(".secret code").inner_text()
    known = shop.ask(lambda app: app.tokens.identify(secret))
    assert known is not None
    assert known.may("read") and not known.may("operate")
    page.goto("/settings")
    assert secret not in page.content()
    press(page.locator("#tokens").locator("tr", has_text="ci-deploys"), "Revoke")
    confirm(page, "it leaked")
    told(page, "Token revoked.")
    assert shop.ask(lambda app: app.tokens.identify(secret)) is None


def test_a_worker_is_declared_dead(page: Page, shop: Shop) -> None:
    with shop.app.worker(queues=["nothing"], name="stoker", grace=0.1) as worker:
        page.goto("/workers")
        press(menu(page, "Actions on stoker"), "Mark dead …")
        confirm(page, "it burns")
        told(page, "Marked dead")
        found = shop.ask(lambda app: {one.id: one.state for one in app.workers.list()})
        assert found.get(worker.id, "dead") == "dead"
        (act, *_) = shop.ask(lambda app: app.audit.list(target_kind="worker"))
        assert act.reason == "it burns"
