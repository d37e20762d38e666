"""`http.request`: how a job fares by what a server answers."""

from __future__ import annotations

import asyncio
import base64

import pytest

from holdfast import InvalidInput
from holdfast.model.limits import keyed_scope
from holdfast.outbound.policy import Policy
from holdfast.ready import HttpResult, http_request
from holdfast.ready.http import _origin
from tests.patience import SOON
from tests.unit.http_kit import answer, serving

from .worker_kit import AT_ONCE, Shop, live

OPEN = Policy(allow_http=True, allow_private=("127.0.0.0/8",), ports=range(1, 65_536))


@live
async def test_a_request_is_sent_and_its_answer_is_the_result(real_shop: Shop) -> None:
    real_shop.app.outbound = OPEN
    call = http_request(real_shop.app)
    async with serving(answer(201, b'{"ok": true}', Content_Type="application/json", Set_Cookie="a=b")) as server:
        async with real_shop.working():
            job = await call.aenqueue(server.url, "POST", json={"n": 1}, headers={"X-Mine": "yes"})
            result = await job.aresult(SOON)

    assert isinstance(result, HttpResult)
    assert (result.status, result.body, result.encoding, result.truncated) == (201, '{"ok": true}', "text", False)
    assert "set-cookie" not in result.headers
    seen = server.seen[0]
    assert (seen.body, seen.headers["content-type"], seen.headers["x-mine"]) == (b'{"n":1}', "application/json", "yes")
    assert seen.headers["idempotency-key"] == job.id.lower()


@pytest.mark.parametrize("key", [None, "mine"])
@live
async def test_a_429_empties_the_rate_of_the_task(real_shop: Shop, key: str | None) -> None:
    app = real_shop.app
    call = http_request(app, policy=OPEN, rate=app.rate("api", per_second=0.01, capacity=5))
    async with serving(answer(429, Retry_After="120")) as server:
        job = await call.options(rate_key=key).aenqueue(server.url)
        await app.adrain()
        assert (await job.astatus()).reason == "throttle"

    assert await app.limits.aacquire("api" if key is None else keyed_scope("api", "", key)) > 0


@live
async def test_it_is_tried_again_until_the_server_is_well(small_shop: Shop) -> None:
    call = http_request(small_shop.app, policy=OPEN, retry=AT_ONCE)
    async with serving(answer(500), answer(302, Location="http://127.0.0.1/"), answer(200, b"ok")) as server:
        async with small_shop.working():
            job = await call.aenqueue(server.url, "POST", body="x")
            assert (await job.aresult(SOON)).body == "ok"

    assert len({seen.headers["idempotency-key"] for seen in server.seen}) == 1
    assert len(server.seen) == 3


@pytest.mark.parametrize(
    ("said", "state", "reason"),
    [
        (answer(429, Retry_After="120"), "ready", "throttle"),
        (answer(401), "blocked", "auth"),
        (answer(404, b"no such thing"), "failed", "permanent"),
    ],
)
@live
async def test_each_class_of_answer_ends_as_it_should(small_shop: Shop, said: bytes, state: str, reason: str) -> None:
    call = http_request(small_shop.app, policy=OPEN)
    async with serving(said) as server:
        async with small_shop.working():
            job = await call.aenqueue(server.url)
            await small_shop.until(job, lambda r: (r.state, r.reason) == (state, reason))

    assert len(server.seen) == 1


@pytest.mark.parametrize("url", ["https://127.0.0.1/", "ftp://example.com/", "https://a:b@example.com/", "nonsense"])
@live
async def test_a_url_that_is_refused_fails_for_good(small_shop: Shop, url: str) -> None:
    call = http_request(small_shop.app)
    async with small_shop.working():
        job = await call.aenqueue(url)
        record = await small_shop.until_ended(job)

    assert (record.state, record.attempts) == ("failed", 1)
    assert "UrlRefused" in (record.error or "")


@live
async def test_credentials_go_to_their_origin_alone_and_are_not_stored(small_shop: Shop) -> None:
    secret = {"Authorization": "Bearer secret"}
    async with serving() as server, serving(host="127.0.0.2") as other, serving() as same_host:
        where = {f"http://127.0.0.1:{server.port}": secret, f"https://127.0.0.1:{same_host.port}": secret}
        call = http_request(small_shop.app, policy=OPEN, credentials=where)
        async with small_shop.working():
            await (await call.aenqueue(same_host.url)).aresult(SOON)
            job = await call.aenqueue(server.url)
            await job.aresult(SOON)
            await (await call.aenqueue(f"http://127.0.0.2:{other.port}/")).aresult(SOON)
        assert "secret" not in str(await job.astatus())

    assert server.seen[0].headers["authorization"] == "Bearer secret"
    assert "authorization" not in other.seen[0].headers
    assert "authorization" not in same_host.seen[0].headers, "neither for another port, nor in plain text for https"


@pytest.mark.parametrize(
    "where", ["https://a.example/path", "a.example/path", "ftp://a.example", "", "https://a:b@c.d"]
)
def test_credentials_for_what_is_no_origin_are_refused_at_once(small_shop: Shop, where: str) -> None:
    with pytest.raises(InvalidInput, match="give an origin"):
        http_request(small_shop.app, name="other", credentials={where: {"Authorization": "Bearer secret"}})


def test_a_host_alone_means_https_at_its_own_port() -> None:
    assert _origin("API.example.com") == ("https", "api.example.com", 443)
    assert _origin("api.example.com:8443") == ("https", "api.example.com", 8443)
    assert _origin("http://api.example.com/") == ("http", "api.example.com", 80)


@pytest.mark.parametrize(
    ("body", "limit", "text", "encoding", "truncated"),
    [
        (b"\x00\x01", 100, base64.b64encode(b"\x00\x01").decode(), "base64", False),
        (b"\xff\xfe", 100, base64.b64encode(b"\xff\xfe").decode(), "base64", False),
        ("aé".encode(), 2, "a", "text", True),
        (b"", 100, "", "text", False),
    ],
)
@live
async def test_a_body_is_text_where_it_can_be(
    small_shop: Shop, body: bytes, limit: int, text: str, encoding: str, truncated: bool
) -> None:
    call = http_request(small_shop.app, policy=OPEN, limit=limit)
    async with serving(answer(200, body)) as server:
        async with small_shop.working():
            result = await (await call.aenqueue(server.url)).aresult(SOON)

    assert (result.body, result.encoding, result.truncated) == (text, encoding, truncated)


@live
async def test_an_answer_that_never_ends_is_tried_again(small_shop: Shop) -> None:
    async def trickle(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhello")
        await asyncio.Event().wait()

    call = http_request(small_shop.app, policy=OPEN, retry=AT_ONCE)
    async with serving(trickle, answer(200, b"ok")) as server:
        async with small_shop.working():
            job = await call.aenqueue(server.url, timeout=0.2)
            assert (await job.aresult(SOON)).body == "ok"
    # On a busy machine the time of another try may be over too.
    assert len(server.seen) >= 2


def test_what_is_kept_of_an_answer_fits_into_a_result(small_shop: Shop) -> None:
    with pytest.raises(InvalidInput, match="limit"):
        http_request(small_shop.app, limit=10**6)
    assert http_request(small_shop.app, queue="http").task_options.queue == "http"
