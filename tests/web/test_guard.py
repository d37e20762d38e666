"""What stands between the network and the operations: names, origins, who asks, and the headers of every answer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.routing import Mount
from starlette.types import ASGIApp

import holdfast
from holdfast.errors import ConfigError
from holdfast.web import Identity, WebSettings, asgi
from holdfast.web.guard.cookies import session_of
from holdfast.web.guard.throttle import caller_of
from holdfast.web.pages.login import _TRIES
from holdfast.web.serving import _drop_unresponsive_peers, settings_for

from .page_kit import HOSTILE
from .web_kit import Site, served

OWN = {"sec-fetch-site": "same-origin"}
DOUBLE = {"task": "double", "arguments": {"n": 1}}


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """Each test may log in."""
    _TRIES._left.clear()
    yield
    _TRIES._left.clear()


# -- every answer is protected


@pytest.mark.parametrize(
    "path",
    [
        "/" + "a/" * 40,
        "/api/v1/" + "a/" * 40,
        "/static/" + "a/" * 40,
        "/live/" + "a/" * 40,
        "/static/%00",
        "/static/..%2f..%2f__init__.py",
        "/static/" + "a" * 5_000,
        "/api/v1/jobs/%ff",
        "/nothing-here",
    ],
)
def test_whatever_is_asked_for_the_answer_is_ours_and_has_its_headers(site: Site, path: str) -> None:
    for caller in (site, site.as_nobody()):
        answer = caller.call("GET", path)
        assert 400 <= answer.status_code < 500, answer.text
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"


def test_what_breaks_behind_the_guard_is_answered_by_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(scope: object) -> str:
        raise RuntimeError(f"{HOSTILE} in /etc/holdfast")

    monkeypatch.setattr("holdfast.web.site.path_below", broken)
    answer = site.call("GET", "/api/v1/jobs")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
    assert "holdfast" not in answer.text and "content-security-policy" in answer.headers


# -- origins


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "null", "", "http://evil", "http://localhost:1"])
def test_an_origin_that_is_not_ours_or_cannot_be_read_is_refused(site: Site, origin: str) -> None:
    for method in ("GET", "POST"):
        answer = site.call(method, "/api/v1/jobs", headers={"origin": origin})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross_site")


# -- names


@pytest.mark.parametrize("name", ["", "jobs.example.com:80", "http://jobs.example.com", "a b", "*.", "jobs.*", "a/b"])
def test_what_is_no_name_of_a_host_is_refused_at_the_start(name: str) -> None:
    with pytest.raises(ConfigError, match="is not a host name"):
        WebSettings(hosts=(name,))


@pytest.mark.parametrize("name", ["*", "*.example.com", "jobs.example.com", "10.0.0.1", "[fd00::1]", "web_1"])
def test_names_addresses_and_patterns_are_taken(name: str) -> None:
    assert WebSettings(hosts=(name,)).hosts == (name,)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8787", "localhost.", "127.0.0.1:1", "[::1]", "[::1]:8787"])
def test_the_site_answers_under_its_names_with_any_port(site: Site, host: str) -> None:
    assert site.call("GET", "/api/v1/jobs", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.com", "localhost:evil", "[::1]evil.com", "localhost@evil.com", "localhost..", "", "[::1", "127.1"]
)
def test_under_any_other_name_it_does_not(site: Site, host: str) -> None:
    answer = site.call("GET", "/api/v1/jobs", headers={"host": host})
    assert (answer.status_code, answer.json()["error"]["code"]) == (421, "misdirected")


# -- without auth, only this machine may call


@pytest.mark.parametrize(
    "header", ["x-forwarded-for", "X-Forwarded-Host", "x-forwarded-server", "forwarded", "via", "x-real-ip"]
)
def test_without_auth_what_a_proxy_sends_is_refused(site: Site, header: str) -> None:
    """nginx and Apache on the same machine send the whole world's requests to 127.0.0.1, under that name."""
    behind = {"host": "127.0.0.1:8787", header: "203.0.113.7"}
    for method, path in (("GET", "/"), ("GET", "/api/v1/jobs"), ("POST", "/api/v1/jobs")):
        answer = site.call(method, path, headers=behind)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "proxied")
        assert "--behind-proxy" in answer.json()["error"]["message"]


