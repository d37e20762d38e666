"""The page of settings: who one is, settings in force, tokens and keys."""

from __future__ import annotations

import re

import pytest

import holdfast

from .form_kit import HOSTILE, answer_of, open_page, post, send
from .web_kit import Site


def test_settings_stand_with_where_they_come_from(
    site: Site, app: holdfast.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = open_page(site, "/settings")
    assert "durable" in page and "code" in page
    assert "keep_succeeded" in page
    if app.config.store.startswith("postgres"):
        assert app.config.store not in page or "@" not in app.config.store.partition("//")[2].partition("/")[0]


def test_a_token_is_shown_once_and_is_good(site: Site, app: holdfast.App) -> None:
    status, page = answer_of(site, "/settings/tokens", name="ci", role="operator", expires="90d", reason="deploys")
    assert status == 201
    (secret,) = re.findall(r"<code>(hf_[\w-]+)</code>", page)
    identity = app.tokens.identify(secret)
    assert identity is not None and identity.may("operate") and not identity.may("admin")
    assert secret not in open_page(site, "/settings")
    assert app.audit.list(action="token.create")[0].reason == "deploys"


def test_the_same_name_again_is_refused_and_said(site: Site) -> None:
    assert answer_of(site, "/settings/tokens", name="ci")[0] == 201
    status, page = answer_of(site, "/settings/tokens", name="ci", role="operator")
    assert (status, 'role="alert"' in page, 'value="ci"' in page) == (409, True, True)
    assert answer_of(site, "/settings/tokens", name="x", expires="soon")[0] == 422
    assert answer_of(site, "/settings/tokens", name="x", role="king")[0] == 400


def test_a_worker_token_may_work_and_nothing_else(site: Site, app: holdfast.App) -> None:
    _, page = answer_of(site, "/settings/tokens", name="w", role="worker", tenant="acme")
    identity = app.tokens.identify(re.findall(r"<code>(hf_[\w-]+)</code>", page)[0])
    assert identity is not None and identity.scopes == {"work"} and identity.tenant == "acme"


def test_a_token_is_confined_to_queues_and_tasks(site: Site, app: holdfast.App) -> None:
    form = {"name": "mailer", "role": "worker", "queues": "mail, sms", "tasks": "broken"}
    assert "queues mail, sms; tasks broken" in answer_of(site, "/settings/tokens", **form)[1]
    assert (app.tokens.get("mailer").queues, app.tokens.get("mailer").tasks) == (("mail", "sms"), ("broken",))
    assert "confined" in answer_of(site, "/settings/tokens", **{**form, "name": "boss", "role": "admin"})[1]


def test_a_token_is_revoked_after_a_question_and_once(site: Site, app: holdfast.App) -> None:
    made = app.tokens.create("ci", role="viewer")
    path = f"/settings/tokens/{made.id}/revoke"
    assert path in open_page(site, "/settings")
    assert answer_of(site, path)[0] == 200
    assert app.tokens.identify(made.secret) is not None
    assert "Token revoked" in send(site, path, confirmed="yes")[1]
    assert app.tokens.identify(made.secret) is None
    assert "already" in send(site, path, confirmed="yes")[1]


def test_the_signing_key_is_rotated_and_the_old_one_revoked(site: Site, app: holdfast.App) -> None:
    app.keys.seed("first", "ab" * 32)
    assert answer_of(site, "/settings/keys/rotate")[0] == 200
    send(site, "/settings/keys/rotate", confirmed="yes", reason="yearly")
    states = {key.kid: key.state for key in app.keys.list()}
    assert states.pop("first") == "retired" and set(states.values()) == {"active"}
    assert answer_of(site, "/settings/keys/first/revoke")[0] == 200
    assert "revoked" in send(site, "/settings/keys/first/revoke", confirmed="yes")[1]
    assert "already" in send(site, "/settings/keys/first/revoke", confirmed="yes")[1]
    page = open_page(site, "/settings")
    assert "ab" * 32 not in page and "Revoked" in page


@pytest.mark.parametrize(("role", "tenant"), [("viewer", None), ("operator", None), ("admin", "acme")])
def test_others_see_who_they_are_and_no_more(site: Site, app: holdfast.App, role: str, tenant: str | None) -> None:
    app.tokens.create("secret-token-name", role="viewer")
    other = site.as_role(role, tenant=tenant)
    page = open_page(other, "/settings")
    assert f"{role}-{tenant or 'all'}" in page
    assert "secret-token-name" not in page and "keep_succeeded" not in page
    assert 'action="/settings' not in page
    assert post(other, "/settings/tokens", name="mine", role="admin").status_code == 403
    assert post(other, "/settings/keys/rotate", confirmed="yes").status_code == 403


def test_hostile_names_stay_text(site: Site, app: holdfast.App) -> None:
    app.tokens.create(HOSTILE, role="viewer")
    page = open_page(site, "/settings")
    assert "<img src=x" not in page
    assert "&lt;img src=x" in page
