"""Names that other libraries use for calls of Holdfast, each with what to write here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

TASK: Final = {
    **dict.fromkeys(("delay", "send", "defer", "perform_async", "push", "submit", "enqueue_job"), ".enqueue(…)"),
    **dict.fromkeys(("apply_async", "send_with_options", "configure", "schedule"), ".options(…).enqueue(…)"),
    **dict.fromkeys(("kiq", "defer_async"), "await .aenqueue(…)"),
    **dict.fromkeys(("s", "si", "signature_of", "message"), ".job(…)"),
    **dict.fromkeys(("map", "chunks"), "app.enqueue_many([task.job(…), …]) or flow.map(task, …)"),
    "starmap": "app.enqueue_many([task.job(…), …]) or flow.starmap(task, …)",
}
JOB: Final = {
    **dict.fromkeys(("get", "join", "return_value", "latest_result"), ".result(timeout=…)"),
    **dict.fromkeys(("ready", "done", "is_finished", "finished"), ".state.is_terminal"),
    **dict.fromkeys(("successful", "failed", "get_status", "refresh"), ".state, or .status() for all about it"),
    **dict.fromkeys(("revoke", "abort", "kill", "stop", "terminate"), ".cancel()"),
    **dict.fromkeys(("forget", "delete"), "app.jobs.delete(job.id)"),
    "requeue": ".retry()",
}
CONTEXT: Final = {
    "retry": "raise holdfast.Retry(…)",
    "request": "ctx.job",
    **dict.fromkeys(("task_id", "job_id"), "ctx.id"),
    **dict.fromkeys(("retries", "job_try"), "ctx.attempt"),
    **dict.fromkeys(("update_state", "set_progress"), "ctx.progress(…)"),
}
WORKER: Final = dict.fromkeys(
    ("run", "start", "run_forever", "work", "serve"),
    "with app.worker(): …, or the command holdfast worker MODULE:APP",
)
APP: Final = {
    "send_task": "app.external_task(name).enqueue(…)",
    **dict.fromkeys(("conf", "config_from_object", "update_config"), "App(store, setting=…) or holdfast.toml"),
    "autodiscover_tasks": "an import of the modules that have the tasks",
    **dict.fromkeys(("add_task", "register_task", "actor"), "@app.task"),
    **dict.fromkeys(("periodic_task", "beat", "add_periodic_task", "periodic"), "@app.cron(…) or @app.every(…)"),
    **dict.fromkeys(("run", "start", "worker_main", "run_worker"), WORKER["run"]),
    **dict.fromkeys(("enqueue_in", "enqueue_at"), "task.options(delay=…) or task.options(at=…), then .enqueue(…)"),
    **dict.fromkeys(("AsyncResult", "fetch_job", "get_job"), "app.job(id)"),
}


def find_attribute(owner: Any, what: str, name: str, calls: Mapping[str, str]) -> Any:
    """Raise AttributeError for a name that `owner` lacks, with what to write here if other libraries have it."""
    if name in calls:
        raise AttributeError(f"{what} has no .{name}; use {calls[name]}", name=name, obj=owner)
    # Raises the original error: a property may have failed.
    return object.__getattribute__(owner, name)
