"""Jobs in Django's admin: read-only, with retry and cancel as actions, which are audited under the user's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import connections
from django.http import HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_protect

from ...errors import InvalidInput, NotFound
from ...model.actions import Action
from ...model.answers import JobFilter
from ...model.jobs import TERMINAL, JobState
from ...names import counted
from ...rules.actions import ACTIONS
from ...shapes.jobs import of_job, of_job_brief
from .access import OPERATE, VIEW, identity_of, may
from .models import Job
from .project import shared_app

_PAGE: Final = 100
_FILTERS: Final = ("state", "queue", "task")
_ACTIONS: Final = (Action.RETRY, Action.CANCEL)
_SELECTED: Final = "_selected_action"


@admin.register(Job)
class JobAdmin(admin.ModelAdmin):
    """The list of jobs, and a page for each."""

    def has_module_permission(self, request: Any) -> bool:
        return may(request.user, VIEW)

    def has_view_permission(self, request: Any, obj: Any = None) -> bool:
        return may(request.user, VIEW)

    def has_add_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    @method_decorator(csrf_protect)
    def changelist_view(self, request: Any, extra_context: Any = None) -> Any:
        """Show jobs, newest first, or act on the selected ones."""
        self._check(request, VIEW)
        if request.method == "POST":
            self._act(request, request.POST.getlist(_SELECTED))
            return HttpResponseRedirect(request.get_full_path())
        asked = {name: value for name, value in request.GET.items() if value}
        try:
            page = shared_app().jobs.search(_filter(asked, payload=may(request.user, OPERATE)))
            found, following = [of_job_brief(job) for job in page.jobs], page.next
        except InvalidInput as wrong:
            self.message_user(request, str(wrong), messages.ERROR)
            found, following = [], None
        context = {
            "title": "Jobs",
            "jobs": found,
            "next": _query(asked, before=following) if following else None,
            "filters": _filters(asked),
            "asked": asked,
            "kept": {name: asked[name] for name in _FILTERS if name in asked},
        }
        return self._page(request, "change_list", context)

    @method_decorator(csrf_protect)
    def changeform_view(
        self, request: Any, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        """Show one job, or act on it."""
        self._check(request, VIEW)
        if object_id is None:
            raise PermissionDenied
        if request.method == "POST":
            self._act(request, [object_id])
            return HttpResponseRedirect(request.get_full_path())
        jobs, payload = shared_app().jobs, may(request.user, OPERATE)
        try:
            job = of_job(jobs.get(object_id, whole=False), jobs.attempts(object_id), payload=payload)
        except (NotFound, InvalidInput):
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
        context = {
            "title": f"{job.task} {job.id}",
            "job": job,
            "facts": _facts(job),
            "texts": _texts(job) if payload else [],
            "payload": payload,
            "possible": [_choice(action) for action in _ACTIONS if (action is Action.RETRY) == (job.state in TERMINAL)],
        }
        return self._page(request, "change_form", context, job_id=job.id)

    def _act(self, request: Any, ids: list[str]) -> None:
        self._check(request, OPERATE)
        verb = request.POST.get("action", "")
        if verb not in _ACTIONS or not ids:
            self.message_user(request, "Select jobs and an action; nothing was changed.", messages.WARNING)
            return
        identity = identity_of(request.user)
        assert identity is not None
        report = shared_app().jobs.bulk(verb, ids=ids, actor=identity.actor, reason="in Django's admin")
        level = messages.SUCCESS if report.changed == report.chosen else messages.WARNING
        results = ", ".join(
            f"{counted(n, 'job')} {str(result).replace('_', ' ')}" for result, n in report.counts.items()
        )
        self.message_user(request, f"{results or 'No job was found'}.", level)

    def _check(self, request: Any, permission: str) -> None:
        if not may(request.user, permission):
            raise PermissionDenied

    def _page(self, request: Any, name: str, context: Mapping[str, Any], job_id: str | None = None) -> Any:
        request.current_app = self.admin_site.name
        whole = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "may_operate": may(request.user, OPERATE),
            "actions": [_choice(action) for action in _ACTIONS],
            "dashboard": _dashboard(job_id),
            **context,
        }
        return TemplateResponse(request, f"admin/holdfast/job/{name}.html", whole)


# Actions are committed by the store, which could wait for ever for a transaction that the request itself has open.
for _name in ("changelist_view", "changeform_view"):
    setattr(vars(JobAdmin)[_name], "_non_atomic_requests", set(connections))  # noqa: B010


def _filter(asked: Mapping[str, str], *, payload: bool) -> JobFilter:
    wanted: dict[str, Any] = {name: asked[name] for name in (*_FILTERS, "before") if name in asked}
    if text := asked.get("q", "").strip():
        is_id = text[0].isdigit() and text.isalnum()
        # Arguments can be searched by those who may see them.
        wanted["id" if is_id else "text" if payload else "task"] = text
    return JobFilter(limit=_PAGE, **wanted)


def _filters(asked: Mapping[str, str]) -> list[dict[str, Any]]:
    app = shared_app()
    queues = sorted(
        {one.queue for one in app.jobs.counts()} | {queue for task in app.tasks.values() for queue in task.queues}
    )
    known = {"state": [*JobState], "queue": queues, "task": sorted(app.tasks)}
    return [
        {
            "name": name,
            "choices": [
                {
                    "label": value or "All",
                    "selected": asked.get(name, "") == value,
                    "query": _query(asked, **{name: value}),
                }
                for value in ("", *map(str, values))
            ],
        }
        for name, values in known.items()
    ]


def _query(asked: Mapping[str, str], **changes: str) -> str:
    kept = {name: value for name, value in asked.items() if name != "before"} | changes
    return "?" + urlencode({name: value for name, value in kept.items() if value})


def _choice(action: Action) -> tuple[str, str]:
    return str(action), ACTIONS[action].label


def _facts(job: Any) -> list[tuple[str, Any]]:
    given = [(name, getattr(job, name)) for name in ("created_at", "not_before", "started_at", "finished_at")]
    times = [(name, at and timezone.localtime(at)) for name, at in given]
    names = ("state", "reason", "queue", "priority", "title", "created_by", "tenant", "owner", "dedupe_key")
    attempts = f"{job.attempts} of {job.max_attempts or 'unlimited'}"
    every = [*((name, getattr(job, name)) for name in names), ("attempts", attempts), *times]
    return [(name.replace("_", " ").capitalize(), value) for name, value in every if value not in (None, "")]


def _texts(job: Any) -> list[tuple[str, str]]:
    return [
        (name, _json(value))
        for name, value in (("Arguments", job.arguments), ("Result", job.result))
        if value is not None
    ]


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _dashboard(job_id: str | None) -> str | None:
    """Return the address of the dashboard, if the project's URLs include it."""
    try:
        return str(reverse("holdfast:dashboard", args=[f"jobs/{job_id}" if job_id else ""]))
    except NoReverseMatch:
        return None