def test_without_auth_the_http_1_0_of_a_bare_nginx_is_refused(app: holdfast.App) -> None:
    with served(app, auth="off") as address, socket.create_connection(address_of(address)) as line:
        line.sendall(b"GET /api/v1/jobs HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
        assert line.makefile("rb").readline().startswith(b"HTTP/1.1 403 ")


def test_a_token_is_good_behind_a_proxy_also_where_this_machine_needs_none(site: Site) -> None:
    secret = site.app.tokens.create("ada", role="viewer").secret
    behind = {"x-forwarded-for": "203.0.113.7", "authorization": f"Bearer {secret}"}
    assert site.call("GET", "/api/v1/jobs", headers=behind).status_code == 200


def address_of(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname and parts.port
    return parts.hostname, parts.port


# -- how often


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
    ],
)
def test_whoever_has_a_whole_network_is_counted_as_one(host: str, counted: str) -> None:
    assert caller_of(HTTPConnection({"type": "http", "headers": [], "client": (host, 1)})) == counted


def test_without_an_address_strangers_are_counted_together() -> None:
    assert caller_of(HTTPConnection({"type": "http", "headers": [], "client": None})) == ""


# -- who may be let in without a token


def serving(host: str = "127.0.0.1", auth: str | None = None, *hosts: str, behind_proxy: bool = False) -> WebSettings:
    return settings_for(host, auth=auth, hosts=hosts, behind_proxy=behind_proxy, any_task=False)  # type: ignore[arg-type]


def test_on_loopback_and_under_its_own_name_nobody_is_asked() -> None:
    for host in ("127.0.0.1", "::1", "localhost", "127.0.0.2"):
        assert serving(host).auth == "off"


def test_behind_a_proxy_and_under_another_name_everybody_is() -> None:
    # A proxy on the same machine brings the whole world to loopback.
    assert serving(behind_proxy=True).auth == "required"
    assert serving("127.0.0.1", None, "jobs.example.com").auth == "required"
    assert serving("127.0.0.1", None, "jobs.example.com", behind_proxy=True).auth == "required"
    assert serving("127.0.0.1", "off", "jobs.local").auth == "off"


