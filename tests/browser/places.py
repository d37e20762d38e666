"""Where the pages of the site are: for each that can be opened, addresses that show all it can look like."""

from __future__ import annotations

from typing import Final

import holdfast
from holdfast.model import JobFilter
from holdfast.model.jobs import JobState

_TABS: Final = ("overview", "attempts", "steps", "stream", "artifacts", "signals", "again")

PLACES: Final[dict[str, tuple[str, ...]]] = {
    "/login": ("/login", "/login?next=%2Fjobs"),
    "/": ("/", "/?window=4h"),
    "/enqueue": ("/enqueue", "/enqueue?task=nothing"),
    "/jobs": ("/jobs", "/jobs?state=failed", "/jobs?q=nothing-like-it", "/jobs?q=colour:red"),
    "/jobs/{job_id}": (
        *(f"/jobs/{{finished}}?tab={tab}" for tab in _TABS),
        "/jobs/{waiting}",
        "/jobs/{waiting}?tab=signals",
        "/jobs/{failed}",
        "/jobs/{failed}?tab=attempts",
        "/jobs/{film}?tab=stream",
        "/jobs/{delayed}",
    ),
    "/errors": ("/errors", "/errors?window=1h&task=nothing"),
    "/errors/{fingerprint}": ("/errors/{fingerprint}",),
    "/audit": ("/audit",),
    "/limits": ("/limits",),
    "/queues": ("/queues",),
    "/queues/{queue}": ("/queues/mail", "/queues/films"),
    "/settings": ("/settings",),
    "/store": ("/store",),
    "/workers": ("/workers",),
    "/flows": ("/flows", "/flows?state=running"),
    "/flows/{flow_id}": ("/flows/{flow}", "/flows/{old_flow}"),
    "/schedules": ("/schedules", "/schedules?make=yes"),
    "/schedules/{name}": ("/schedules/nightly", "/schedules/nightly?tab=edit", "/schedules/nightly?tab=backfill"),
    "/approvals": ("/approvals",),
    "/webhooks": ("/webhooks", "/webhooks?make=yes"),
    "/webhooks/{endpoint}": ("/webhooks/{endpoint}",),
    "/outbox": ("/outbox",),
}


def things(app: holdfast.App) -> dict[str, str]:
    """What stands in the addresses, of a shop."""

    def job(state: str, task: str, tag: str | None = None) -> str:
        return app.jobs.find(JobFilter(state=JobState(state), task=task, tag=tag))[-1].id

    flows = [flow.id for flow in app.flows.find()]
    return {
        "finished": job("succeeded", "report.write"),
        "waiting": job("suspended", "report.write"),
        "failed": job("failed", "billing.charge"),
        "film": job("running", "film.show"),
        "delayed": job("ready", "mail.send", tag="later"),
        "fingerprint": app.errors.list()[0].fingerprint,
        "flow": flows[0],
        "old_flow": flows[-1],
        "endpoint": app.webhooks.list()[0].id,
    }
