"""Django's users as callers of the dashboard: their permissions give the roles of Holdfast."""

from __future__ import annotations

from typing import Any, Final

from django.contrib.auth import SESSION_KEY, get_user
from django.db import connections
from django.http import HttpRequest

from ...model.access import ADMIN, ROLES, Identity

VIEW: Final = "holdfast.view_job"
OPERATE: Final = "holdfast.operate_job"
ADMINISTER: Final = "holdfast.administer_job"
_ROLES: Final = ((ADMINISTER, ADMIN), (OPERATE, "operator"), (VIEW, "viewer"))
"""The role that each permission gives, the widest first. Superusers have every permission."""


def identity_of(user: Any) -> Identity | None:
    """Return a user as a caller; None without a permission. The name is that in the audit."""
    if user is None or not user.is_authenticated or not user.is_active:
        return None
    role = next((role for permission, role in _ROLES if user.has_perm(permission)), None)
    return None if role is None else Identity(user.get_username(), ROLES[role], via="host")


def may(user: Any, permission: str) -> bool:
    """Return whether a user has a permission, or one that includes it."""
    identity = identity_of(user)
    scope = {VIEW: "read", OPERATE: "operate", ADMINISTER: ADMIN}[permission]
    return identity is not None and identity.may(scope)


def identify_again(request: Any) -> Identity | None:
    """Return who the sender of an earlier request is now: logged out, or with other permissions. For a thread."""
    try:
        session = getattr(request, "session", None)
        if session is None or SESSION_KEY not in session:
            # Known by other means than the session, such as a header of the proxy.
            return identity_of(type(request.user)._default_manager.filter(pk=request.user.pk).first())
        again: Any = HttpRequest()
        again.session = type(session)(session.session_key)
        return identity_of(get_user(again))
    finally:
        connections.close_all()
