"""FastAPI with SQLAlchemy's sessions: `def` endpoints, on threads."""

from __future__ import annotations

import os

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

import holdfast
from tests.acceptance.shops.jobs import app as jobs
from tests.acceptance.shops.jobs import receipt

engine = create_engine(os.environ["SHOP_DATABASE"])
with engine.begin() as connection:
    connection.execute(text(os.environ["SHOP_TABLE"]))

app = FastAPI()


@app.exception_handler(holdfast.HoldfastError)
def refuse(_: Request, error: holdfast.HoldfastError) -> JSONResponse:
    return JSONResponse(f"{type(error).__name__}: {error}", status_code=503)


@app.post("/orders/{way}")
def order(way: str, item: str) -> str:
    with Session(engine) as session, session.begin():
        (number,) = session.execute(text("insert into orders (item) values (:item) returning id"), {"item": item}).one()
        if way == "forgotten":
            job = receipt.enqueue(number)
        elif way == "within":
            with jobs.within(session):
                job = receipt.enqueue(number)
        else:
            job = receipt.options(connection=session).enqueue(number)
        if item == "nothing":
            raise HTTPException(409, "sold out")
    return job.id


@app.get("/orders")
def count() -> int:
    with Session(engine) as session:
        (number,) = session.execute(text("select count(*) from orders")).one()
    return int(number)
