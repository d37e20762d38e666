"""FastAPI with SQLAlchemy's async sessions, and a dependency that joins every enqueue of a request."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

import holdfast
from tests.acceptance.shops.jobs import app as jobs
from tests.acceptance.shops.jobs import receipt

engine = create_async_engine(os.environ["SHOP_DATABASE"])


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with engine.begin() as connection:
        await connection.execute(text(os.environ["SHOP_TABLE"]))
    yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


@app.exception_handler(holdfast.HoldfastError)
async def refuse(_: Request, error: holdfast.HoldfastError) -> JSONResponse:
    return JSONResponse(f"{type(error).__name__}: {error}", status_code=503)


async def joined() -> AsyncIterator[AsyncSession]:
    async with AsyncSession(engine) as session, session.begin(), jobs.within(session):
        yield session


Joined = Annotated[AsyncSession, Depends(joined, scope="function")]  # committed before the response


@app.post("/orders/within")
async def order_joined(item: str, session: Joined) -> str:
    job = await receipt.aenqueue(await _insert(session, item))
    if item == "nothing":
        raise HTTPException(409, "sold out")
    return job.id


@app.post("/orders/{way}")
async def order(way: str, item: str) -> str:
    async with AsyncSession(engine) as session, session.begin():
        number = await _insert(session, item)
        task = receipt if way == "forgotten" else receipt.options(connection=session)
        job = await task.aenqueue(number)
        if item == "nothing":
            raise HTTPException(409, "sold out")
    return job.id


@app.get("/orders")
async def count() -> int:
    async with AsyncSession(engine) as session:
        return int((await session.execute(text("select count(*) from orders"))).scalar_one())


async def _insert(session: AsyncSession, item: str) -> int:
    inserted = await session.execute(text("insert into orders (item) values (:item) returning id"), {"item": item})
    return int(inserted.scalar_one())
