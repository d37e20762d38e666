"""Tokens against a store: one refusal for all that is wrong with one, and no way to tell which it was."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterator
from functools import partial

import msgspec
import pytest

from holdfast.clock import SECOND
from holdfast.model.signals import Sent, Signal
from holdfast.rules.signals import Claims, parse, sign
from holdfast.storage.ops.jobs import actions
from holdfast.storage.ops.signals import signals, waitpoints
from holdfast.storage.port import Tx

from .faults import statements_of
from .racing import all_at_once
from .waiting_kit import HOUR, Waiter, pending_ids, redeem, waiter
from .world import World

DAY = 24 * HOUR
ONE, TWO, THREE = ("11" * 32, "22" * 32, "33" * 32)
MUTATIONS = 50_000


def test_a_token_sends_one_signal_and_is_then_worthless(world: World) -> None:
    job = waiter(world)
    place = job.open()
    sent = redeem(world, place.token)
    assert sent is not None
    assert (sent.job_id, sent.effect) == (job.id, "stored")
    assert redeem(world, place.token) is None
    assert world.sql("select waitpoint, name from holdfast_signal") == [(place.id, "approval")]


def test_one_token_used_by_many_at_once_sends_one_signal(two_worlds: tuple[World, World]) -> None:
    here, there = two_worlds
    place = waiter(here).open()
    answers = all_at_once([partial(redeem, world, place.token) for world in (here, there) * 4])
    assert len([answer for answer in answers if answer]) == 1
    assert here.sql("select count(*) from holdfast_signal") == [(1,)]


def test_a_sender_who_repeats_himself_with_his_key_gets_the_same_answer(world: World) -> None:
    place = waiter(world).open()
    first = redeem(world, place.token, key="click")
    again = redeem(world, place.token, key="click")
    assert first is not None and again is not None
    assert (again.seq, again.again) == (first.seq, True)
    assert redeem(world, place.token, "false", key="click") is None
    assert redeem(world, place.token, key="other") is None
    world.clock.advance(3600)
    assert redeem(world, place.token, key="click") is None


def test_a_key_does_not_open_what_a_signal_by_name_has_taken(world: World) -> None:
    job = waiter(world)
    place = job.open()
    world.run(signals.send, job.id, Signal(name="other", key="click"))
    assert redeem(world, place.token, key="click") is None
    assert pending_ids(world) == [place.id]


def test_a_token_of_another_tenant_is_as_if_it_did_not_exist(world: World) -> None:
    place = waiter(world, tenant="acme").open()
    assert redeem(world, place.token, tenant="rival") is None
    assert redeem(world, place.token, tenant="acme") is not None


def test_a_token_for_another_name_is_refused(world: World) -> None:
    place = waiter(world).open("approval")
    assert redeem(world, place.token, name="payment") is None
    assert redeem(world, place.token, name="approval") is not None


# -- no oracle


def forged(world: World, job: Waiter) -> Iterator[tuple[str, str]]:
    """Every way in which a token can be wrong."""
    good = job.open("good").token
    head, _, mac = good.rpartition(".")
    yield "truncated", good[:-5]
    yield "empty", ""
    yield "no token at all", job.id
    yield "too long", good + "A" * 2000
    yield "not ASCII", good[:-1] + "é"
    yield "padded", good + "="
    yield "another mac", head + "." + mac[::-1]
    yield "an unknown key", sign(bytes.fromhex(ONE), "nobody", parse(good).claims)
    yield "a key of one's own", sign(bytes.fromhex(ONE), parse(good).kid, parse(good).claims)
    yield "a waitpoint that there is not", _signed(world, good, jti="nothing")
    yield "another job", _signed(world, good, job="another")
    yield "another tenant", _signed(world, good, tenant="rival")
    yield "another generation", _signed(world, good, generation=1)
    yield "another signal", _signed(world, good, signal="payment")
    yield "a later end", _signed(world, good, exp=parse(good).claims.exp + 1)
    yield "not only once", _signed(world, good, once=False)
    used = job.open("used").token
    assert redeem(world, used)
    yield "used", used
    ended = waiter(world)
    dead = ended.open().token
    world.run(actions.cancel, ended.id, force=True)
    yield "of a job that has ended", dead
    yield "of a job that was deleted", _of_deleted(world)
    old = job.open("old", expires=SECOND).token
    world.clock.advance(2)
    yield "expired", old


def test_whatever_is_wrong_with_a_token_it_takes_the_same_statements_to_refuse_it(each_store: World) -> None:
    world = each_store
    job = waiter(world)
    seen: dict[str, list[str]] = {}
    before = world.read(signals.refused_tokens)
    for n, (what, token) in enumerate(forged(world, job), 1):
        seen[what] = statements_of(world, signals.send_by_token, token, Signal(name="", payload="1", key="k"))
        # Each is one more that was refused; nothing else is written by any.
        assert world.read(signals.refused_tokens) == before + n, what
    assert len({tuple(names) for names in seen.values()}) == 1, seen
    assert seen["empty"][-2:] == ["count_refusals", "note_refusals"]


def test_no_wrong_token_has_an_effect(world: World) -> None:
    job = waiter(world)
    for what, token in list(forged(world, job)):
        before = world.sql("select count(*) from holdfast_signal")
        assert redeem(world, token) is None, what
        assert world.sql("select count(*) from holdfast_signal") == before, what


def test_d7_a_missing_waitpoint_cannot_be_told_from_a_bad_token(world: World) -> None:
    """It could, elsewhere: so the ids of waitpoints could be tried out."""
    place = waiter(world).open()
    there = sign(bytes.fromhex(ONE), "k", parse(place.token).claims)
    missing = sign(bytes.fromhex(ONE), "k", Claims("", "x", 0, "approval", 1, "missing", True))
    assert redeem(world, there) is redeem(world, missing) is None


def test_refusals_are_remembered_at_the_waitpoint_that_was_named(world: World) -> None:
    place = waiter(world).open()
    bad = place.token[:-1] + ("A" if place.token[-1] != "A" else "B")
    before = world.read(signals.refused_tokens)
    world.clock.advance(5)
    for _ in range(3):
        redeem(world, _resigned(place.token))
    redeem(world, bad)
    (found,) = world.read(waitpoints.pending)
    assert (found.refusals >= 3, found.refused_at) == (True, world.instant)
    assert world.read(signals.refused_tokens) == before + 4


def test_fifty_thousand_mutated_tokens_are_all_refused(each_store: World) -> None:
    """On Postgres, where each costs five round trips, the first of them; `make proof` has the rest."""
    refuse_mutants(each_store, MUTATIONS if each_store.backend == "sqlite" else MUTATIONS // 20)


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_fifty_thousand_mutated_tokens_are_all_refused_by_postgres_too(on_postgres: World) -> None:
    refuse_mutants(on_postgres, MUTATIONS)


def refuse_mutants(world: World, n: int) -> None:
    """Flipped bits, other characters, cuts, joins, swapped parts, other spellings: the same in each run."""
    job = waiter(world)
    tokens = [job.open(f"place-{n}").token for n in range(4)]
    luck = random.Random(20261115)
    mutants = [mutant for mutant in (_mutate(luck, tokens) for _ in range(n)) if mutant not in tokens]
    assert len(mutants) > n * 0.99
    before = world.read(signals.refused_tokens)

    async def answers(tx: Tx, some: list[str]) -> list[Sent | None]:
        return [await signals.send_by_token(tx, mutant, Signal(name="", payload="true")) for mutant in some]

    for start in range(0, len(mutants), 250):
        assert set(world.run(answers, mutants[start : start + 250])) == {None}
    assert world.sql("select count(*) from holdfast_signal") == [(0,)]
    assert world.read(signals.refused_tokens) == before + len(mutants)
    assert [redeem(world, token) is not None for token in tokens] == [True] * 4


# -- tokens that are wrong in some way


def _signed(world: World, token: str, **changes: object) -> str:
    """With other claims, and by the store's own key: no attacker could."""
    parsed = parse(token)
    ((secret,),) = world.sql("select secret from holdfast_key where kid = :kid", kid=parsed.kid)
    return sign(bytes.fromhex(secret), parsed.kid, msgspec.structs.replace(parsed.claims, **changes))


