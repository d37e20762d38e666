"""Requests to a server that does not always behave."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import trustme

from holdfast.errors import ConfigError, InvalidInput, RequestFailed, UrlRefused
from holdfast.outbound.client import HttpAnswer, HttpClient, check_headers, outcome_of_answer
from holdfast.outbound.policy import Policy, parse
from holdfast.outcomes import Fail, Park, Retry, Throttle
from tests.patience import SOON
from tests.unit.http_kit import Server, answer, serving

HOME = ("127.0.0.0/8",)


def client_for(server: Server, **more: Any) -> HttpClient:
    return HttpClient(Policy(allow_http=True, allow_private=HOME, ports=(server.port,)), **more)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), SOON))


def test_a_request_arrives_as_it_was_sent_and_its_answer_comes_back() -> None:
    async def test() -> None:
        async with serving(answer(202, b"taken", X_Kind="a")) as server:
            client = client_for(server)
            got = await client.request("POST", server.url + "?x=1", headers={"X-Mine": "1"}, body=b"hello")
            await client.request("GET", server.url)

            assert (got.status, got.body, got.headers["x-kind"], got.cut) == (202, b"taken", "a", "")
            first, second = server.seen
            assert (first.line, first.body) == ("POST /hook?x=1 HTTP/1.1", b"hello")
            assert first.headers["host"] == f"127.0.0.1:{server.port}"
            assert (first.headers["x-mine"], first.headers["accept-encoding"]) == ("1", "identity")
            assert "content-length" not in second.headers
            assert server.connections == 1

    run(test)


def test_a_redirect_is_an_answer_and_is_not_followed() -> None:
    async def test() -> None:
        async with serving() as canary, serving(answer(302, Location=canary.url)) as server:
            got = await client_for(server).request("GET", server.url)

            assert (got.status, canary.connections) == (302, 0)
            assert isinstance(outcome_of_answer(got, now=0), Retry)

    run(test)


def test_an_answer_of_ten_gigabytes_is_read_up_to_the_limit() -> None:
    async def flood(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n")
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()

    async def test() -> None:
        async with serving(flood) as server:
            got = await client_for(server).request("GET", server.url, limit=1_000)
            assert (got.status, len(got.body), got.cut) == (200, 1_000, "size")

    run(test)


def test_an_answer_that_never_ends_is_cut_when_the_time_is_over() -> None:
    async def trickle(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
        await asyncio.Event().wait()

    async def test() -> None:
        async with serving(trickle) as server:
            got = await client_for(server).request("GET", server.url, timeout=3)
            assert (got.status, got.body, got.cut) == (200, b"hello", "time")

    run(test)


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\nx: "])
def test_headers_that_do_not_come_are_a_timeout(begun: bytes) -> None:
    async def slow(writer: asyncio.StreamWriter) -> None:
        writer.write(begun)
        await asyncio.Event().wait()

    async def test() -> None:
        async with serving(slow) as server:
            with pytest.raises(RequestFailed, match="within 0.2 s") as failed:
                await client_for(server).request("GET", server.url, timeout=0.2)
            assert failed.value.kind == "timeout"

    run(test)


@pytest.mark.parametrize(
    ("script", "kind"),
    [(b"nonsense\r\n\r\n", "protocol"), (b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * 200_000, "protocol")],
)
def test_what_is_no_http_is_said(script: bytes, kind: str) -> None:
    async def test() -> None:
        async with serving(script) as server:
            with pytest.raises(RequestFailed) as failed:
                await client_for(server).request("GET", server.url)
            assert failed.value.kind == kind

    run(test)


def test_a_connection_that_ends_early_and_one_that_is_refused_are_told_apart() -> None:
    async def hang_up(writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def test() -> None:
        async with serving(hang_up) as server:
            client = client_for(server)
            with pytest.raises(RequestFailed) as broken:
                await client.request("GET", server.url)
        with pytest.raises(RequestFailed) as refused:
            await client.request("GET", server.url)
        assert (broken.value.kind, refused.value.kind) == ("protocol", "connect")

    run(test)


def test_a_name_without_an_address_is_said() -> None:
    async def nothing(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    async def test() -> None:
        with pytest.raises(RequestFailed) as failed:
            await HttpClient(resolve=nothing).request("GET", "https://nowhere.example/")
        assert failed.value.kind == "dns"

    run(test)


def test_the_second_address_is_tried_where_the_first_does_not_answer() -> None:
    async def test() -> None:
        async with serving() as server:

            async def two(host: str, port: int) -> list[str]:
                return ["127.0.0.2", "127.0.0.1"]

            got = await client_for(server, resolve=two).request("GET", f"http://shop.example:{server.port}/")
            assert got.body == b"ok"

    run(test)


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with serving() as proxy, serving() as server:
            for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "ALL_PROXY"):
                monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
            await client_for(server).request("GET", server.url)
            assert (proxy.connections, len(server.seen)) == (0, 1)

    run(test)


def test_tls_goes_to_the_address_that_was_checked_under_the_name_that_was_asked_for() -> None:
    async def test() -> None:
        authority = trustme.CA()
        tls, trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
        authority.issue_cert("hooks.example.com").configure_cert(tls)
        authority.configure_trust(trust)

        async def home(host: str, port: int) -> list[str]:
            return ["127.0.0.1"]

        async with serving(tls=tls) as server:
            client = HttpClient(Policy(allow_private=HOME, ports=(server.port,)), trust=trust, resolve=home)
            got = await client.request("POST", f"https://Hooks.Example.com.:{server.port}/x")
            with pytest.raises(RequestFailed) as failed:
                await client.request("POST", f"https://other.example.com:{server.port}/x")
            strict = HttpClient(client.policy, resolve=home)
            with pytest.raises(RequestFailed) as untrusted:
                await strict.request("POST", f"https://hooks.example.com:{server.port}/x")

        assert got.status == 200
        assert (server.seen[0].sni, server.seen[0].headers["host"]) == (
            "hooks.example.com",
            f"hooks.example.com:{server.port}",
        )
        assert (failed.value.kind, untrusted.value.kind, len(server.seen)) == ("tls", "tls", 1)

    run(test)


def test_a_client_serves_one_loop_after_another() -> None:
    client: HttpClient | None = None

    async def test() -> None:
        nonlocal client
        async with serving() as server:
            client = client or HttpClient(Policy(allow_http=True, allow_private=HOME, ports=range(1, 65_536)))
            assert (await client.request("GET", server.url)).status == 200

    run(test)
    run(test)


@pytest.mark.parametrize(
    ("name", "value"),
    [("Host", "x"), ("Content-Length", "1"), ("Transfer-Encoding", "chunked"), ("a b", "x"), ("", "x"),
     ("x", "a\r\nb: c"), ("x", "a\nb"), ("x", "\0"), ("x:", "y"), ("x", "\u0661")],
)  # fmt: skip
def test_a_header_that_would_change_the_request_is_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidInput):
        check_headers({name: value})


def test_a_method_that_is_none_is_refused() -> None:
    async def test() -> None:
        for method in ("CONNECT", "TRACE", "get", "A B", "GET\r\n", ""):
            with pytest.raises(InvalidInput):
                await HttpClient().request(method, "https://example.com/")

    run(test)


@pytest.mark.parametrize(
    ("got", "signal"),
    [
        (HttpAnswer(204, {}, b""), None),
        (HttpAnswer(429, {"retry-after": "7"}, b""), Throttle),
        (HttpAnswer(429, {"retry-after": "-5"}, b""), Throttle),
        (HttpAnswer(403, {}, b""), Park),
        (HttpAnswer(404, {}, b"gone"), Fail),
        (HttpAnswer(410, {}, b""), Fail),
        (HttpAnswer(408, {}, b""), Retry),
        (HttpAnswer(500, {}, b""), Retry),
    ],
)
def test_an_answer_decides_how_its_job_fares(got: HttpAnswer, signal: type | None) -> None:
    assert type(outcome_of_answer(got, now=0)) is (signal or type(None))


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("7", 7),
        ("-5", 60),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 1),
        ("1000000000000", 300),
        ("soon", 60),
        ("", 60),
        ("0", 1),
    ],
)
def test_a_wait_that_nobody_could_mean_is_bounded(said: str, seconds: int) -> None:
    refused = outcome_of_answer(HttpAnswer(429, {"retry-after": said}, b""), now=1_700_000_000_000_000)
    assert isinstance(refused, Throttle)
    assert refused.after == seconds * 1_000_000


def test_without_the_extra_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "holdfast.outbound.network", raising=False)
    monkeypatch.delattr("holdfast.outbound.network", raising=False)
    monkeypatch.setitem(sys.modules, "httpcore2", None)
    with pytest.raises(ConfigError, match=r"holdfast\[web\]"):
        asyncio.run(HttpClient().request("GET", "https://example.com/"))


def test_the_parts_of_a_url() -> None:
    target = parse("HTTPS://Shop.Example.COM./a/b?c=d#e", Policy())
    assert (target.scheme, target.host, target.port, target.path) == ("https", "shop.example.com", 443, "/a/b?c=d")
    assert parse("https://[2606:4700::1]?q", Policy()).authority == "[2606:4700::1]"
    assert parse("https://[2606:4700::1]?q", Policy()).path == "/?q"
    assert parse("https://8.8.8.8:8443", Policy(ports=(8443,))).authority == "8.8.8.8:8443"


def test_a_policy_lets_in_the_networks_that_it_names_and_no_others() -> None:
    policy = Policy(allow_private=("10.1.0.0/16", "fd00::/8"))
    assert [policy.permits(text) for text in ("10.1.2.3", "fd00::1", "10.2.0.1", "127.0.0.1", "8.8.8.8", "x")] == [
        True, True, False, False, True, False,
    ]  # fmt: skip
    with pytest.raises(UrlRefused, match="not a public address"):
        parse("https://10.2.0.1/", policy)