@pytest.mark.parametrize(
    ("host", "auth", "hosts", "behind_proxy", "why"),
    [
        ("127.0.0.1", "off", (), True, "through the proxy"),
        ("127.0.0.1", "off", ("*",), False, "instead of"),
        ("0.0.0.0", "off", ("a.example",), False, "other machines can reach"),
        ("0.0.0.0", None, (), False, "give the host names"),
        ("", None, (), False, "host names of the site"),
        ("0.0.0.0", None, ("a.example",), False, "unencrypted"),
    ],
)
def test_what_would_let_others_in_unasked_is_refused(
    host: str, auth: str | None, hosts: tuple[str, ...], behind_proxy: bool, why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        serving(host, auth, *hosts, behind_proxy=behind_proxy)


def test_an_address_of_ipv6_is_a_name_as_browsers_write_it() -> None:
    assert "[fd00::1]" in serving("fd00::1", None, "jobs.example.com", behind_proxy=True).hosts


def test_who_reads_nothing_is_let_go_by_the_system() -> None:
    option = getattr(socket, "TCP_USER_TIMEOUT", None)  # of Linux
    with socket.create_server(("127.0.0.1", 0)) as listening:
        _drop_unresponsive_peers([listening])
        with socket.create_connection(listening.getsockname()), listening.accept()[0] as accepted:
            assert option is None or accepted.getsockopt(socket.IPPROTO_TCP, option) == 60_000


# -- sessions


def log_in(site: Site, secret: str, path: str = "/login") -> httpx2.Response:
    return site.call("POST", path, data={"token": secret}, headers=OWN)


def session_at(answer: httpx2.Response) -> dict[str, str]:
    """The cookie that an answer sets, as a browser sends it back."""
    assert answer.status_code == 303, answer.text
    return {"cookie": answer.headers["set-cookie"].partition(";")[0]}


def test_whoever_may_come_in_may_do_so_as_often_as_he_likes(site: Site) -> None:
    guarded, secret = site.as_nobody(), site.app.tokens.create("ada", role="admin").secret
    assert {log_in(guarded, secret).status_code for _ in range(12)} == {303}


def test_a_session_is_over_as_soon_as_it_is_logged_out(site: Site) -> None:
    guarded = site.as_nobody()
    cookie = session_at(log_in(guarded, site.app.tokens.create("ada", role="admin").secret))
    assert guarded.call("GET", "/api/v1/jobs", headers=cookie).status_code == 200
    assert guarded.call("POST", "/logout", headers={**cookie, **OWN}).status_code == 303
    assert guarded.call("GET", "/api/v1/jobs", headers=cookie).status_code == 401


def test_a_token_is_no_session_and_a_session_is_no_token_however_fresh_they_are(site: Site) -> None:
    guarded = site.as_nobody()
    secret = site.app.tokens.create("ada", role="admin").secret
    cookie = session_at(log_in(guarded, secret))
    name, _, session = cookie["cookie"].partition("=")
    for bearer, status in ((secret, 200), (session, 401)):
        answer = guarded.call("GET", "/api/v1/jobs", headers={"authorization": f"Bearer {bearer}"})
        assert answer.status_code == status
    assert guarded.call("GET", "/api/v1/jobs", headers=cookie).status_code == 200
    # A token where a session belongs would be spared the question which page asks.
    answer = guarded.call("POST", "/api/v1/jobs", json=DOUBLE, headers={"cookie": f"{name}={secret}"})
    assert answer.status_code == 401


def test_by_https_a_cookie_that_a_neighbour_could_plant_is_not_looked_at(site: Site) -> None:
    guarded = site.as_nobody()
    cookie = session_at(log_in(guarded, site.app.tokens.create("mallory", role="admin").secret))
    name, _, session = cookie["cookie"].partition("=")
    assert name == "__Host-holdfast"
    answer = guarded.call("GET", "/api/v1/jobs", headers={"cookie": f"holdfast_session={session}"})
    assert answer.status_code == 401
    scope = {"type": "http", "headers": [(b"cookie", b"holdfast_session=a; __Secure-holdfast=b")]}
    assert session_of(HTTPConnection(scope), secure=True) == "b"
    assert session_of(HTTPConnection(scope), secure=False) == "a"


def test_below_a_prefix_the_whole_of_a_login_works(app: holdfast.App) -> None:
    secret = app.tokens.create("ada", role="admin").secret

    async def browse() -> None:
        async with browser(Starlette(routes=[Mount("/ops", asgi(app))])) as client:
            asked = await client.get("/ops/jobs?q=x")
            assert (asked.status_code, asked.headers["location"]) == (303, "/ops/login?next=%2Fjobs%3Fq%3Dx")
            answer = await client.post("/ops/login", data={"token": secret, "next": "/jobs"}, headers=OWN)
            assert answer.headers["location"] == "/ops/jobs"
            given = answer.headers["set-cookie"]
            assert given.startswith("__Secure-holdfast=") and "Path=/ops;" in given
            assert "HttpOnly" in given and "Secure" in given and "SameSite=strict" in given
            cookie = {"cookie": given.partition(";")[0]}
            for path in ("/ops/", "/ops/jobs", "/ops/api/v1/jobs"):
                assert (await client.get(path, headers=cookie)).status_code == 200, path
            for path in ("/ops/api/v1/jobs", "/ops/live?page=/jobs"):
                assert (await client.get(path)).status_code == 401, path
            assert (await client.post("/ops/logout", headers={**cookie, **OWN})).headers["location"] == "/ops/login"
            assert (await client.get("/ops/api/v1/jobs", headers=cookie)).status_code == 401

    asyncio.run(browse())


@pytest.mark.parametrize(
    "wanted", ["//evil", "/\\evil", "https://evil", "javascript:x", "/\t/evil", "/a\r\nx: y", "evil", "", "///evil"]
)
def test_after_a_login_nobody_is_sent_elsewhere(site: Site, wanted: str) -> None:
    secret = site.app.tokens.create("ada", role="viewer").secret
    answer = site.as_nobody().call("POST", "/login", data={"token": secret, "next": wanted}, headers=OWN)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


# -- the word of the program around


def test_who_is_let_in_by_the_program_around_is_asked_which_page_acts(app: holdfast.App) -> None:
    async def identify(connection: HTTPConnection) -> Identity:
        return Identity("ada", frozenset({"read", "enqueue"}))

    async def act() -> None:
        async with browser(asgi(app, identify=identify)) as client:
            for headers in ({}, {"origin": "http://evil"}, {"sec-fetch-site": "cross-site"}):
                answer = await client.post("/api/v1/jobs", json=DOUBLE, headers=headers)
                assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross_site")
            assert (await client.post("/api/v1/jobs", json=DOUBLE, headers=OWN)).status_code in (201, 422)

    asyncio.run(act())


def browser(site: ASGIApp) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(site), base_url="http://localhost")


# -- what a browser may bring along


@pytest.mark.parametrize(
    "said",
    ["[" * 5_000, '{"say":"\\ud800","ok":true}', '{"say":' + "[" * 3_000, "[1]", "null", "\xff", '{"say":"a"}'],
)
def test_a_message_to_the_next_page_that_was_forged_does_no_harm(site: Site, said: str) -> None:
    for path in ("/jobs", "/login"):
        assert site.call("GET", path, headers={"cookie": f"holdfast_flash={quote(said)}"}).status_code == 200


@pytest.mark.parametrize("length", [b"\xb2", b"9" * 5_000, b"-1", b"1e9"])
def test_a_length_that_is_no_number_is_not_believed(site: Site, length: bytes) -> None:
    headers = [(b"content-length", length), (b"content-type", b"application/json")]
    assert site.call("POST", "/api/v1/jobs", content=b"{", headers=headers).status_code == 400