def _resigned(token: str) -> str:
    return sign(bytes.fromhex(THREE), parse(token).kid, parse(token).claims)


def _of_deleted(world: World) -> str:
    job = waiter(world)
    token = job.open().token
    world.run(actions.cancel, job.id, force=True)
    world.run(actions.delete, job.id)
    return token


def _mutate(luck: random.Random, tokens: list[str]) -> str:
    token = luck.choice(tokens)
    return luck.choice(_MUTATIONS)(luck, token, luck.choice(tokens))


def _flip(luck: random.Random, token: str, _: str) -> str:
    data = bytearray(token.encode())
    for _n in range(luck.randint(1, 4)):
        data[luck.randrange(len(data))] ^= 1 << luck.randrange(7)
    return data.decode("ascii", "replace")


def _replace(luck: random.Random, token: str, _: str) -> str:
    index = luck.randrange(len(token))
    return token[:index] + luck.choice("Aa0-_.=+/ \x00é") + token[index + 1 :]


def _cut(luck: random.Random, token: str, _: str) -> str:
    start, end = sorted(luck.sample(range(len(token) + 1), 2))
    return token[:start] + token[end:]


def _repeat(luck: random.Random, token: str, _: str) -> str:
    index = luck.randrange(len(token))
    return token[:index] + token[index : index + luck.randint(1, 9)] + token[index:]


def _swap(luck: random.Random, token: str, other: str) -> str:
    parts, others = token.split("."), other.split(".")
    index = luck.randrange(4)
    parts[index] = others[index] if others[index] != parts[index] else parts[index][::-1]
    return ".".join(parts)


def _flip_claims(luck: random.Random, token: str, _: str) -> str:
    version, kid, claims, mac = token.split(".")
    data = bytearray(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    data[luck.randrange(len(data))] ^= 1 << luck.randrange(8)
    return ".".join([version, kid, base64.urlsafe_b64encode(data).decode().rstrip("="), mac])


def _sign_oneself(luck: random.Random, token: str, _: str) -> str:
    return sign(luck.randbytes(32), parse(token).kid, parse(token).claims)


_MUTATIONS: list[Callable[[random.Random, str, str], str]] = [
    _flip, _replace, _cut, _repeat, _swap, _flip_claims, _sign_oneself,
]  # fmt: skip
