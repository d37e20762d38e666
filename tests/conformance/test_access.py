"""Tokens and sessions in the store: good until they are not, read without writing, and recorded with what was done."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from holdfast import App
from holdfast.client.access import Access
from holdfast.clock import SECOND
from holdfast.errors import InvalidInput, NotFound, StorageFull, TokenConflict, UnknownTenant
from holdfast.ids import ids
from holdfast.model.access import Identity, Token
from holdfast.model.audit import AuditFilter
from holdfast.rules.access import digest, make_secret
from holdfast.storage.ops import access
from holdfast.storage.ops.audit import list_audit
from holdfast.storage.port import Op, Tx

from .racing import all_at_once
from .world import World

YEAR = 365 * 86_400 * SECOND


def secret_of(seed: str) -> str:
    return make_secret(digest(seed).encode()[:32])


def make(world: World, name: str = "ci", **fields: Any) -> Token:
    """A token whose secret is made of its name."""
    given = {
        "id": ids.new(), "name": name, "digest": digest(secret_of(name)), "scopes": {"read"}, "tenant": "",
        "expires": None, "actor": "ada", **fields,
    }  # fmt: skip
    return world.run(access.create, **given)


def known(world: World, name: str = "ci") -> str | None:
    found = world.read(access.identify, digest(secret_of(name)))
    return None if found is None else found.token.id


def log_in(world: World, name: str = "ci", session: str = "browser") -> Token | None:
    return world.run(access.open_session, digest(secret_of(name)), digest(session))


def resumed(world: World, session: str = "browser") -> str | None:
    found = world.read(access.identify_session, digest(session))
    return None if found is None else found.token.id


def recorded(world: World) -> list[tuple[str, str, str]]:
    found = world.read(list_audit, AuditFilter(target_kind="token"))
    return [(one.action, one.actor, one.target) for one in reversed(found)]


def client(world: World) -> Access:
    return Access(lambda: world.store, lambda tenant: tenant or "")


# -- tokens


def test_a_token_is_known_by_the_hash_of_its_secret_and_by_nothing_else(world: World) -> None:
    token = make(world, scopes={"work", "read"}, tenant="acme", expires=60 * SECOND)
    assert (token.name, token.scopes, token.tenant) == ("ci", ("read", "work"), "acme")
    assert (token.created_at, token.created_by) == (world.instant, "ada")
    assert token.expires_at == world.instant + timedelta(seconds=60)
    assert (token.last_used_at, token.revoked_at, token.state) == (None, None, "active")
    assert world.read(access.list_tokens, "", 10) == [token]
    assert known(world) == token.id
    assert known(world, "another") is None
    # Who reads the database has no way in.
    ((stored,),) = world.sql("select hash from holdfast_token")
    assert world.read(access.identify, stored[:-1]) is None
    assert world.read(access.identify, digest(stored)) is None


def test_an_expired_token_is_refused_and_gives_its_name_back(world: World) -> None:
    first = make(world, expires=60 * SECOND)
    world.clock.advance(59)
    assert known(world) == first.id
    world.clock.advance(1)
    assert known(world) is None
    assert world.read(access.find, "ci").state == "expired"
    second = make(world, digest=digest(secret_of("again")))
    assert known(world, "again") == second.id
    assert known(world) is None
    assert world.read(access.find, "ci").id == second.id


def test_a_revoked_token_is_refused_and_gives_its_name_back(world: World) -> None:
    first = make(world)
    assert world.run(access.revoke, "ci", actor="bob", reason="it leaked")
    assert not world.run(access.revoke, "ci", actor="bob")
    assert not world.run(access.revoke, first.id, actor="bob")
    assert known(world) is None
    second = make(world, digest=digest(secret_of("again")))
    assert world.run(access.revoke, second.id, actor="bob")
    assert [token.state for token in world.read(access.list_tokens, "", 10)] == ["revoked", "revoked"]
    assert recorded(world) == [
        ("token.create", "ada", first.id),
        ("token.revoke", "bob", first.id),
        ("token.create", "ada", second.id),
        ("token.revoke", "bob", second.id),
    ]


def test_a_name_is_in_force_once(world: World) -> None:
    token = make(world)
    with pytest.raises(TokenConflict, match="'ci' is in force; revoke it first") as refused:
        make(world, digest=digest("another"))
    assert refused.value.name == "ci"
    assert world.read(access.list_tokens, "", 10) == [token]
    assert len(recorded(world)) == 1


def test_of_those_who_want_a_name_at_once_one_gets_it(two_worlds: tuple[World, World]) -> None:
    def attempt(world: World, n: int) -> bool:
        try:
            make(world, digest=digest(f"secret {n}"))
        except TokenConflict:
            return False
        return True

    made = all_at_once([lambda world=world, n=n: attempt(world, n) for n, world in enumerate(two_worlds * 3)])
    assert made.count(True) == 1


def test_an_id_is_found_before_a_name_that_looks_like_it(world: World) -> None:
    token = make(world)
    make(world, token.id, digest=digest("another"))
    assert world.read(access.find, token.id).id == token.id


def test_what_is_not_there_is_not_found(world: World) -> None:
    with pytest.raises(NotFound, match="no token 'ci'"):
        world.run(access.revoke, "ci", actor="bob")


def test_the_list_comes_by_page(each_store: World) -> None:
    made = [make(each_store, f"t{n}").id for n in range(5)]
    first = each_store.read(access.list_tokens, "", 3)
    rest = each_store.read(access.list_tokens, first[-1].id, 3)
    assert [token.id for token in [*first, *rest]] == made


def test_a_use_is_noted_once_in_a_minute(world: World) -> None:
    token = make(world)
    world.run(access.touch, token.id)
    at = world.instant
    world.clock.advance(59)
    world.run(access.touch, token.id)
    found = world.read(access.identify, digest(secret_of("ci")))
    assert found is not None
    assert (found.token.last_used_at, found.noteworthy) == (at, False)
    world.clock.advance(1)
    found = world.read(access.identify, digest(secret_of("ci")))
    assert found is not None
    assert found.noteworthy
    world.run(access.touch, token.id)
    assert world.read(access.find, "ci").last_used_at == world.instant


def test_what_is_rolled_back_leaves_neither_a_token_nor_a_record(each_store: World) -> None:
    async def fail(tx: Tx) -> None:
        await access.create(
            tx, id="1", name="ci", digest=digest("x"), scopes={"read"}, tenant="", expires=None, actor="ada"
        )
        raise RuntimeError("changed my mind")

    with pytest.raises(RuntimeError):
        each_store.store.write(Op(fail))
    assert each_store.read(access.list_tokens, "", 10) == []
    assert recorded(each_store) == []


# -- sessions


def test_a_session_stands_for_its_token_until_it_is_ended(world: World) -> None:
    token = make(world)
    opened = log_in(world)
    assert opened is not None
    assert opened.id == token.id == resumed(world)
    assert world.read(access.find, "ci").last_used_at == world.instant
    assert world.run(access.end_session, digest("browser"))
    assert not world.run(access.end_session, digest("browser"))
    assert not world.run(access.end_session, digest("nothing"))
    assert resumed(world) is None
    assert recorded(world)[1:] == [
        ("token.login", "token:ci", token.id),
        ("token.logout", "token:ci", token.id),
    ]


def test_a_token_that_is_no_good_opens_nothing(world: World) -> None:
    make(world, "late", expires=SECOND)
    make(world, "gone")
    world.run(access.revoke, "gone", actor="ada")
    world.clock.advance(1)
    before = recorded(world)
    assert [log_in(world, name) for name in ("late", "gone", "nobody")] == [None, None, None]
    assert world.sql("select count(*) from holdfast_session") == [(0,)]
    assert recorded(world) == before


def test_a_session_ends_with_its_token(world: World) -> None:
    make(world, "late", expires=60 * SECOND)
    make(world, "gone")
    log_in(world, "late", "one")
    log_in(world, "gone", "two")
    assert resumed(world, "one") and resumed(world, "two")
    world.run(access.revoke, "gone", actor="ada")
    assert resumed(world, "two") is None
    world.clock.advance(60)
    assert resumed(world, "one") is None


def test_a_session_that_is_not_used_ends_after_half_an_hour_and_is_not_revived(world: World) -> None:
    make(world)
    log_in(world)
    world.clock.advance(29 * 60)
    assert resumed(world)
    world.run(access.touch_session, digest("browser"))
    world.clock.advance(29 * 60)
    assert resumed(world)
    world.clock.advance(60)
    assert resumed(world) is None
    world.run(access.touch_session, digest("browser"))
    assert resumed(world) is None


def test_no_session_lasts_longer_than_twelve_hours(world: World) -> None:
    make(world)
    log_in(world)
    for _ in range(12 * 3 - 1):
        world.clock.advance(20 * 60)
        assert resumed(world)
        world.run(access.touch_session, digest("browser"))
    world.clock.advance(20 * 60)
    assert resumed(world) is None


def test_what_is_over_is_pruned_and_what_is_not_stays(world: World) -> None:
    make(world, "kept")
    make(world, "late", expires=SECOND)
    make(world, "gone")
    for name in ("kept", "gone"):
        log_in(world, name, name)
    world.run(access.revoke, "gone", actor="ada")
    assert not world.read(access.is_over, YEAR)
    world.clock.advance(12 * 3600)
    log_in(world, "kept", "young")
    assert world.read(access.is_over, YEAR)
    assert world.run(access.prune, YEAR) == 2
    assert not world.read(access.is_over, YEAR)
    assert resumed(world, "young")
    world.clock.advance(YEAR / SECOND)
    assert world.run(access.prune, YEAR) == 3
    assert [token.name for token in world.read(access.list_tokens, "", 10)] == ["kept"]
    assert not world.read(access.is_over, YEAR)


def test_a_token_is_kept_at_least_as_long_as_its_sessions(each_store: World) -> None:
    make(each_store)
    log_in(each_store)
    each_store.run(access.revoke, "ci", actor="ada")
    assert not each_store.read(access.is_over, 0)
    assert each_store.run(access.prune, 0) == 0


# -- the client


def test_the_client_makes_identifies_and_revokes(each_store: World) -> None:
    found = client(each_store)
    made = found.create("ci", role="operator", tenant="acme", expires=60, actor="ada", reason="builds")
    caller = Identity("ci", frozenset(made.scopes), "acme", "token", made.id)
    assert found.identify(made.secret) == caller
    assert found.get("ci").last_used_at == each_store.instant
    opened = found.login(made.secret)
    assert opened is not None
    session, seen = opened
    assert seen == Identity("ci", frozenset(made.scopes), "acme", "session", made.id) == found.session(session)
    assert found.identify(session) is None
    assert found.session(made.secret) is None
    assert found.login(session) is None
    assert found.logout(session)
    assert not found.logout(session)
    assert found.session(session) is None
    assert found.revoke("ci")
    assert found.identify(made.secret) is None
    assert found.login(made.secret) is None
    assert [token.state for token in found.list()] == ["revoked"]


def test_the_awaiting_twins_do_the_same(each_store: World) -> None:
    found = client(each_store)

    async def live() -> None:
        made = await found.acreate("ci", scopes=["read"])
        caller = await found.aidentify(made.secret)
        assert caller is not None
        assert caller.scopes == {"read"}
        opened = await found.alogin(made.secret)
        assert opened is not None
        assert await found.asession(opened[0]) == opened[1]
        each_store.clock.advance(1799)
        assert await found.asession(opened[0]) == opened[1]
        each_store.clock.advance(1799)
        assert await found.asession(opened[0]) == opened[1]
        assert await found.alogout(opened[0])
        assert await found.asession(opened[0]) is None
        await found.anote(caller.actor, "job.cancel", "some job", reason="refused", tenant="acme")
        assert (await found.aget("ci")).id == made.id
        assert await found.arevoke(made.id)
        assert [token.state for token in await found.alist()] == ["revoked"]
        assert await found.aidentify(made.secret) is None
        assert await found.alogin(made.secret) is None

    asyncio.run(live())


def test_a_use_extends_a_session_by_itself(each_store: World) -> None:
    found = client(each_store)
    opened = found.login(found.create("ci", role="viewer").secret)
    assert opened is not None
    for _ in range(5):
        each_store.clock.advance(1799)
        assert found.session(opened[0]) == opened[1]


def test_a_refused_attempt_is_on_record(each_store: World) -> None:
    client(each_store).note("token:ci", "job.cancel", "some job", reason="refused: needs operate", tenant="acme")
    (record,) = each_store.read(list_audit, AuditFilter(tenant="acme"))
    assert (record.actor, record.action, record.target) == ("token:ci", "job.cancel", "some job")
    assert record.reason == "refused: needs operate"


@pytest.mark.parametrize(
    "text", ["", "hf_", "hf_" + "x" * 43, "hf_" + "\ud800" * 43, "' or 1=1 --", "\x00", "x" * 100_000]
)
def test_what_is_no_secret_is_nobodys(each_store: World, text: str) -> None:
    found = client(each_store)
    assert found.identify(text) is None
    assert found.login(text) is None
    assert found.session(text) is None
    assert found.session("hfs_" + text) is None
    assert not found.logout(text)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "", "role": "viewer"}, "the token's name is empty"),
        ({"name": "x" * 129, "role": "viewer"}, "shorten it to 128"),
        ({"name": "a\x1b[2J", "role": "viewer"}, "contains U\\+001B"),
        ({"name": "ci"}, "a role or scopes"),
        ({"name": "ci", "role": "viewer", "scopes": ["read"]}, "not both"),
        ({"name": "ci", "role": "root"}, "there is no role 'root'; use viewer, operator, admin"),
        ({"name": "ci", "scopes": ["fly"]}, "there is no scope 'fly'; use one or more of read"),
        ({"name": "ci", "scopes": []}, "good for nothing"),
        ({"name": "ci", "scopes": "read"}, "write scopes=\\['read'\\]"),
        ({"name": "ci", "role": "viewer", "expires": 0}, "more than 0 seconds"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(each_store: World, given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        client(each_store).create(**given)
    assert each_store.read(access.list_tokens, "", 10) == []


def test_no_secret_is_in_the_store(each_store: World) -> None:
    found = client(each_store)
    made = found.create("ci", role="admin")
    opened = found.login(made.secret)
    assert opened is not None
    everything = json.dumps({table: sorted(map(repr, rows)) for table, rows in each_store.dump().items()})
    for secret in (made.secret, opened[0]):
        assert secret.partition("_")[2] not in everything


def test_a_store_that_takes_no_writes_refuses_nobody(each_store: World, monkeypatch: pytest.MonkeyPatch) -> None:
    found = client(each_store)
    made = found.create("ci", role="viewer")
    opened = found.login(made.secret)
    assert opened is not None
    each_store.clock.advance(120)

    def full(op: Op[Any]) -> Any:
        raise StorageFull("no space left", backend=each_store.backend)

    monkeypatch.setattr(each_store.store, "write", full)
    assert found.identify(made.secret) is not None
    assert found.session(opened[0]) == opened[1]


def test_within_a_minute_a_look_is_a_read(each_store: World, monkeypatch: pytest.MonkeyPatch) -> None:
    found = client(each_store)
    made = found.create("ci", role="viewer")
    opened = found.login(made.secret)
    assert opened is not None

    def write(op: Op[Any]) -> Any:
        raise AssertionError("this was to be a read")

    monkeypatch.setattr(each_store.store, "write", write)
    each_store.clock.advance(59)
    assert found.identify(made.secret) is not None
    assert found.session(opened[0]) is not None
    assert found.identify(secret_of("nobody")) is None
    assert found.login(secret_of("nobody")) is None


def test_a_tenants_view_has_no_tokens_and_a_token_is_for_a_tenant_that_there_is() -> None:
    app = App(":memory:", tenants={"acme"})
    app.migrate()
    assert not hasattr(app.scoped("acme"), "access")
    with pytest.raises(UnknownTenant):
        app.tokens.create("ci", role="viewer", tenant="other")
    assert app.tokens.create("ci", role="viewer", tenant="acme").tenant == "acme"
    app.close()
