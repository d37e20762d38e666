"""Starlette: durable background tasks, routes that show a job, and the dashboard.

Start it with `uvicorn examples.web.with_starlette:web`.
"""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

import holdfast
from holdfast.contrib.starlette import DurableBackgroundTasks, dashboard, job_routes, lifespan
from holdfast.model import JobRecord

jobs = holdfast.App("shop.db")


@jobs.task
async def pack(ctx: holdfast.Context, item: str) -> str:
    await ctx.emit(f"{item} is in the box")
    return f"{item} is packed"


async def place(request: Request) -> Response:
    job = await pack.options(created_by=request.headers["x-customer"]).aenqueue(request.query_params["item"])
    return JSONResponse({"job": job.id})


async def place_many(request: Request) -> Response:
    async with DurableBackgroundTasks(jobs) as tasks:
        for item in request.query_params.getlist("item"):
            tasks.add_task(pack, item)
    return JSONResponse(None, 202)


def own_job(request: Request, job: JobRecord) -> bool:
    return job.created_by == request.headers.get("x-customer")


web = Starlette(
    lifespan=lifespan(jobs, migrate=True, worker=True),
    routes=[
        Route("/orders", place, methods=["POST"]),
        Route("/orders/many", place_many, methods=["POST"]),
        Mount("/jobs", routes=job_routes(jobs, may_read=own_job)),
        Mount("/dashboard", dashboard(jobs)),
    ],
)
