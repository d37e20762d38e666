"""Django's users on the dashboard and in the admin of a Django project, under WSGI and ASGI."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.django_project.conftest import SERVERS, Project

_MAKE = """
import django; django.setup()
from holdfast.contrib.django import app
from tests.django_project import tasks
print(tasks.fail.enqueue("no ink").id)
app.drain()
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("django")
    made = Project(str(folder), Path(folder))
    made.prepare()
    yield made
    made.close()


@pytest.fixture(scope="module", params=[*SERVERS])
def address(project: Project, request: pytest.FixtureRequest) -> str:
    return project.serve(request.param)


def failed_job(project: Project) -> str:
    return project.python("-c", _MAKE).stdout.split()[0]


def log_in(browser: Browser, address: str, name: str, page: str) -> Page:
    """Open a page as a user who has to log in first."""
    opened = browser.new_context(base_url=address).new_page()
    opened.goto(page)
    opened.get_by_label("Username").fill(name)
    opened.get_by_label("Password").fill("pw")
    opened.get_by_role("button", name="Log in").click()
    return opened


def test_a_visitor_logs_in_by_django_and_comes_to_the_page(browser: Browser, address: str) -> None:
    page = log_in(browser, address, "vera", "/jobs/queues")
    expect(page).to_have_url(f"{address}/jobs/queues")
    expect(page.get_by_role("heading", level=1)).to_have_text("Queues")
    page.get_by_label("Account: vera").click()
    expect(page.get_by_text("vera, viewer")).to_be_visible()
    # Django's session is not ours to end.
    expect(page.get_by_role("button", name="Log out")).to_have_count(0)


def test_permissions_decide_what_a_job_offers(browser: Browser, project: Project, address: str) -> None:
    path = f"/jobs/jobs/{failed_job(project)}"
    viewer, operator = (log_in(browser, address, name, path) for name in ("vera", "otto"))
    for page in (viewer, operator):
        expect(page.locator("main")).to_contain_text("OutOfInk")
    expect(viewer.get_by_role("button", name="Retry")).to_have_count(0)
    operator.get_by_role("button", name="Retry", exact=True).first.click()
    expect(operator.locator(".toast-text")).to_be_visible()
    # Both pages follow the job: the viewer's was not reloaded.
    for page in (viewer, operator):
        expect(page.locator("main")).to_contain_text("Retried by otto")


def test_a_form_that_came_with_a_live_update_has_djangos_token(
    browser: Browser, project: Project, address: str
) -> None:
    page = log_in(browser, address, "otto", "/jobs/jobs?q=state:failed")
    expect(page.locator("[data-pulse]")).to_have_attribute("data-state", "on")
    job = failed_job(project)
    page.locator(f'input[type="checkbox"][value="{job}"]').check()
    page.locator('form[data-bulk] button:has-text("Retry")').first.click()
    page.get_by_role("button", name="Retry").last.click()
    expect(page.locator("main")).to_contain_text("1")
    expect(page.get_by_text("403")).to_have_count(0)
    page.goto(f"/jobs/jobs/{job}")
    expect(page.locator("main")).to_contain_text("Retried by otto")


def test_only_an_administrator_sees_tokens(browser: Browser, address: str) -> None:
    operator, administrator = (log_in(browser, address, name, "/jobs/settings") for name in ("otto", "ada"))
    expect(administrator.get_by_role("button", name="Create").first).to_be_visible()
    expect(operator.get_by_role("button", name="Create")).to_have_count(0)


def test_a_user_without_a_permission_is_refused(browser: Browser, address: str) -> None:
    page = log_in(browser, address, "nils", "/jobs/")
    expect(page.get_by_role("heading", name="403 Forbidden")).to_be_visible()


def test_the_admin_retries_a_selected_job_and_leads_to_the_dashboard(
    browser: Browser, project: Project, address: str
) -> None:
    job = failed_job(project)
    page = log_in(browser, address, "otto", "/admin/holdfast/job/?state=failed")
    page.get_by_label(f"Select {job}").check()
    page.get_by_label("Action:").select_option("retry")
    page.get_by_role("button", name="Go").click()
    expect(page.locator(".messagelist")).to_contain_text("1 job retried")
    page.get_by_role("link", name="Open the dashboard").click()
    page.goto("/jobs/audit")
    expect(page.locator("main")).to_contain_text("otto")
