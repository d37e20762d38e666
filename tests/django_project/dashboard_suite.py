"""The dashboard and the admin for Django's users, with Django's test client. Run by test_suites.py."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import connection
from django.test import AsyncClient, Client, TestCase, override_settings
from django.utils.formats import date_format

from holdfast.contrib.django import app
from holdfast.contrib.django.models import Job
from holdfast.contrib.django.testing import run_jobs
from holdfast.model.values import instant_of
from tests.django_project import tasks

FORM = "application/x-www-form-urlencoded"
PERMISSIONS = {"nils": None, "vera": "view_job", "otto": "operate_job", "ada": "administer_job"}


class Project(TestCase):
    """Users with one permission each, a failed job and a ready one."""

    @classmethod
    def setUpTestData(cls) -> None:
        for name, codename in PERMISSIONS.items():
            user = User.objects.create_user(name, password="pw", is_staff=True)
            if codename:
                user.user_permissions.add(Permission.objects.get(codename=codename, content_type__app_label="holdfast"))
        User.objects.create_superuser("root", password="pw")
        cls.failed = tasks.fail.enqueue("secret-word").id
        run_jobs()
        cls.ready = tasks.add.enqueue(4711, 2).id

    def visit(self, name: str | None) -> Client:
        client = Client(enforce_csrf_checks=True)
        if name is not None:
            client.force_login(User.objects.get(username=name))
        return client

    def token_on(self, client: Client, page: str) -> str:
        found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', client.get(page).content.decode())
        assert found is not None, page
        return found[1]

    def send(self, client: Client, page: str, **fields: str) -> Any:
        return client.post(page, urlencode(fields), content_type=FORM)


class Admission(Project):
    def test_an_anonymous_visitor_is_sent_to_djangos_login(self) -> None:
        answer = self.visit(None).get("/jobs/queues?x=1")
        self.assertRedirects(answer, "/admin/login/?next=/jobs/queues%3Fx%3D1", fetch_redirect_response=False)

    def test_a_user_without_a_permission_is_refused(self) -> None:
        for page in ("/jobs/", f"/jobs/jobs/{self.ready}", "/admin/holdfast/job/"):
            self.assertEqual(self.visit("nils").get(page).status_code, 403)

    def test_an_inactive_user_is_not_admitted(self) -> None:
        client = self.visit("ada")
        User.objects.filter(username="ada").update(is_active=False)
        self.assertEqual(client.get("/jobs/").status_code, 302)

    def test_programs_and_live_pages_get_401_instead_of_a_login_page(self) -> None:
        for page in ("/jobs/api/v1/jobs", "/jobs/live?page=/"):
            self.assertEqual(self.visit(None).get(page).status_code, 401)

    def test_styles_and_scripts_need_no_login(self) -> None:
        answer = self.visit(None).get("/jobs/static/app.css")
        self.assertEqual((answer.status_code, answer["content-type"]), (200, "text/css; charset=utf-8"))

    def test_every_page_opens_below_the_mount_for_a_superuser(self) -> None:
        client = self.visit("root")
        home = client.get("/jobs/")
        paths = set(re.findall(r'class="nav-link" href="([^"]+)"', home.content.decode()))
        self.assertGreater(len(paths), 10)
        # The store page looks at the database from another thread, which does not see a test's transaction.
        for path in paths - {"/jobs/store"}:
            self.assertTrue(path.startswith("/jobs/"), path)
            self.assertEqual(client.get(path).status_code, 200, path)

    def test_an_operator_sees_arguments_and_a_viewer_does_not(self) -> None:
        page = f"/jobs/jobs/{self.ready}"
        self.assertContains(self.visit("otto").get(page), "4711")
        self.assertNotContains(self.visit("vera").get(page), "4711")

    def test_a_search_for_words_sees_what_the_test_enqueued(self) -> None:
        found = self.visit("otto").get("/jobs/jobs?q=4711")
        self.assertContains(found, self.ready[-8:])
        self.assertNotContains(self.visit("vera").get("/jobs/jobs?q=4711"), self.ready[-8:])

    def test_a_wrong_host_is_refused_by_django(self) -> None:
        self.assertEqual(self.visit("root").get("/jobs/", headers={"host": "evil.example"}).status_code, 400)

    def test_a_name_with_a_slash_has_its_page(self) -> None:
        app.queues.pause("a/b")
        answer = self.visit("root").get("/jobs/queues/a%2Fb", RAW_URI="/jobs/queues/a%2Fb")
        self.assertContains(answer, "a/b")

    @override_settings(FORCE_SCRIPT_NAME="/shop")
    def test_links_have_the_prefix_of_the_script(self) -> None:
        self.assertContains(self.visit("root").get("/jobs/"), 'href="/shop/jobs/queues"')

    def test_a_request_in_a_transaction_of_its_own_is_served(self) -> None:
        with override_settings():
            connection.settings_dict["ATOMIC_REQUESTS"] = True
            try:
                self.assertEqual(self.visit("root").get("/jobs/").status_code, 200)
                self.assertEqual(self.visit("root").get("/admin/holdfast/job/").status_code, 200)
            finally:
                connection.settings_dict["ATOMIC_REQUESTS"] = False

    async def test_an_async_server_serves_pages_too(self) -> None:
        client = AsyncClient()
        await client.aforce_login(await User.objects.aget(username="vera"))
        answer = await client.get("/jobs/jobs")
        self.assertEqual((answer.status_code, answer["cache-control"]), (200, "no-store"))


class Actions(Project):
    def test_an_operator_acts_with_djangos_token_and_is_named_in_the_audit(self) -> None:
        client = self.visit("otto")
        token = self.token_on(client, f"/jobs/jobs/{self.ready}")
        answer = self.send(client, f"/jobs/jobs/{self.ready}/hold", csrfmiddlewaretoken=token)
        self.assertEqual((answer.status_code, answer["location"]), (303, f"/jobs/jobs/{self.ready}"))
        self.assertEqual(app.jobs.get(self.ready).state, "blocked")
        self.assertEqual(app.audit.list()[0].actor, "otto")
        self.assertContains(client.get(answer["location"]), "toast-text")

    def test_every_form_of_a_page_has_the_token(self) -> None:
        client = self.visit("root")
        for page in ("/jobs/jobs", f"/jobs/jobs/{self.failed}", "/jobs/queues", "/jobs/limits", "/jobs/settings"):
            forms = re.findall(r'<form\b[^>]*method="post".*?</form>', client.get(page).content.decode(), re.DOTALL)
            self.assertTrue(forms and all("csrfmiddlewaretoken" in form for form in forms), page)

    def test_without_the_token_nothing_is_done(self) -> None:
        client = self.visit("root")
        client.get("/jobs/")
        for fields in ({}, {"csrfmiddlewaretoken": "x" * 64}):
            self.assertEqual(self.send(client, f"/jobs/jobs/{self.ready}/cancel", **fields).status_code, 403)
        self.assertEqual(app.jobs.get(self.ready).state, "ready")

    def test_another_origin_is_refused_unless_django_trusts_it(self) -> None:
        client = self.visit("root")
        token = self.token_on(client, f"/jobs/jobs/{self.ready}")
        page, body = f"/jobs/jobs/{self.ready}/hold", urlencode({"csrfmiddlewaretoken": token})
        headers = {"origin": "https://shop.example"}
        self.assertEqual(client.post(page, body, content_type=FORM, headers=headers).status_code, 403)
        with override_settings(CSRF_TRUSTED_ORIGINS=["https://shop.example"]):
            self.assertEqual(client.post(page, body, content_type=FORM, headers=headers).status_code, 303)

    def test_a_viewer_cannot_act(self) -> None:
        client = self.visit("vera")
        token = self.token_on(self.visit("otto"), f"/jobs/jobs/{self.ready}")
        client.cookies["csrftoken"] = token
        self.assertEqual(
            self.send(client, f"/jobs/jobs/{self.ready}/cancel", csrfmiddlewaretoken=token).status_code, 403
        )
        self.assertEqual(app.jobs.get(self.ready).state, "ready")

    def test_a_program_acts_with_a_token_of_holdfast_and_no_cookie(self) -> None:
        secret = app.tokens.create("ci", role="operator").secret
        answer = Client(enforce_csrf_checks=True).post(
            f"/jobs/api/v1/jobs/{self.ready}/cancel", "{}", content_type="application/json",
            headers={"authorization": f"Bearer {secret}"},
        )  # fmt: skip
        self.assertEqual(answer.status_code, 200)
        self.assertEqual(app.audit.list()[0].actor, "token:ci")

    def test_a_token_counts_rather_than_the_session_beside_it(self) -> None:
        secret = app.tokens.create("reader", role="viewer").secret
        headers = {"authorization": f"Bearer {secret}"}
        answer = self.visit("root").post(
            f"/jobs/api/v1/jobs/{self.ready}/cancel", "{}", content_type="application/json", headers=headers
        )
        self.assertEqual(answer.status_code, 403)

    def test_the_api_takes_bodies_that_are_larger_than_a_form_of_django_may_be(self) -> None:
        secret = app.tokens.create("ci", role="operator").secret
        body = (
            '{"task": "tests.django_project.tasks.echo", "arguments": {"args": ["'
            + "x" * 900_000
            + '"], "kwargs": {}}}'
        )
        with override_settings(DATA_UPLOAD_MAX_MEMORY_SIZE=1000):
            answer = Client().post(
                "/jobs/api/v1/jobs",
                body,
                content_type="application/json",
                headers={"authorization": f"Bearer {secret}"},
            )
        self.assertEqual(answer.status_code, 201)


class LivePages(Project):
    def test_under_wsgi_a_live_page_sends_what_it_has_and_says_when_to_come_back(self) -> None:
        answer = self.visit("vera").get("/jobs/live?page=/jobs", headers={"accept-encoding": "gzip"})
        self.assertEqual((answer.status_code, answer["content-type"]), (200, "text/event-stream; charset=utf-8"))
        self.assertNotEqual(answer["content-encoding"], "gzip")
        events = re.findall(r"^event: (\w+)$", answer.content.decode(), re.MULTILINE)
        self.assertEqual((set(events[:-1]), events[-1]), ({"part"}, "later"))
        self.assertNotIn("csrfmiddlewaretoken", answer.content.decode())


class Admin(Project):
    def test_it_lists_jobs_and_links_to_the_dashboard(self) -> None:
        answer = self.visit("vera").get("/admin/holdfast/job/")
        for text in (self.failed, self.ready, "tests.django_project.tasks.fail", 'href="/jobs/"'):
            self.assertContains(answer, text)
        self.assertNotContains(answer, 'name="action"')
        self.assertContains(self.visit("vera").get("/admin/"), "/admin/holdfast/job/")

    def test_filters_and_search_narrow_the_list(self) -> None:
        client = self.visit("otto")
        for query in ("state=failed", "task=tests.django_project.tasks.fail", f"q={self.failed[:20]}", "q=secret-word"):
            answer = client.get(f"/admin/holdfast/job/?{query}")
            self.assertContains(answer, f"/{self.failed}/change/")
            self.assertNotContains(answer, f"/{self.ready}/change/")
        self.assertContains(client.get("/admin/holdfast/job/?queue=mail"), "No jobs.")

    def test_a_viewer_cannot_search_in_arguments(self) -> None:
        answer = self.visit("vera").get("/admin/holdfast/job/?q=secret-word")
        self.assertNotContains(answer, f"/{self.failed}/change/")

    def test_a_wrong_filter_is_told_and_not_an_error(self) -> None:
        for query in ("state=nonsense", "before=%00"):
            self.assertEqual(self.visit("vera").get(f"/admin/holdfast/job/?{query}").status_code, 200)

    def test_older_jobs_are_on_the_next_page(self) -> None:
        for _ in range(101):
            tasks.add.enqueue(1, 2)
        first = self.visit("vera").get("/admin/holdfast/job/")
        following = re.search(r'href="(\?before=[^"]+)"', first.content.decode())
        assert following is not None
        self.assertContains(self.visit("vera").get(f"/admin/holdfast/job/{following[1]}"), self.failed)

    def test_a_job_has_a_page_with_its_errors(self) -> None:
        page = f"/admin/holdfast/job/{self.failed}/change/"
        operator, viewer = self.visit("otto").get(page), self.visit("vera").get(page)
        self.assertContains(operator, "Traceback (most recent call last)")
        self.assertContains(operator, f'href="/jobs/jobs/{self.failed}"')
        self.assertContains(viewer, "OutOfInk")
        self.assertNotContains(viewer, "Traceback (most recent call last)")
        self.assertContains(viewer, "need the permission")

    def test_times_are_those_of_the_projects_zone(self) -> None:
        created = instant_of(app.jobs.get(self.ready).created_at).astimezone(ZoneInfo("Asia/Tokyo"))
        pages = ("/admin/holdfast/job/", f"/admin/holdfast/job/{self.ready}/change/")
        for use_tz in (True, False):
            with self.settings(USE_TZ=use_tz, TIME_ZONE="Asia/Tokyo"):
                for page in pages:
                    self.assertContains(self.visit("otto").get(page), date_format(created, "DATETIME_FORMAT"))

    def test_an_operator_retries_and_cancels_selected_jobs_under_their_name(self) -> None:
        client = self.visit("otto")
        token = self.token_on(client, "/admin/holdfast/job/")
        for action, id, state in (("retry", self.failed, "ready"), ("cancel", self.ready, "cancelled")):
            fields = {"csrfmiddlewaretoken": token, "action": action, "_selected_action": id}
            answer = client.post("/admin/holdfast/job/", fields, follow=True)
            self.assertContains(answer, "1 job")
            self.assertEqual(app.jobs.get(id).state, state)
            self.assertEqual(app.audit.list()[0].actor, "otto")

    def test_a_job_that_cannot_be_retried_is_told(self) -> None:
        client = self.visit("otto")
        token = self.token_on(client, f"/admin/holdfast/job/{self.ready}/change/")
        fields = {"csrfmiddlewaretoken": token, "action": "retry"}
        answer = client.post(f"/admin/holdfast/job/{self.ready}/change/", fields, follow=True)
        self.assertContains(answer, 'class="warning"')
        self.assertEqual(app.jobs.get(self.ready).state, "ready")

    def test_nothing_else_can_be_done(self) -> None:
        root, viewer = self.visit("root"), self.visit("vera")
        self.assertEqual(root.get("/admin/holdfast/job/add/").status_code, 403)
        self.assertEqual(root.get(f"/admin/holdfast/job/{self.ready}/delete/").status_code, 403)
        token = self.token_on(root, "/admin/holdfast/job/")
        refused = {"csrfmiddlewaretoken": token, "action": "delete", "_selected_action": self.ready}
        root.post("/admin/holdfast/job/", refused)
        viewer.cookies["csrftoken"] = token
        wanted = {"csrfmiddlewaretoken": token, "action": "cancel", "_selected_action": self.ready}
        self.assertEqual(viewer.post("/admin/holdfast/job/", wanted).status_code, 403)
        self.assertEqual(app.jobs.get(self.ready).state, "ready")

    def test_an_unknown_job_leads_back_to_the_index(self) -> None:
        self.assertRedirects(self.visit("vera").get("/admin/holdfast/job/nothing/change/"), "/admin/")

    def test_the_model_has_no_rows_and_no_migration_is_missing(self) -> None:
        self.assertEqual((Job.objects.count(), Job._base_manager.count(), Job.objects.all().delete()[0]), (0, 0, 0))
        call_command("makemigrations", "--check", "--dry-run", verbosity=0)
