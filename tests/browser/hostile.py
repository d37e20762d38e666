"""Texts that would run as code in a careless page, and an app that has them in every field that outsiders fill."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import holdfast
from holdfast.errors import InvalidInput
from holdfast.model import JobFilter
from holdfast.model.jobs import JobState

NAMES: Final = (
    "<script>__pwned=1</script>",
    "</script><script>__pwned=1</script>",
    "</title><script>__pwned=1</script>",
    "</textarea><script>__pwned=1</script>",
    "--><script>__pwned=1</script>",
    "<!--><script>__pwned=1</script>",
    "<img src=x onerror=__pwned=1>",
    '"><img src=x onerror=__pwned=1>',
    "'><img src=x onerror=__pwned=1>",
    "`><img src=x onerror=__pwned=1>",
    '<img src="x" onerror="&#95;_pwned=1">',
    "<svg onload=__pwned=1>",
    "<svg><script>__pwned=1</script></svg>",
    "<svg><animate onbegin=__pwned=1 attributeName=x dur=1s>",
    '<svg><a xlink:href="javascript:__pwned=1"><text>x</text></a>',
    "</text></svg><img src=x onerror=__pwned=1>",
    "javascript:__pwned=1",
    "JaVaScRiPt:__pwned=1//",
    "data:text/html,<script>parent.__pwned=1</script>",
    '" onfocus=__pwned=1 autofocus tabindex=1 x="',
    "' onmouseover=__pwned=1 x='",
    '<iframe srcdoc="<script>parent.__pwned=1</script>">',
    "<iframe src=javascript:parent.__pwned=1>",
    "<object data=javascript:__pwned=1>",
    "<details open ontoggle=__pwned=1>",
    "<input autofocus onfocus=__pwned=1>",
    "<style onload=__pwned=1></style>",
    "<math><mtext><table><mglyph><style><img src=x onerror=__pwned=1>",
    "<form action=javascript:__pwned=1><button>x",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "{{7*7}}{{constructor.constructor('__pwned=1')()}}",
    "{% for x in ().__class__.__base__ %}{{x}}{% endfor %}",
    "${__pwned=1}#{__pwned=1}<%= 7*7 %>",
    "&lt;script&gt;__pwned=1&lt;/script&gt;",
    "\\u003cscript\\u003e__pwned=1\\u003c/script\\u003e",
    '"]}};__pwned=1;//',
    "';__pwned=1;'",
    "../../login?next=//evil.example",
)
TEXTS: Final = (
    *NAMES,
    "\u202egnp.exe\u202c <b>reversed</b>",
    "a\u200bb\ufeffc <script>__pwned=1</script>",
    "\x1b[31m<script>__pwned=1</script>\x00\x07",
    "line\u2028<script>__pwned=1</script>\u2029",
    "\ufffe\U0010ffff<svg/onload=__pwned=1>",
    "<" * 300 + "script>__pwned=1",
)


def queue_of(name: str) -> str:
    """The same as a queue may be called: a slash separates attributes as well as a blank does."""
    return name.replace(" ", "/").replace(",", ";")


def hostile_app(store: str) -> holdfast.App:
    """A task for each name, that says, leaves and asks for what it is called."""
    app = holdfast.App(store, durable=False)
    for name in NAMES:
        _task(app, name)

    @app.task(name="everything", max_attempts=1)
    async def everything(ctx: holdfast.Context, texts: list[str], by_name: dict[str, str]) -> dict[str, str]:
        for name in NAMES:
            await ctx.step(name, str, name)
            with contextlib.suppress(InvalidInput):
                await ctx.artifact(name, name.encode(), "text/html")
        for text in texts:
            await ctx.emit(text)
            await ctx.emit({text: text}, kind="log")
        await ctx.progress(50, texts[0])
        return by_name

    @app.task(name="asks")
    async def asks(ctx: holdfast.Context, name: str) -> None:
        await ctx.progress(50, name)
        await ctx.wait_for(await ctx.waitpoint(name, expires=86_400))

    return app


def _task(app: holdfast.App, name: str) -> None:
    @app.task(name=name, queue=queue_of(name), max_attempts=1, retry=holdfast.RetryPolicy(kind="fixed", initial=1))
    async def hostile(text: str) -> None:
        raise type(f"Wrong {name}", (Exception,), {})(text)


def fill(app: holdfast.App) -> dict[str, list[str]]:
    """All fields of all pages; the addresses that show them, by kind."""
    flows = [_for_each(app, n, name) for n, name in enumerate(NAMES)]
    asked = [app.enqueue(app.tasks["asks"].job(name)).id for name in NAMES[:12]]
    told = app.enqueue(app.tasks["asks"].job("x")).id
    for name in NAMES:
        app.signals.send(app.job(told), name, name, source=name)
    everything = app.enqueue(app.tasks["everything"].job(list(TEXTS), {text: text for text in TEXTS})).id
    app.drain(webhooks=False)
    app.stats.roll()
    failed = app.jobs.find(JobFilter(state=JobState.FAILED, limit=100))
    assert len(failed) == len(NAMES)
    for job, name in zip(failed, NAMES, strict=True):
        app.jobs.retry(job.id, actor=name, reason=name)
    return {
        "job": [f"/jobs/{job.id}" for job in failed],
        "flow": [f"/flows/{flow}" for flow in flows],
        "error": [f"/errors/{one.fingerprint}" for one in app.errors.list()],
        "asked": [f"/jobs/{job}?tab=signals" for job in asked],
        "told": [f"/jobs/{told}?tab=signals"],
        "everything": [f"/jobs/{everything}?tab={tab}" for tab in _TABS],
        "endpoint": [f"/webhooks/{one.id}" for one in app.webhooks.list()],
    }


_TABS: Final = ("overview", "attempts", "steps", "stream", "artifacts", "again")


def _for_each(app: holdfast.App, n: int, name: str) -> str:
    task = app.tasks[name]
    app.budgets.set(name, {"tokens": 100})
    app.limits.set_rate(name, capacity=1, per_second=1)
    app.breakers.set(name, failures=3, open_for=60)
    app.quotas.of(name).set(name, limit=10, window=60)
    app.queues.pause(queue_of(name), actor=name, reason=name)
    app.queues.resume(queue_of(name), actor=name, reason=name)
    app.schedules.create(name, task.job(name), cron="0 3 * * *", reason=name)
    with contextlib.suppress(InvalidInput):
        app.declare_destination(queue_of(name))
        app.outbox(queue_of(name)).put({name: name}, kind=name)
    app.tokens.create(name, role="viewer", reason=name)
    with contextlib.suppress(InvalidInput):
        app.webhooks.add(f"https://hooks.example.com/{name}", tags=[name], reason=name)
    options: dict[str, Any] = {"tags": [name] if len(name) <= 64 else [], "tenant": name, "concurrency_key": name}
    with app.flow(name, tenant=name) as flow:
        flow.add(task.options(**options, concurrency=1, priority=n).job(TEXTS[n]), name=name)
    return flow.id


@contextlib.contextmanager
def hostile_worker(app: holdfast.App) -> Iterator[None]:
    """A worker with such a name, that does nothing."""
    with app.worker(queues=["nothing"], name=NAMES[6], capabilities=[queue_of(name) for name in NAMES[:20]]):
        yield
