"""Settings: what is in force and where it comes from, who may come in, and the keys that sign. For administrators.

Everybody sees who he is here and what he may do.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Literal

from ...errors import Conflict, InvalidInput
from ...model.access import ROLES, SCOPES, NewToken, Token
from ...shapes.store import of_settings
from ..wire.call import Call
from ..wire.operation import Group
from .addresses import below
from .asking import ActForm, Nothing, Word, ask, back_at, span_of, words_of
from .frame import Done, Page

group = Group("Settings", kind="page")

_TOKENS: Final = 200
_ABOUT: Final = {
    "read": "look at everything but payloads",
    "payload": "see arguments, results, streams and artifacts",
    "enqueue": "enqueue jobs",
    "publish": "put events into outboxes",
    "signal": "send signals and answer approvals",
    "work": "work on jobs over HTTP",
    "operate": "act on jobs, queues, limits and workers",
    "admin": "everything, tokens and keys too",
}


_ASKED: Final = ("name", "role", "tenant", "expires", "queues", "tasks", "reason")


class TokenForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A new token: for whom, what it is good for, and for how long."""

    name: Word
    role: Literal["viewer", "operator", "admin", "worker"] = "viewer"
    tenant: Word = ""
    expires: Word = ""
    queues: Word = ""
    tasks: Word = ""


class KeyForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """For how long what the key before has signed stays good."""

    grace: Word = ""


@group.get("/settings", needs="read")
async def show(call: Call, query: Nothing) -> Page:
    """Who you are; for administrators also settings, tokens and keys."""
    return Page("settings.html", await shows(call))


async def shows(call: Call, **more: Any) -> dict[str, Any]:
    """All that the page shows to this caller."""
    scopes = [(name, _ABOUT.get(name, ""), call.may(name)) for name in SCOPES]
    found: dict[str, Any] = {"page": "settings", "scopes": scopes, "is_admin": _is_admin(call), "made": None}
    if not _is_admin(call):
        return {**found, **more}
    tokens, keys = await asyncio.gather(call.app.access.alist(limit=_TOKENS), call.app.keys.alist())
    settings = of_settings(call.app.config, call.app._code)
    rows = [(name, setting.value, setting.source) for name, setting in settings.items()]
    found |= {
        "given": [row for row in rows if row[2] != "default"],
        "defaults": [row for row in rows if row[2] == "default"],
        "tokens": [
            (token, _good_for(token), below("settings", "tokens", token.id, "revoke")) for token in reversed(tokens)
        ],
        "keys": [(key, below("settings", "keys", key.kid, "revoke")) for key in reversed(keys)],
        "asked": {**dict.fromkeys(_ASKED, ""), "role": "viewer"},
        "wrong": "",
    }
    return {**found, **more}


@group.post("/settings/tokens", needs="admin")
async def create_token(call: Call, form: TokenForm) -> Page:
    """Make a token. The answer shows its secret, this once."""
    asked = {name: str(getattr(form, name)) for name in _ASKED}
    what: dict[str, Any] = {"scopes": ["work"]} if form.role == "worker" else {"role": form.role}
    access = call.whole("the tokens").access
    try:
        made: NewToken = await access.acreate(
            form.name,
            tenant=form.tenant or None,
            expires=span_of("how long it is good", form.expires),
            queues=_names(form.queues),
            tasks=_names(form.tasks),
            actor=call.actor,
            reason=form.reason,
            **what,
        )
    except (Conflict, InvalidInput) as wrong:
        status = 409 if isinstance(wrong, Conflict) else 422
        return Page("settings.html", await shows(call, asked=asked, wrong=words_of(wrong)), status)
    return Page("settings.html", await shows(call, made=made), 201)


@group.post("/settings/tokens/{token}/revoke", needs="admin")
@back_at("/settings#tokens")
async def revoke_token(call: Call, token: str, form: ActForm) -> Done | Page:
    """Refuse a token from now on."""
    if not form.confirmed:
        text = "It and whoever has logged in with it are refused within seconds. This cannot be undone."
        return ask(
            call, form, title="Revoke this token?", text=text, go="Revoke", back="/settings#tokens", danger=True,
            page="settings",
        )  # fmt: skip
    done = await call.whole("the tokens").access.arevoke(token, actor=call.actor, reason=form.reason)
    say = "It is revoked." if done else "It was revoked already; nothing was changed."
    return Done("/settings#tokens", say, ok=done)


@group.post("/settings/keys/rotate", needs="admin")
@back_at("/settings#keys")
async def rotate_key(call: Call, form: KeyForm) -> Done | Page:
    """Sign with another key."""
    if not form.confirmed:
        text = (
            "New waitpoints are signed with a new, random key. What the old one has signed stays good until it expires."
        )
        return ask(call, form, title="Rotate the key?", text=text, go="Rotate", back="/settings#keys", page="settings")
    grace = span_of("the grace", form.grace)
    keys = call.whole("the signing keys").keys
    kid = await keys.arotate(grace=86_400.0 if grace is None else grace, actor=call.actor, reason=form.reason)
    return Done("/settings#keys", f"{kid} signs from now on.")


@group.post("/settings/keys/{kid}/revoke", needs="admin")
@back_at("/settings#keys")
async def revoke_key(call: Call, kid: str, form: ActForm) -> Done | Page:
    """Refuse what a retired key has signed."""
    if not form.confirmed:
        text = "Whatever it has signed is refused from now on: links that were sent out stop working."
        return ask(
            call, form, title=f"Revoke {kid}?", text=text, go="Revoke", back="/settings#keys", danger=True,
            page="settings",
        )  # fmt: skip
    keys = call.whole("the signing keys").keys
    before = {key.kid: key.state for key in await keys.alist()}
    if before.get(kid) == "revoked":
        return Done("/settings#keys", f"{kid} was revoked already; nothing was changed.", ok=False)
    await keys.arevoke(kid, actor=call.actor, reason=form.reason)
    return Done("/settings#keys", f"{kid} is revoked.")


def _is_admin(call: Call) -> bool:
    return call.may("admin") and not call.identity.tenant


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _good_for(token: Token) -> str:
    queues = f"; queues {', '.join(token.queues)}" if token.queues else ""
    return _role(token.scopes) + queues + (f"; tasks {', '.join(token.tasks)}" if token.tasks else "")


def _role(scopes: frozenset[str]) -> str:
    return next((role for role, own in ROLES.items() if own == scopes), ", ".join(sorted(scopes)))
