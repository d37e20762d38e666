"""Tokens that were tampered with: of signals, of callers, of sessions, of leases, of webhooks. None is ever taken."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress

import msgspec
import pytest

import holdfast
from holdfast.errors import BadHandle, InvalidInput, InvalidSignature, InvalidToken
from holdfast.rules import access, base64url, remote, signals, signing
from holdfast.webhooks import sign, verify
from tests.chaos.dials import Figure, scaled

from .dice import dice, tampered, text
from .pair import Pair

FEW = 40
MANY = 700
KEYS = {"k1": b"\x01" * 32, "k2": b"\x02" * 32}
CLAIMS = signals.Claims("acme", "01job", 0, "approve", 2**50, "01point", True)
ORIGINS = (remote.Origin("sqlite", "a" * 32, b"\x07" * 32), remote.Origin("postgres", "b" * 32, b"\x08" * 32))
LEASE = remote.Lease("01job", 7, "worker", 0, 1)
SECRET, OTHER = signing.new_secret(b"\x05" * 32), signing.new_secret(b"\x06" * 32)
BODY = b'{"type":"invoice.paid"}'
NOW = 1_700_000_000


def test_no_tampered_token_is_taken() -> None:
    assert tamper_all(FEW) > 20 * FEW


@pytest.mark.proof
@pytest.mark.timeout(0)
def test_none_of_many_tampered_tokens_is_taken(figure: Figure) -> None:
    figure(tamper_all(scaled(MANY)), "inputs: tokens")


def tamper_all(rounds: int) -> int:
    """So many rounds of every kind of tampering with every kind of token; how many were tried."""
    rng = dice("tokens")
    return sum(
        signals_refused(rng) + handles_refused(rng) + webhooks_refused(rng) + secrets_differ(rng) for _ in range(rounds)
    )


def signals_refused(rng: random.Random) -> int:
    """Of a token of a signal, nothing may differ: not its key, its claims, nor how it is spelled."""
    good, others = signals.sign(KEYS["k1"], "k1", CLAIMS), _other_tokens()
    assert _is_taken(good)
    wrong = [*tampered(rng, good, others), *_forged(rng, good)]
    for token in wrong:
        assert token in (good, *others) or not _is_taken(token), f"taken: {token!r}"
    return len(wrong)


def handles_refused(rng: random.Random) -> int:
    """A handle is of this store and as it was, or it is BadHandle."""
    good = remote.write(ORIGINS[0], LEASE)
    others = tuple(remote.write(origin, replace_lease(rng)) for origin in ORIGINS)
    wrong = [one for one in tampered(rng, good, others) if one not in (good, *others)]
    for handle in (*wrong, others[1]):
        with pytest.raises(BadHandle):
            remote.read(ORIGINS[0], handle)
    return len(wrong) + 1


def webhooks_refused(rng: random.Random) -> int:
    """Of a message, nothing may differ: not its id, its time, its body, nor its signature."""
    good = sign(SECRET, "msg_1", BODY, now=NOW)
    verify(SECRET, good, BODY, now=NOW)
    count = 0
    for name in good:
        for value in tampered(rng, good[name]):
            if value == good[name] or good["webhook-signature"] in value.split(" "):
                continue
            count += 1
            _refused(SECRET, {**good, name: value}, BODY)
    damaged = bytearray(BODY)
    damaged[rng.randrange(len(BODY))] ^= 1 << rng.randrange(8)
    for secret, headers, body in (
        (SECRET, good, bytes(damaged)), (OTHER, good, BODY), (SECRET, sign(OTHER, "msg_1", BODY, now=NOW), BODY),
        (SECRET, sign(SECRET, "msg_1", BODY, now=NOW + rng.choice((-301, 301, 10**9))), BODY), (SECRET, {}, BODY),
        (SECRET, [*good.items(), ("Webhook-Signature", "v1,x")], BODY), (SECRET, {**good, "webhook-id": text(rng)},
        BODY),
    ):  # fmt: skip
        count += 1
        _refused(secret, headers, body)
    return count


def secrets_differ(rng: random.Random) -> int:
    """What is stored of a secret is stored of no other text, and what has not its form is not looked up."""
    good = access.make_secret(rng.randbytes(32))
    session = access.make_secret(rng.randbytes(32), access.SESSION_PREFIX)
    wrong = [one for one in tampered(rng, good, (session,)) if one != good]
    for secret in wrong:
        assert not access.is_secret(secret) or access.digest(secret) != access.digest(good)
    assert not access.is_secret(session) and not access.is_secret(good, access.SESSION_PREFIX)
    return len(wrong)


def test_keys_and_secrets_of_the_wrong_form_are_refused() -> None:
    rng = dice("keys")
    for _ in range(300):
        for check in (signals.check_secret, signals.check_kid, signing.key_of):
            with suppress(InvalidInput):
                check(rng.choice(list(tampered(rng, rng.choice((SECRET, "ab" * 32, "k1"))))))


@pytest.mark.parametrize("rounds", [3, pytest.param(scaled(60), marks=[pytest.mark.proof, pytest.mark.timeout(0)])])
def test_both_stores_take_none(pair: Pair, rounds: int, figure: Figure) -> None:
    count = 0
    for app in pair:
        rng, (good, other), secret = (
            dice(f"stores {rounds}"),
            _waiting(app),
            app.tokens.create(f"t{rounds}", role="admin").secret,
        )
        opened = app.tokens.login(secret)
        assert opened is not None and app.tokens.identify(secret) is not None
        for _ in range(rounds):
            for token in _unlike(rng, good, other):
                count += 1
                with pytest.raises((InvalidToken, InvalidInput)):
                    app.signal(token, None, 1)
            for found, wrong in (
                (app.tokens.identify, secret),
                (app.tokens.session, opened[0]),
                (app.tokens.login, secret),
            ):
                for one in _unlike(rng, wrong):
                    count += 1
                    assert found(one) is None, f"taken: {one!r}"
        assert app.tokens.session(opened[0]) is not None
        assert len(app.signals.pending()) >= 2, "a token that was no good has answered a waitpoint"
        app.signal(good, None, 1)
    figure(count, "inputs: tokens")


def _waiting(app: holdfast.App) -> list[str]:
    """The tokens of two jobs that wait, of two tenants."""
    found: list[str] = []

    if "asks" not in app.tasks:

        @app.task(name="asks")
        async def asks(ctx: holdfast.Context) -> None:
            point = await ctx.waitpoint("approval", expires=86_400)
            ctx.app_tokens.append(point.token)  # type: ignore[attr-defined]
            await ctx.wait_for(point)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(holdfast.Context, "app_tokens", found, raising=False)
        app.drain()
        found.clear()
        for tenant in ("acme", "umbrella"):
            app.enqueue(app.tasks["asks"].job(), tenant=tenant)
        app.drain()
    return found


def _unlike(rng: random.Random, good: str, *others: str) -> Iterator[str]:
    return (one for one in tampered(rng, good, others) if one not in (good, *others))


def _is_taken(token: str) -> bool:
    parsed = signals.parse(token)
    return signals.is_signed(parsed, KEYS.get(parsed.kid))


def _other_tokens() -> tuple[str, ...]:
    changed = (
        {"tenant": "umbrella"}, {"job": "02job"}, {"generation": 1}, {"signal": "deny"}, {"exp": 2**52},
        {"jti": "02point"},
        {"once": False},
    )  # fmt: skip
    claims = [msgspec.structs.replace(CLAIMS, **change) for change in changed]
    return (*(signals.sign(KEYS["k1"], "k1", one) for one in claims), signals.sign(KEYS["k2"], "k2", CLAIMS))


def _forged(rng: random.Random, good: str) -> list[str]:
    """By somebody who has another key, or none, or says that the token needs none."""
    _, kid, claims, mac = good.split(".")
    stranger = rng.randbytes(32)
    header = base64url.encode(b'{"alg":"none"}')
    return [
        signals.sign(stranger, "k1", CLAIMS),
        signals.sign(stranger, "k9", CLAIMS), signals.sign(KEYS["k2"], "k1", CLAIMS),
        f"v1.k2.{claims}.{mac}", f"v2.{kid}.{claims}.{mac}", f"v1.{kid}.{claims}.", f"{header}.{kid}.{claims}.{mac}",
        f"v1.{kid}.{claims}.{base64url.encode(bytes(32))}", f"v1.{kid}.{base64url.encode(rng.randbytes(40))}.{mac}",
        f"v1.{kid}.{base64url.encode(b'[]')}.{mac}", f"v1..{claims}.{mac}", f"v1.{kid}.{claims}.{mac}.{mac}", "....",
        "v1",
        f"v1.{kid}.{base64url.encode(b'[' * 5_000)}.{mac}", f"v1.{kid}.{claims}.{base64url.encode(rng.randbytes(16))}",
    ]  # fmt: skip


def replace_lease(rng: random.Random) -> remote.Lease:
    changes = rng.choice(({"job_id": "02job"}, {"epoch": 8}, {"worker": "other"}, {"generation": 1}, {"attempt": 2}))
    return msgspec.structs.replace(LEASE, **changes)


def _refused(secret: str, headers: object, body: bytes) -> None:
    with pytest.raises(InvalidSignature):
        verify(secret, headers, body, now=NOW)  # type: ignore[arg-type]
