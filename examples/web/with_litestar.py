"""Litestar: the plugin opens the app, runs a worker and injects the app into handlers.

Start it with `litestar --app examples.web.with_litestar:web run`.
"""

from __future__ import annotations

from litestar import Litestar, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery

import holdfast
from holdfast.contrib.litestar import DurableBackgroundTasks, HoldfastPlugin, dashboard

jobs = holdfast.App("shop.db")


@jobs.task
async def pack(item: str) -> str:
    return f"{item} is packed"


@post("/orders")
async def place(item: FromQuery[str]) -> dict[str, str]:
    job = await pack.aenqueue(item)
    return {"job": job.id}


@post("/orders/many", status_code=202)
async def place_many(items: FromQuery[list[str]], holdfast: NamedDependency[holdfast.App]) -> None:
    async with DurableBackgroundTasks(holdfast) as tasks:
        for item in items:
            tasks.add_task(pack, item)


@get("/orders/{job_id:str}")
async def show(job_id: FromPath[str], holdfast: NamedDependency[holdfast.App]) -> dict[str, str]:
    return {"state": (await holdfast.jobs.aget(job_id)).state}


web = Litestar(
    [place, place_many, show, dashboard("/dashboard", jobs)],
    plugins=[HoldfastPlugin(jobs, migrate=True, worker=True)],
)
