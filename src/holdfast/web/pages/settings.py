"""The settings page: settings in force and their source, tokens, and signing keys, for administrators.

Every user sees their own name, role and scopes here.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Literal

from ...errors import Conflict, InvalidInput
from ...model.access import SCOPES, CreatedToken, Token
from ...shapes.store import of_settings
from ..wire.call import Call
from ..wire.operation import Group
from .forms import ActForm, Nothing, Word, ask, back_at, span_of, words_of
from .frame import Done, Page
from .templates import below

group = Group("Settings", kind="page")

_TOKENS: Final = 200
_ABOUT: Final = {
    "read": "read everything except payloads",
    "payload": "read arguments, results, streams and artifacts",
    "enqueue": "enqueue jobs",
    "publish": "add events to outboxes",
    "signal": "send signals and answer approvals",
    "work": "run jobs over HTTP",
    "operate": "operate jobs, queues, limits and workers",
    "admin": "everything, including tokens and keys",
}


_ASKED: Final = ("name", "role", "tenant", "expires", "queues", "tasks", "reason")


class TokenForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A new token: name, role, restrictions and expiry."""

    name: Word
    role: Literal["viewer", "operator", "admin", "worker"] = "viewer"
    tenant: Word = ""
    expires: Word = ""
    queues: Word = ""
    tasks: Word = ""


class KeyForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The time for which signatures of the previous key stay valid."""

    grace: Word = ""


@group.get("/settings", needs="read")
async def show(call: Call, query: Nothing) -> Page:
    """Show the current user; for administrators also settings, tokens and keys."""
    return Page("settings.html", await shows(call))


async def shows(call: Call, **more: Any) -> dict[str, Any]:
    """Return the context for this caller."""
    scopes = [(name, _ABOUT.get(name, ""), call.may(name)) for name in SCOPES]
    found: dict[str, Any] = {"page": "settings", "scopes": scopes, "is_admin": _is_admin(call), "made": None}
    if not _is_admin(call):
        return {**found, **more}
    tokens, keys = await asyncio.gather(call.app.tokens.alist(limit=_TOKENS), call.app.keys.alist())
    settings = of_settings(call.app.config, call.app._code)
    rows = [(name, setting.value, setting.source) for name, setting in settings.items()]
    found |= {
        "given": [row for row in rows if row[2] != "default"],
        "defaults": [row for row in rows if row[2] == "default"],
        "tokens": [
            (token, _permissions(token), below("settings", "tokens", token.id, "revoke")) for token in reversed(tokens)
        ],
        "keys": [(key, below("settings", "keys", key.kid, "revoke")) for key in reversed(keys)],
        "asked": {**dict.fromkeys(_ASKED, ""), "role": "viewer"},
        "wrong": "",
    }
    return {**found, **more}


@group.post("/settings/tokens", needs="admin")
async def create_token(call: Call, form: TokenForm) -> Page:
    """Create a token. The response shows its secret once."""
    asked = {name: str(getattr(form, name)) for name in _ASKED}
    what: dict[str, Any] = {"scopes": ["work"]} if form.role == "worker" else {"role": form.role}
    access = call.whole("the tokens").tokens
    try:
        made: CreatedToken = await access.acreate(
            form.name,
            tenant=form.tenant or None,
            expires=span_of("the expiry", form.expires),
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
    """Revoke a token."""
    if not form.confirmed:
        text = "The token and all sessions opened with it stop working within seconds. This cannot be undone."
        return ask(
            call, form, title="Revoke this token?", text=text, go="Revoke", back="/settings#tokens", danger=True,
            page="settings",
        )  # fmt: skip
    done = await call.whole("the tokens").tokens.arevoke(token, actor=call.actor, reason=form.reason)
    say = "Token revoked." if done else "The token was already revoked; nothing changed."
    return Done("/settings#tokens", say, ok=done)


@group.post("/settings/keys/rotate", needs="admin")
@back_at("/settings#keys")
async def rotate_key(call: Call, form: KeyForm) -> Done | Page:
    """Rotate the signing key."""
    if not form.confirmed:
        text = "New waitpoints are signed with a new random key. Existing signatures stay valid until they expire."
        return ask(call, form, title="Rotate the key?", text=text, go="Rotate", back="/settings#keys", page="settings")
    grace = span_of("the grace", form.grace)
    keys = call.whole("the signing keys").keys
    kid = await keys.arotate(grace=86_400.0 if grace is None else grace, actor=call.actor, reason=form.reason)
    return Done("/settings#keys", f"{kid} is the new signing key.")


@group.post("/settings/keys/{kid}/revoke", needs="admin")
@back_at("/settings#keys")
async def revoke_key(call: Call, kid: str, form: ActForm) -> Done | Page:
    """Revoke a retired key, so that its signatures are rejected."""
    if not form.confirmed:
        text = "All links signed with this key stop working immediately."
        return ask(
            call, form, title=f"Revoke {kid}?", text=text, go="Revoke", back="/settings#keys", danger=True,
            page="settings",
        )  # fmt: skip
    keys = call.whole("the signing keys").keys
    before = {key.kid: key.state for key in await keys.alist()}
    if before.get(kid) == "revoked":
        return Done("/settings#keys", f"{kid} was already revoked; nothing changed.", ok=False)
    await keys.arevoke(kid, actor=call.actor, reason=form.reason)
    return Done("/settings#keys", f"{kid} revoked.")


def _is_admin(call: Call) -> bool:
    return call.may("admin") and not call.identity.tenant


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _permissions(token: Token) -> str:
    queues = f"; queues {', '.join(token.queues)}" if token.queues else ""
    role = token.role or ", ".join(sorted(token.scopes))
    return role + queues + (f"; tasks {', '.join(token.tasks)}" if token.tasks else "")
