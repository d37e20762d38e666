"""Flask: orders and their jobs in one transaction; jobs run in the application's context.

Start it with `flask --app examples.web.with_flask run` or `gunicorn examples.web.with_flask:web`, and a worker with
`flask --app examples.web.with_flask holdfast worker`.
"""

from __future__ import annotations

import os

from flask import Flask, abort, current_app, request
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import holdfast
from holdfast.contrib.flask import init_app

jobs = holdfast.App("shop.db")
engine = create_engine(os.environ.get("DATABASE_URL", "sqlite:///shop.db"))

web = Flask(__name__)
web.config["SENDER"] = "shop@example.com"
init_app(web, jobs)


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]


@jobs.task
def confirm(order_id: int) -> str:
    return f"order {order_id} confirmed by {current_app.config['SENDER']}"


@web.cli.command("create-tables")
def create_tables() -> None:
    Base.metadata.create_all(engine)


@web.post("/orders")
def place() -> dict[str, str]:
    with Session(engine) as session, session.begin(), jobs.within(session):
        order = Order(item=request.args["item"])
        session.add(order)
        session.flush()
        job = confirm.enqueue(order.id)  # committed with the order, or not at all
        if order.item == "nothing":
            abort(409)
    return {"job": job.id}


@web.get("/orders/<job_id>")
def show(job_id: str) -> dict[str, str | None]:
    job = confirm.handle(job_id)
    return {"state": job.state, "result": job.result() if job.state == "succeeded" else None}
