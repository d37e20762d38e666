"""Log in: exchanges a token for a session cookie that scripts cannot read."""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.responses import RedirectResponse, Response

from ..guard.cookies import drop_session, session_of, set_session
from ..guard.throttle import Throttle, caller_of
from ..wire.call import Call
from ..wire.dispatch import FORGET
from ..wire.failures import Refused
from ..wire.operation import Group
from .frame import Page
from .templates import mount_of

group = Group("Login", kind="page")

_TRIES: Final = Throttle(burst=5, per_second=1 / 12)
_SECRET: Final = 200


class LoginQuery(msgspec.Struct, frozen=True):
    """The page to open after logging in."""

    next: str = "/"


class LoginForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token, and the page to open after logging in."""

    token: str
    next: str = "/"


@group.get("/login", needs="nothing")
async def show(call: Call, query: LoginQuery) -> Page:
    return Page("login.html", {"next": own_path(query.next), "wrong": False})


@group.post("/login", needs="nothing")
async def log_in(call: Call, form: LoginForm) -> Page | Response:
    caller = caller_of(call.request)
    if wait := _TRIES.take(caller):
        raise Refused(
            429, "rate_limited", "too many attempts; try again in a moment", {"retry-after": str(int(wait) + 1)}
        )
    opened = await call.app.tokens.alogin(form.token.strip()) if len(form.token) <= _SECRET else None
    if opened is None:
        return Page("login.html", {"next": own_path(form.next), "wrong": True}, status=401)
    _TRIES.give_back(caller)
    mount = mount_of(call.request.scope)
    response = RedirectResponse(mount + own_path(form.next), 303)
    set_session(response, opened[0], mount=mount, secure=call.settings.secure)
    return response


@group.post("/logout", needs="nothing")
async def log_out(call: Call) -> Response:
    mount = mount_of(call.request.scope)
    if (session := session_of(call.request, secure=call.settings.secure)) is not None:
        await call.app.tokens.alogout(session)
        call.request.scope[FORGET](session)
    response = RedirectResponse(f"{mount}/login", 303)
    drop_session(response, mount=mount, secure=call.settings.secure)
    return response


def own_path(wanted: str) -> str:
    """Return a path on this site, never another site: anything a browser could read as a host is rejected."""
    is_own = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable()
    return wanted if is_own and "\\" not in wanted else "/"
