"""The addresses of things by their names, which may contain anything."""

from __future__ import annotations

from urllib.parse import quote


def job_path(job_id: str, *more: str) -> str:
    """The page of a job, or something below it."""
    return _path("jobs", job_id, *more)


def error_path(fingerprint: str) -> str:
    """The page of a kind of error."""
    return _path("errors", fingerprint)


def queue_path(name: str, *more: str) -> str:
    """The page of a queue, or something below it."""
    return _path("queues", name, *more)


def below(*parts: str) -> str:
    """An address of these segments."""
    return _path(*parts)


def _path(*parts: str) -> str:
    return "/" + "/".join(quote(part, safe="") for part in parts)
