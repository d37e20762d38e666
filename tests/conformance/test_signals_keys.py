"""Keys: one signs, those before it verify for a while, and nobody ever sees a secret."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from holdfast.errors import IllegalMove, KeyConflict, NotFound
from holdfast.model.audit import AuditFilter
from holdfast.rules.signals import parse, sign
from holdfast.storage.ops.audit import list_audit
from holdfast.storage.ops.signals import keys, waitpoints

from .racing import all_at_once
from .waiting_kit import HOUR, redeem, wait_for, waiter
from .world import World

DAY = 24 * HOUR
ONE, TWO, THREE = ("11" * 32, "22" * 32, "33" * 32)


def rotate(world: World, kid: str, secret: str, **more: int) -> bool:
    return world.run(keys.rotate, kid, secret, actor="ann", **more)


def test_the_first_waitpoint_makes_itself_a_key(world: World) -> None:
    assert world.read(keys.list_keys) == []
    place = waiter(world).open()
    (key,) = world.read(keys.list_keys)
    assert (key.kid, key.state) == (parse(place.token).kid, "active")


def test_two_who_need_the_first_key_at_once_share_it(two_worlds: tuple[World, World]) -> None:
    here, there = two_worlds
    jobs = [waiter(world) for world in (here, there) * 3]
    places = all_at_once([job.open for job in jobs])
    assert len({parse(place.token).kid for place in places}) == 1
    assert [redeem(here, place.token) is not None for place in places] == [True] * 6


def test_seeding_is_idempotent_and_refuses_a_second_active_key(world: World) -> None:
    assert world.run(keys.seed, "one", ONE, actor="ann")
    assert not world.run(keys.seed, "one", ONE, actor="ann")
    with pytest.raises(KeyConflict):
        world.run(keys.seed, "one", TWO, actor="ann")
    with pytest.raises(KeyConflict):
        world.run(keys.seed, "two", TWO, actor="ann")


def test_what_the_old_key_signed_is_good_within_the_grace_and_refused_after_it(world: World) -> None:
    world.run(keys.seed, "one", ONE, actor="ann")
    job = waiter(world)
    early, late = job.open("early"), job.open("late")
    assert rotate(world, "two", TWO)
    assert parse(job.open("new").token).kid == "two"
    world.clock.advance(3599)
    assert redeem(world, early.token) is not None
    _make_it_last(world, late.id)
    world.clock.advance(24 * 3600)
    assert redeem(world, _signed_with(world, ONE, "one", late.id)) is None
    _use_key(world, late.id, "two")
    assert redeem(world, _signed_with(world, TWO, "two", late.id)) is not None


def test_a_retired_key_verifies_until_the_longest_token_that_it_signed_has_expired(world: World) -> None:
    world.run(keys.seed, "one", ONE, actor="ann")
    place = waiter(world).open(expires=30 * DAY)
    rotate(world, "two", TWO)
    world.clock.advance(30 * 24 * 3600 - 1)
    assert redeem(world, place.token) is not None


def test_the_grace_is_a_day_where_tokens_are_shorter(world: World) -> None:
    world.run(keys.seed, "one", ONE, actor="ann")
    rotate(world, "two", TWO)
    retired, active = world.read(keys.list_keys)
    assert (retired.kid, retired.state, retired.valid_until) == ("one", "retired", world.instant + timedelta(days=1))
    assert (active.kid, active.state, active.valid_until) == ("two", "active", None)


def test_a_token_signed_while_the_key_is_being_rotated_stays_good(on_postgres: World) -> None:
    """It was read as active, and is retired when its longest token is noted: that still counts."""
    world = on_postgres
    world.run(keys.seed, "one", ONE, actor="ann")
    rotate(world, "two", TWO)
    world.run(keys.note_signed, "one", world.now + 40 * DAY)
    (retired, _) = world.read(keys.list_keys)
    assert retired.valid_until is not None and retired.valid_until >= world.instant + timedelta(days=40)


def test_a_revoked_key_verifies_nothing(world: World) -> None:
    world.run(keys.seed, "one", ONE, actor="ann")
    place = waiter(world).open()
    with pytest.raises(IllegalMove, match="rotate"):
        world.run(keys.revoke, "one", actor="ann")
    rotate(world, "two", TWO)
    world.run(keys.revoke, "one", actor="ann", reason="it leaked")
    assert redeem(world, place.token) is None
    assert [key.state for key in world.read(keys.list_keys)] == ["revoked", "active"]
    world.run(keys.revoke, "one", actor="ann")


def test_revoking_what_is_not_there_is_not_found(world: World) -> None:
    with pytest.raises(NotFound):
        world.run(keys.revoke, "nothing", actor="ann")


def test_rotating_to_the_active_key_changes_nothing_and_to_a_known_one_is_a_conflict(world: World) -> None:
    world.run(keys.seed, "one", ONE, actor="ann")
    assert rotate(world, "two", TWO)
    assert not rotate(world, "two", TWO)
    for kid, secret in [("two", THREE), ("one", ONE), ("one", THREE)]:
        with pytest.raises(KeyConflict):
            rotate(world, kid, secret)
    assert [key.state for key in world.read(keys.list_keys)] == ["retired", "active"]


def test_rotations_at_once_leave_one_active_key(two_worlds: tuple[World, World]) -> None:
    here, there = two_worlds
    here.run(keys.seed, "zero", ONE, actor="ann")

    def attempt(world: World, n: int) -> bool:
        try:
            return rotate(world, f"k{n}", f"{n:02x}" * 32)
        except KeyConflict:
            return False

    all_at_once([partial(attempt, world, n) for n, world in enumerate((here, there) * 3)])
    assert [key.state for key in here.read(keys.list_keys)].count("active") == 1


def test_no_secret_is_listed_or_audited(world: World) -> None:
    world.run(keys.seed, "one", ONE, actor="ann")
    rotate(world, "two", TWO)
    world.run(keys.revoke, "one", actor="ann")
    listed = world.read(keys.list_keys)
    records = world.read(list_audit, AuditFilter(target_kind="key", target="two")) + world.read(
        list_audit, AuditFilter(target_kind="key", target="one")
    )
    assert {record.action for record in records} == {"key.seed", "key.rotate", "key.revoke"}
    assert all(secret not in repr([listed, records]) for secret in (ONE, TWO))
    assert len({key.fingerprint for key in listed}) == 2


def test_a_wait_for_a_waitpoint_is_not_ended_by_the_rotation(world: World) -> None:
    job = waiter(world)
    place = job.open()
    job.suspend(wait_for(waitpoints=(place,)))
    rotate(world, "next", TWO)
    sent = redeem(world, place.token)
    assert sent is not None
    assert sent.effect == "resumed"


def _make_it_last(world: World, id: str) -> None:
    """As if the key's rotation had not known of it: its token lives longer than the grace."""
    world.sql("update holdfast_waitpoint set expires_at = :at where id = :id", at=world.now + 90 * DAY, id=id)


def _use_key(world: World, id: str, kid: str) -> None:
    world.sql("update holdfast_waitpoint set kid = :kid where id = :id", kid=kid, id=id)


def _signed_with(world: World, secret: str, kid: str, id: str) -> str:
    found = world.read(waitpoints.get_waitpoint, id)
    assert found is not None
    return sign(bytes.fromhex(secret), kid, found.claims)
