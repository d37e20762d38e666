"""The doors of the site: tokens, cookies, hosts and origins as nobody writes them. And how secrets are compared."""

from __future__ import annotations

import ast
import asyncio
import inspect
import random
from collections.abc import Iterator
from types import ModuleType

import pytest

import holdfast
from holdfast.client import access as access_client
from holdfast.rules import access, signals, signing
from holdfast.storage.ops import access as access_ops
from holdfast.storage.ops.signals import waitpoints
from holdfast.web.guard import identify
from holdfast.web.guard.hosts import check_host
from holdfast.web.guard.origins import check_origin
from holdfast.web.guard.throttle import Throttle
from holdfast.web.wire.failures import Refused
from holdfast.webhooks import message
from tests.chaos.dials import Figure, scaled
from tests.web.web_kit import Site

from .dice import TEXTS, dice, tampered

SECRET_WORDS = ("mac", "secret", "digest", "signature", "token", "expected")
COMPARED = (signals, signing, access, access_client, access_ops, waitpoints, message, identify)


@pytest.fixture
def site(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(Throttle, "take", lambda self, key: 0.0)
    app = holdfast.App(f"{tmp_path}/jobs.db", durable=False)
    with asyncio.Runner() as runner:
        site = Site(app, runner, auth="required")
        yield site
        site.close()
    app.close()


def _rounds(few: int, many: int) -> pytest.MarkDecorator:
    full = pytest.param(scaled(many), marks=[pytest.mark.proof, pytest.mark.timeout(0)])
    return pytest.mark.parametrize("rounds", [few, full])


@_rounds(2, 40)
def test_no_tampered_token_or_cookie_opens_the_site(site: Site, rounds: int, figure: Figure) -> None:
    rng, count = dice("doors"), 0
    secret = site.app.tokens.create("admin", role="admin").secret
    opened = site.app.tokens.login(secret)
    assert opened is not None
    for _ in range(rounds):
        for header, good, how in (("authorization", secret, "Bearer {}"), ("cookie", opened[0], "__Host-holdfast={}")):
            for wrong in tampered(rng, good):
                # White space around a header's value belongs to nobody, and a cookie ends where the next begins.
                if good in (wrong.strip(), wrong.split(";")[0].strip(' "')):
                    continue
                count += 1
                value = how.format(wrong).encode("utf-8", "surrogatepass")
                answer = site.call("GET", "/api/v1/jobs", headers=[(header.encode(), value)])
                assert answer.status_code in (400, 401), (
                    f"{header}: {value!r}: {answer.status_code} {answer.text[:200]}"
                )
    assert site.call("GET", "/api/v1/jobs", headers={"cookie": f"__Host-holdfast={opened[0]}"}).status_code == 200
    figure(count, "inputs: tokens")


@_rounds(300, 8_000)
def test_only_our_own_pages_act_for_a_session(rounds: int, figure: Figure) -> None:
    rng = dice("origins")
    for _ in range(rounds):
        host = rng.choice(("localhost", "jobs.example.com", "localhost:8080", "[::1]:80"))
        headers = {"host": host, **_said(rng, host)}
        method, cookie = rng.choice(("GET", "POST", "DELETE", "PUT", "PATCH")), rng.random() < 0.7
        try:
            check_origin(method, headers, cookie=cookie)
        except Refused as refused:
            assert refused.status == 403
            continue
        assert _may(method, headers, cookie), f"let in: {method} {headers} cookie={cookie}"
    figure(rounds, "inputs: origins and hosts")


@_rounds(300, 4_000)
def test_only_our_own_names_are_heard(rounds: int, figure: Figure) -> None:
    rng, ours = dice("hosts"), ("localhost", "127.0.0.1", "[::1]", "*.example.com")
    for _ in range(rounds):
        given = rng.choice(
            (*tampered(rng, rng.choice(("localhost:80", "a.example.com", "[::1]:443"))), rng.choice(TEXTS))
        )
        try:
            check_host(given, ours)
        except Refused as refused:
            assert refused.status == 421
            continue
        name = given.strip().lower()
        name = name[: name.index("]") + 1] if name.startswith("[") else name.partition(":")[0]
        assert name.rstrip(".") in ours or name.rstrip(".").endswith(".example.com"), f"heard: {given!r}"
    figure(rounds, "inputs: origins and hosts")


@pytest.mark.parametrize("module", COMPARED, ids=lambda module: module.__name__)
def test_secrets_are_compared_in_constant_time_or_looked_up_by_a_hash(module: ModuleType) -> None:
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Compare) and any(
            isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for op in node.ops
        ):
            # What stands inside a call is measured or described, not compared.
            named = {part.id for part in (node.left, *node.comparators) if isinstance(part, ast.Name)}
            named |= {part.attr for part in (node.left, *node.comparators) if isinstance(part, ast.Attribute)}
            assert not named & set(SECRET_WORDS), f"{module.__name__}:{node.lineno}: {ast.unparse(node)}"


def _said(rng: random.Random, host: str) -> dict[str, str]:
    """What a browser, or somebody who plays one, says about where a request comes from."""
    own = f"http://{host}"
    origins = (
        own, own.upper(), f"https://{host}", "null", "", f"{own}.evil.example", f"http://evil.example/{host}",
        f"{own}@evil.example",
        f"http://evil@{host}", "http://[", f"{own}:1", "//" + host, host, f"javascript://{host}", own + "\x00",
        own + "/", "http://",
        *tampered(rng, own),
    )  # fmt: skip
    said = {}
    if rng.random() < 0.7:
        said["origin"] = rng.choice(origins)
    if rng.random() < 0.6:
        said["sec-fetch-site"] = rng.choice(("same-origin", "none", "same-site", "cross-site", "", "SAME-ORIGIN", "x"))
    if rng.random() < 0.3:
        said["sec-fetch-mode"] = rng.choice(("navigate", "cors", "no-cors", ""))
    return said


def _may(method: str, headers: dict[str, str], cookie: bool) -> bool:
    """The rule, said another way."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is not None and not (origin == "null" and site == "same-origin"):
        authority = origin.partition("//")[2].partition("/")[0].partition("?")[0].partition("#")[0]
        if "//" not in origin or authority.strip().lower() != headers["host"]:
            return False
    if method == "GET":
        return site in (None, "same-origin", "none") or headers.get("sec-fetch-mode") == "navigate"
    if site is not None:
        return site in ("same-origin", "none")
    return origin is not None or not cookie
