"""The store, the active settings, and Prometheus metrics."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from ...contrib.prometheus import CONTENT_TYPE, render
from ...shapes.store import Settings, Store, of_facts, of_settings
from ..wire.call import Call
from ..wire.operation import Group

group = Group("Store", "The store's details, capabilities and health.")


@group.get("/store", needs="read")
async def get_store(call: Call) -> Store:
    """Get the database's details, capabilities and health."""
    app = call.whole("the store")
    facts = await asyncio.to_thread(app.open().describe)
    return Store(facts=of_facts(facts), capabilities=await app.acapabilities(), health=await app.stats.astore())


@group.get("/settings", needs="admin")
async def get_settings(call: Call) -> Settings:
    """List the active settings and their sources, without passwords."""
    app = call.whole("the settings")
    return Settings(settings=of_settings(app.config, app._code))


@group.get("/metrics", needs="read", media="text/plain")
async def get_metrics(call: Call) -> Response:
    """Get the metrics of the store and of this process, in the Prometheus text format."""
    app = call.whole("the metrics")
    return Response(await asyncio.to_thread(render, app), media_type=CONTENT_TYPE)
