"""A provider's webhooks become jobs and signals, once each."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn

from holdfast import Context
from holdfast.errors import ConfigError
from holdfast.outbound.client import HttpClient
from holdfast.outbound.policy import Policy
from holdfast.rules.signing import new_secret, sign
from holdfast.tasks.task import JobRequest
from holdfast.webhooks import Message, Receiver, receiver
from holdfast.webhooks import sign as signed
from tests.patience import SOON

from .worker_kit import Shop, live

SECRET, OLD = new_secret(b"s" * 32), new_secret(b"o" * 32)


class Sender:
    """Speaks ASGI to a receiver, as a server would."""

    def __init__(self, shop: Shop, to: Receiver) -> None:
        self._shop = shop
        self._to = to

    async def send(
        self, id: str, data: object, *, secret: str = SECRET, late: int = 0, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        at = self._shop.clock.now() // 1_000_000 - late
        signed = {"webhook-id": id, "webhook-timestamp": str(at), "webhook-signature": sign([secret], id, at, body)}
        return await self.ask("POST", signed | (headers or {}), body)

    async def ask(self, method: str, headers: dict[str, str], *parts: bytes) -> tuple[int, dict[str, Any]]:
        events: AsyncIterator[dict[str, Any]] = _events(parts)
        said: list[Any] = []

        async def send(event: Any) -> None:
            said.append(event)

        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        scope = {"type": "http", "method": method, "path": "/", "headers": raw}
        await self._to(scope, lambda: anext(events), send)
        return said[0]["status"], json.loads(said[1]["body"])


async def _events(parts: tuple[bytes, ...]) -> AsyncIterator[dict[str, Any]]:
    for n, part in enumerate(parts):
        yield {"type": "http.request", "body": part, "more_body": n < len(parts) - 1}
    yield {"type": "http.disconnect"}


@live
async def test_a_message_becomes_a_job_once_however_often_it_comes(shop: Shop) -> None:
    ran: list[Any] = []

    @shop.app.task
    async def paid(event: dict[str, Any]) -> None:
        ran.append(event["n"])

    sender = Sender(shop, receiver(shop.app, [SECRET, OLD], task=paid))
    status, first = await sender.send("msg_1", {"n": 1})
    again = await sender.send("msg_1", {"n": 1}, secret=OLD)
    async with shop.working():
        await shop.app.job(first["job"]).await_(SOON)
    # Long after the job has ended, the sender still tries.
    shop.clock.advance(86_400)
    later = await sender.send("msg_1", {"n": 1})
    other = await sender.send("msg_2", {"n": 2})

    assert (status, first["created"]) == (202, True)
    assert again == later == (202, {"job": first["job"], "created": False})
    assert other[1]["created"]
    assert ran == [1]


@live
async def test_a_body_that_only_parses_like_the_signed_one_is_refused(small_shop: Shop) -> None:
    @small_shop.app.task
    async def paid(event: dict[str, Any]) -> None: ...

    sender = Sender(small_shop, receiver(small_shop.app, SECRET, task=paid))
    at = small_shop.clock.now() // 1_000_000
    headers = signed(SECRET, "msg_1", b'{"amount": 1}', now=at)
    assert (await sender.ask("POST", headers, b'{"amount": 900, "amount": 1}'))[0] == 401
    assert (await sender.ask("POST", headers, b'{"amount":1}'))[0] == 401
    assert (await sender.ask("POST", headers, b'{"amount": 1}'))[0] == 202


@live
async def test_the_same_message_sent_ten_times_at_once_is_one_job(shop: Shop) -> None:
    @shop.app.task
    async def paid(event: dict[str, Any]) -> None: ...

    sender = Sender(shop, receiver(shop.app, SECRET, task=paid))
    answers = await asyncio.gather(*(sender.send("msg_1", {"n": 1}) for _ in range(10)))

    assert sum(answer["created"] for _, answer in answers) == 1
    assert len({answer["job"] for _, answer in answers}) == 1


@live
async def test_ids_of_two_providers_do_not_meet(small_shop: Shop) -> None:
    @small_shop.app.task
    async def paid(event: dict[str, Any]) -> None: ...

    for name in ("one", "two"):
        sender = Sender(small_shop, receiver(small_shop.app, SECRET, task=paid, name=name))
        assert (await sender.send("msg_1", {}))[1]["created"]


@live
async def test_a_function_chooses_the_job_or_none(small_shop: Shop) -> None:
    @small_shop.app.task
    async def paid(invoice: int) -> None: ...

    def choose(message: Message) -> JobRequest[Any] | None:
        return paid.options(tenant="acme").job(message.data["invoice"]) if message.type == "paid" else None

    sender = Sender(small_shop, receiver(small_shop.app, SECRET, task=choose))
    status, answer = await sender.send("msg_1", {"type": "paid", "invoice": 7})

    assert status == 202
    assert (await small_shop.app.jobs.aget(answer["job"])).tenant == "acme"
    assert await sender.send("msg_2", {"type": "opened"}) == (200, {"ignored": True})


@live
async def test_a_message_becomes_a_signal_once(shop: Shop) -> None:
    received: list[Any] = []

    @shop.app.task
    async def order(ctx: Context) -> None:
        received.append(await ctx.wait_for("paid", type=int))
        received.append(await ctx.wait_for("paid", type=int))

    job = await order.aenqueue()
    sender = Sender(shop, receiver(shop.app, SECRET, signal=lambda m: (job.id, "paid", m.data["amount"])))
    for id, amount in (("msg_1", 5), ("msg_1", 5), ("msg_2", 6)):
        assert await sender.send(id, {"amount": amount}) == (202, {"sent": True})
    async with shop.working():
        await job.await_(SOON)

    assert received == [5, 6]
    assert await sender.send("msg_2", {"amount": 6}) in [
        (202, {"sent": True}),
        (200, {"ignored": True, "why": "job_ended"}),
    ]
    assert await sender.send("msg_3", {"amount": 7}) == (200, {"ignored": True, "why": "job_ended"})


@live
async def test_a_signal_to_nobody_may_be_tried_again(small_shop: Shop) -> None:
    sender = Sender(small_shop, receiver(small_shop.app, SECRET, signal=lambda m: ("nobody", "paid")))
    assert await sender.send("msg_1", {}) == (404, {"error": "not_found"})
    sender = Sender(small_shop, receiver(small_shop.app, SECRET, signal=lambda m: ("forged", None, 1)))
    assert await sender.send("msg_1", {}) == (404, {"error": "invalid_token"})


@live
async def test_what_is_wrong_with_a_request_is_answered(small_shop: Shop) -> None:
    @small_shop.app.task
    async def paid(event: dict[str, int]) -> None: ...

    sender = Sender(small_shop, receiver(small_shop.app, SECRET, task=paid, limit=1_000))

    assert await sender.ask("GET", {}) == (405, {"error": "method_not_allowed"})
    assert (await sender.send("msg_1", {}, secret=OLD))[0] == 401
    assert (await sender.send("msg_1", {}, late=400))[0] == 401
    assert (await sender.ask("POST", {}, b"{}"))[0] == 401
    assert (await sender.send("msg_1", b"{nonsense"))[0] == 400
    assert (await sender.send("msg_1", b"\xff\xfe"))[0] == 400
    assert (await sender.send("msg_1", b"[" * 900))[0] == 400
    assert (await sender.send("msg_1", {"n": "no number"}))[0] == 422
    assert (await sender.ask("POST", {"content-length": "5000"}, b""))[0] == 413
    assert (await sender.ask("POST", {}, b"x" * 600, b"x" * 600))[0] == 413
    assert (await sender.ask("POST", {"content-length": "10"}))[0] == 400
    assert small_shop.app.jobs.find() == []


@live
async def test_a_store_that_is_down_asks_the_sender_to_come_again(
    small_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.errors import StorageUnavailable

    @small_shop.app.task
    async def paid(event: dict[str, int]) -> None: ...

    async def down(request: Any) -> None:
        raise StorageUnavailable("password=hunter2 is wrong")

    monkeypatch.setattr(small_shop.app, "aenqueue", down)
    sender = Sender(small_shop, receiver(small_shop.app, SECRET, task=paid))
    assert await sender.send("msg_1", {"n": 1}) == (503, {"error": StorageUnavailable.code})


@live
async def test_a_function_that_raises_is_an_error_of_ours(small_shop: Shop) -> None:
    sender = Sender(small_shop, receiver(small_shop.app, SECRET, task=lambda m: m.data["missing"]))
    assert await sender.send("msg_1", {}) == (500, {"error": "error"})


@live
async def test_a_body_that_does_not_come_is_not_waited_for(small_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.webhooks.receiving.BODY_SECONDS", 0.05)
    said: list[Any] = []

    async def never() -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    async def send(event: Any) -> None:
        said.append(event)

    scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
    await receiver(small_shop.app, SECRET, signal=lambda m: None)(scope, never, send)
    assert said[0]["status"] == 408


@live
async def test_a_message_goes_over_a_real_connection(real_shop: Shop) -> None:
    @real_shop.app.task
    async def paid(event: dict[str, Any]) -> int:
        return int(event["n"])

    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        settings = uvicorn.Config(receiver(real_shop.app, SECRET, task=paid), log_level="warning", ws="none")
        server = uvicorn.Server(settings)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        client = HttpClient(Policy(allow_http=True, allow_private=True, ports=[port]))
        body = b'{"n": 7}'
        answer = await client.request("POST", f"http://127.0.0.1:{port}/", headers=signed(SECRET, "m", body), body=body)
        await client.aclose()
        server.should_exit = True
        await serving

    assert answer.status == 202
    async with real_shop.working():
        assert await real_shop.app.job(json.loads(answer.body)["job"], task="paid").aresult(SOON) == 7


@live
async def test_it_can_be_served_alone(small_shop: Shop) -> None:
    events = iter(["lifespan.startup", "lifespan.shutdown"])
    said: list[str] = []

    async def receive() -> dict[str, str]:
        return {"type": next(events)}

    async def send(event: Any) -> None:
        said.append(event["type"])

    await receiver(small_shop.app, SECRET, signal=lambda m: None)({"type": "lifespan"}, receive, send)
    assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_a_receiver_is_checked_when_it_is_made(small_shop: Shop) -> None:
    with pytest.raises(ConfigError, match="either jobs or signals"):
        receiver(small_shop.app, SECRET)
    with pytest.raises(ConfigError, match="at least 600"):
        receiver(small_shop.app, SECRET, signal=lambda m: None, remember=300)
