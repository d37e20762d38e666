"""Webhook endpoints in the list: URL, events and health."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ...model.webhooks import Endpoint, Health
from ...rules.webhooks import origin_of
from .addresses import below

_UNKNOWN: Final = Health()
_REASONS: Final = {
    "gone": "the endpoint answered 410 Gone",
    "failing": "no delivery succeeded for days",
    "operator": "",
}


@dataclass(frozen=True, slots=True)
class EndpointRow:
    """An endpoint. Only operators see the whole URL: its path may contain a secret."""

    endpoint: Endpoint
    path: str
    url: str
    events: str
    health: Health
    tone: str
    label: str
    """Its health in a word."""
    why: str


def row_of(endpoint: Endpoint, health: Mapping[str, Health], *, whole: bool) -> EndpointRow:
    found = health.get(endpoint.id, _UNKNOWN)
    tone, label = _standing(endpoint, found)
    return EndpointRow(
        endpoint,
        below("webhooks", endpoint.id),
        endpoint.url if whole else origin_of(endpoint.url),
        events_of(endpoint),
        found,
        tone,
        label,
        _REASONS.get(endpoint.reason or "", endpoint.reason or ""),
    )


def events_of(endpoint: Endpoint) -> str:
    """Describe the events it receives."""
    kinds = "jobs that set this webhook" if endpoint.called else ", ".join(endpoint.events or ("job",))
    return f"{kinds}, tagged {' or '.join(endpoint.tags)}" if endpoint.tags else kinds


def _standing(endpoint: Endpoint, health: Health) -> tuple[str, str]:
    if endpoint.state != "active":
        return "plain", "disabled"
    if health.breaker == "open":
        return "bad", "resting"
    if health.breaker == "half_open":
        return "warn", "one attempt"
    if health.rate is not None and health.rate < 0.9:
        return "warn", "failing"
    return ("good", "healthy") if health.rate is not None else ("info", "untried")
