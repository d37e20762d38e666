"""Some hundred jobs of every kind and in every state, the same on each store."""

from __future__ import annotations

from typing import Any

import holdfast

from .dice import dice

TAGS = ("vip", "a b", "é", "%", "_", "tag\U0001f600", '"quoted"', "VIP")
TENANTS = ("", "acme", "Acme", "umbrella's")
QUEUES = ("default", "mail", "Mail", "%", "_", "é", "e\u0301", "a'b", "\U0001f600")
COUNT = 260


def populate(app: holdfast.App) -> None:
    """Tasks that end in each way, and jobs of them."""

    @app.task(name="fine", max_attempts=1)
    async def fine(word: str) -> str:
        return word

    @app.task(name="wrong", max_attempts=1)
    async def wrong(word: str) -> None:
        raise ValueError(f"boom {word}")

    @app.task(name="again", max_attempts=3, retry=holdfast.RetryPolicy(kind="fixed", initial=3_600))
    async def again(word: str) -> None:
        raise OSError("boom _ é")

    @app.task(name="asks")
    async def asks(ctx: holdfast.Context, word: str) -> None:
        await ctx.wait_for(await ctx.waitpoint("word", expires=86_400))

    _enqueue(app, 0, COUNT // 2)
    with app.flow("pair") as flow:
        first = flow.add(fine.options(id="flow-1", delay=3_600).job("x"), name="first")
        flow.add(wrong.options(id="flow-2").job("y"), after=first, name="second")
    app.drain(queues=list(QUEUES), webhooks=False)
    _enqueue(app, COUNT // 2, COUNT)
    for n in range(COUNT // 2, COUNT, 7):
        app.jobs.cancel(f"job-{n:04d}", reason="because")
    worker = app.remote.register("remote", ["mail", "%"], ["fine", "wrong", "again"], concurrency=5, lease=600)
    app.remote.claim(worker.worker, 5)


def _enqueue(app: holdfast.App, first: int, last: int) -> None:
    rng = dice(f"population {first}")
    for n in range(first, last):
        options: dict[str, Any] = {
            "id": f"job-{n:04d}", "queue": rng.choice(QUEUES), "priority": rng.randint(-2, 2),
            "tags": rng.sample(TAGS, rng.randint(0, 3)),
        }  # fmt: skip
        if tenant := rng.choice(TENANTS):
            options["tenant"] = tenant
        if rng.random() < 0.2:
            options["delay"] = 3_600
        task = app.tasks[rng.choice(("fine", "wrong", "again", "asks"))]
        task.options(**options).enqueue(rng.choice(("é", "a b", '"', "%", "_", "plain", "zz\x00z")))
