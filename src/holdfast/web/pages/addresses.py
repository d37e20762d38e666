"""URLs of jobs, errors and queues. Names may contain any character."""

from __future__ import annotations

from urllib.parse import quote


def job_path(job_id: str, *more: str) -> str:
    """Return the path of a job's page, or of a page below it."""
    return _path("jobs", job_id, *more)


def error_path(fingerprint: str) -> str:
    """Return the path of an error group's page."""
    return _path("errors", fingerprint)


def queue_path(name: str, *more: str) -> str:
    """Return the path of a queue's page, or of a page below it."""
    return _path("queues", name, *more)


def below(*parts: str) -> str:
    """Return the path made of these segments."""
    return _path(*parts)


def _path(*parts: str) -> str:
    return "/" + "/".join(quote(part, safe="") for part in parts)
