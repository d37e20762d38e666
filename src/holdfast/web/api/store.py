"""The store, the settings in force, and the metrics for Prometheus."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from ...contrib.prometheus import CONTENT_TYPE, render
from ...shapes.store import Settings, Store, of_facts, of_settings
from ..wire.call import Call
from ..wire.operation import Group

group = Group("Store", "What the store is, what it can do, and how it fares.")


@group.get("/store", needs="read")
async def get_store(call: Call) -> Store:
    """What the database says of itself, what it supports, and its health."""
    app = call.whole("the store")
    facts = await asyncio.to_thread(app.open().describe)
    return Store(facts=of_facts(facts), capabilities=await app.acapabilities(), health=await app.stats.astore())


@group.get("/settings", needs="admin")
async def get_settings(call: Call) -> Settings:
    """The settings in force and where each comes from, without passwords."""
    app = call.whole("the settings")
    return Settings(settings=of_settings(app.config, app._code))


@group.get("/metrics", needs="read", media="text/plain")
async def get_metrics(call: Call) -> Response:
    """The figures of the store and of this process, in the text format of Prometheus."""
    app = call.whole("the metrics")
    return Response(await asyncio.to_thread(render, app), media_type=CONTENT_TYPE)
