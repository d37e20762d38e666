"""What tokens and sessions are good for, and how long."""

from __future__ import annotations

import hashlib
import os
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.clock import SECOND
from holdfast.errors import InvalidInput
from holdfast.model.access import LOCAL, NOBODY, ROLES, SCOPES, CreatedToken, Identity, Session, role_of
from holdfast.rules import access
from holdfast.rules.redaction import HIDDEN, redact

NOW = 1_700_000_000 * SECOND
MINUTE = 60 * SECOND


def somebody(*scopes: str) -> Identity:
    return Identity("ada", frozenset(scopes))


def test_a_role_is_a_name_for_scopes() -> None:
    assert access.scopes_of("viewer") == {"read"}
    assert access.scopes_of("operator") == {"read", "payload", "enqueue", "signal", "operate"}
    assert access.scopes_of("admin") == set(SCOPES)
    assert access.scopes_of(["work", "read", "read"]) == {"work", "read"}


def test_an_admin_by_scope_is_an_admin_by_role() -> None:
    assert access.scopes_of(["admin"]) == ROLES["admin"]
    assert role_of(["admin"]) == "admin"


def test_scopes_that_are_a_role_are_known_by_its_name() -> None:
    for name, scopes in ROLES.items():
        assert role_of(scopes) == name
    assert role_of({"read", "enqueue"}) is None


@pytest.mark.parametrize("given", ["root", "", "Viewer", "read"])
def test_a_role_that_there_is_not_is_refused_by_naming_those_there_are(given: str) -> None:
    with pytest.raises(InvalidInput, match="viewer, operator, admin"):
        access.scopes_of(given)


@pytest.mark.parametrize("given", [["read", "write"], [], ["viewer"], [None], [["read"]], (b"read",)])
def test_a_scope_that_there_is_not_is_refused_by_naming_those_there_are(given: Any) -> None:
    with pytest.raises(InvalidInput, match="read, payload, enqueue, publish, signal, work, operate, admin"):
        access.scopes_of(given)


@pytest.mark.parametrize("given", [None, 7, b"read", {"read": True}])
def test_what_is_no_list_of_scopes_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInput, match="must be a list"):
        access.scopes_of(given)


def test_one_may_what_is_in_ones_scopes_and_an_admin_may_all() -> None:
    assert access.may(somebody("read"), "read")
    assert not access.may(somebody("read"), "payload")
    assert not access.may(somebody("operate"), "read")
    for scope in SCOPES:
        assert access.may(somebody("admin"), scope)
        assert access.may(LOCAL, scope)
        assert not access.may(NOBODY, scope)


def test_nobody_may_what_there_is_not() -> None:
    with pytest.raises(InvalidInput, match="no scope 'fly'"):
        access.may(somebody("admin"), "fly")


def test_a_bearer_of_a_token_cannot_pass_for_somebody_else_in_the_audit() -> None:
    assert Identity("local", frozenset(), via="token").actor == "token:local"
    assert Identity("local", frozenset(), via="session").actor == "token:local"
    assert LOCAL.actor == "local"
    assert Identity("ada", frozenset(), via="host").actor == "ada"


# -- secrets


def test_a_secret_is_a_prefix_and_256_bits() -> None:
    assert access.make_secret(bytes(32)) == "hf_" + "A" * 43
    secrets = {access.make_secret(os.urandom(32)) for _ in range(100)}
    assert len(secrets) == 100
    assert all(access.is_secret(secret) for secret in secrets)


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_a_secret_of_less_randomness_is_not_made(size: int) -> None:
    with pytest.raises(InvalidInput, match="32 random bytes"):
        access.make_secret(bytes(size))


def test_a_session_is_no_token_and_a_token_is_no_session() -> None:
    token = access.make_secret(bytes(32))
    session = access.make_secret(bytes(32), access.SESSION_PREFIX)
    assert not access.is_secret(session)
    assert not access.is_secret(token, access.SESSION_PREFIX)
    assert access.is_secret(session, access.SESSION_PREFIX)


@pytest.mark.parametrize(
    "text",
    [
        "", "hf_", "A" * 46, "hf_" + "A" * 42, "hf_" + "A" * 44, "hf_" + "A" * 43 + "\n", " hf_" + "A" * 43,
        "hf_" + "A" * 42 + "=", "hf_" + "é" * 43, "hf_" + "\ud800" * 43, "HF_" + "A" * 43, "hf_" + "A" * 10_000_000,
        None, 7, b"hf_" + b"A" * 43,
    ],
)  # fmt: skip
def test_what_has_not_the_form_of_a_secret_need_not_be_looked_up(text: Any) -> None:
    assert not access.is_secret(text)


def test_the_digest_is_sha_256() -> None:
    assert access.digest("hf_x") == hashlib.sha256(b"hf_x").hexdigest()
    assert access.digest("\ud800") != access.digest("\ud801")


def test_a_secret_is_not_shown_with_its_token() -> None:
    secret = access.make_secret(os.urandom(32))
    token = CreatedToken(
        id="1", name="ci", role=None, scopes=(), queues=(), tasks=(), tenant="", created_at=datetime.now(UTC),
        created_by="", expires_at=None, last_used_at=None, revoked_at=None, state="active", secret=secret,
    )  # fmt: skip
    assert secret not in repr(token)


def test_secrets_are_known_as_such_in_what_others_say() -> None:
    for prefix in (access.PREFIX, access.SESSION_PREFIX):
        secret = access.make_secret(os.urandom(32), prefix)
        assert redact(f"I was called with {secret}, it seems") == f"I was called with {HIDDEN}, it seems"
    assert redact("HF_HUB_OFFLINE is set") == "HF_HUB_OFFLINE is set"


# -- time


@pytest.mark.parametrize("given", [0, -1, float("nan"), float("inf"), "30d", True, timedelta(days=4000)])
def test_a_life_that_is_none_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInput, match="expires"):
        access.check_life(given)


def test_a_token_may_live_for_ever() -> None:
    assert access.check_life(None) is None
    assert access.check_life(timedelta(days=30)) == 30 * 86_400 * SECOND


def test_a_token_is_active_until_it_expires_or_is_revoked() -> None:
    assert access.state_of(None, None, NOW) == "active"
    assert access.state_of(None, NOW + 1, NOW) == "active"
    assert access.state_of(None, NOW, NOW) == "expired"
    assert access.state_of(NOW, None, NOW) == "revoked"
    assert access.state_of(NOW, NOW - 1, NOW) == "revoked"


@pytest.mark.parametrize(
    ("age", "idle", "is_open"),
    [
        (0, 0, True),
        (600, 30 * MINUTE - 1, True),
        (600, 30 * MINUTE, False),
        (12 * 60 * MINUTE - 1, 0, True),
        (12 * 60 * MINUTE, 0, False),
        # The clock was set back.
        (-MINUTE, -MINUTE, True),
    ],
)
def test_a_session_is_open_while_it_is_used_and_young(age: int, idle: int, is_open: bool) -> None:
    assert access.is_open(Session(NOW - age, NOW - idle), NOW) == is_open
    assert not access.is_open(Session(NOW - age, NOW - idle, ended_at=NOW), NOW)


def test_a_use_is_noted_once_in_a_minute() -> None:
    assert access.is_noteworthy(None, NOW)
    assert not access.is_noteworthy(NOW - MINUTE + 1, NOW)
    assert access.is_noteworthy(NOW - MINUTE, NOW)
