"""FastAPI: orders and their jobs in one transaction, background tasks that survive a crash, a progress stream.

Start it with `uvicorn examples.web.with_fastapi:web`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import holdfast
from holdfast.contrib.fastapi import DurableBackgroundTasks, dashboard, job_router, lifespan, transaction

jobs = holdfast.App("shop.db")
engine = create_async_engine(os.environ.get("DATABASE_URL", "sqlite+aiosqlite:///shop.db"))


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]


@jobs.task
async def pack(ctx: holdfast.Context, order_id: int, item: str) -> str:
    await ctx.progress(50, message="packing")
    await ctx.emit(f"{item} is in the box")
    return f"order {order_id} is packed"


@jobs.task
def write_log(line: str) -> None:
    with open(os.environ.get("SHOP_LOG", "shop.log"), "a") as log:
        log.write(f"{line}\n")


@asynccontextmanager
async def create_tables(_: Any) -> AsyncIterator[None]:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    yield
    await engine.dispose()


def known_customer(x_customer: Annotated[str, Header()]) -> str:
    if x_customer != "ada":
        raise HTTPException(403, "unknown customer")
    return x_customer


web = FastAPI(lifespan=lifespan(jobs, migrate=True, worker=True, inner=create_tables))
web.include_router(job_router(dependencies=[Depends(known_customer)]), prefix="/jobs")
web.mount("/dashboard", dashboard(jobs))

Session = Annotated[AsyncSession, transaction(jobs, async_sessionmaker(engine, expire_on_commit=False))]


@web.post("/orders")
async def place(item: str, session: Session, tasks: DurableBackgroundTasks) -> dict[str, str]:
    order = Order(item=item)
    session.add(order)
    await session.flush()
    job = await pack.aenqueue(order.id, item)  # committed with the order, or not at all
    tasks.add_task(write_log, f"order {order.id}")
    if item == "nothing":
        raise HTTPException(409, "sold out")
    return {"job": job.id}


@web.post("/visits", status_code=202)
async def visit(lines: list[str], tasks: DurableBackgroundTasks) -> None:
    for line in lines:
        tasks.add_task(write_log, line)
