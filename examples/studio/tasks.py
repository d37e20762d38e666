"""The studio's tasks: mail, pictures, invoices, partners, and reports written by a model that people approve."""

from __future__ import annotations

from typing import Final, Literal

from holdfast import App, Context, Fail, RetryPolicy, SyncContext
from holdfast.model import OutboxEvent

from .pace import chance, pace

app: Final = App(tenants=("acme", "globex", "initech"))

_SOON: Final = RetryPolicy(kind="exponential", initial=4, cap=120)
_TEXT: Final = (
    "The quarter closed above plan in every region but one. Churn fell for the third month in a row, and the new "
    "onboarding is the likely cause: teams that finished it stayed twice as often. The exception is the south, where "
    "two large accounts paused. Both named the same missing report, which this one replaces. "
)

app.budget("research", tokens=12_000, soft={"tokens": 9_000}, every="1h")
app.rate("payments", capacity=5, per_second=3)
app.breaker("partner", failures=4, open_for=45)


class CardDeclined(Exception):
    """The bank said no."""


@app.task(name="mail.welcome", queue="mail", retry=_SOON)
async def welcome(user: int, locale: str = "en") -> str:
    """A letter to a new user."""
    await pace.work(0.01, 0.3)
    if chance.random() < 0.04:
        raise ConnectionError("421 mx1.mail.example: too many connections from your address")
    return f"sent to user {user} ({locale})"


@app.task(name="media.thumbnail", queue="media", concurrency=4)
def thumbnail(ctx: SyncContext, picture: str, width: int = 640) -> dict[str, int]:
    """A small picture of a large one."""
    pace.work_in_thread(0.03, 0.6)
    return {"width": width, "height": width * 3 // 4, "bytes": 48_211}


@app.task(name="media.transcode", queue="media", timeout=120)
async def transcode(ctx: Context, video: str) -> str:
    """A long run that says how far it is."""
    for done in range(1, 21):
        await pace.work(0.2, 0.6)
        await ctx.progress(100 * done / 20, f"segment {done} of 20")
    return video.replace(".mov", ".mp4")


@app.task(name="billing.charge", queue="billing", rate="payments", max_attempts=4, retry=_SOON)
async def charge(invoice: int, cents: int) -> dict[str, int]:
    """Money. Some cards are declined, and no retry helps."""
    await pace.work(0.05, 0.5)
    if chance.random() < 0.06:
        raise Fail(f"card declined for invoice {invoice}: insufficient funds")
    if chance.random() < 0.05:
        raise TimeoutError("payments.example did not answer within 10 s")
    return {"invoice": invoice, "paid": cents}


@app.task(name="partner.sync", queue="partners", breaker="partner", max_attempts=3, retry=_SOON)
async def sync(account: str) -> int:
    """A partner whose server is not the best."""
    await pace.work(0.1, 1.0)
    if chance.random() < 0.35:
        raise ConnectionResetError(f"peer closed the connection while reading /accounts/{account}")
    return chance.randrange(1, 400)


@app.task(name="report.write", queue="reports", affinity="small-model", timeout=600)
async def report(ctx: Context, topic: str) -> dict[str, object]:
    """Steps that are not repeated, a stream to follow, a budget, and a person who approves."""
    found = await ctx.gather(*(ctx.step(source, _read, source, topic) for source in ("accounts", "tickets", "surveys")))
    facts = sum(found)
    text = await ctx.step("draft", _draft, topic, facts)
    await ctx.step("check figures", _check, text)
    await ctx.spend("research", tokens=900 + 40 * facts)
    await ctx.artifact("draft.md", f"# {topic}\n\n{text}\n".encode(), "text/markdown")
    link = await ctx.waitpoint("approval", expires=86_400, type=bool)
    approved = await ctx.wait_for(link, type=bool)
    where = await ctx.wait_for("channel", type=Literal["blog", "letter", "nowhere"]) if approved else "nowhere"
    return {"topic": topic, "channel": where, "words": len(text.split())}


async def _read(source: str, topic: str) -> int:
    await pace.work(1, 6)
    return chance.randrange(2, 7)


async def _check(text: str) -> str:
    await pace.work(1, 3)
    return f"{len(text.split())} words, no figure without a source"


async def _draft(ctx: Context, topic: str, facts: int) -> str:
    words: list[str] = []
    for word in _TEXT.split(" ") * (1 if pace.past else 2):
        await ctx.emit(word + " ")
        words.append(word)
        if pace.past is None:
            await pace.work(0.05, 0.2)
    return " ".join(words)


@app.task(name="etl.extract", queue="etl")
async def extract(region: str) -> int:
    """One region's rows."""
    await pace.work(0.5, 4)
    if region == "south" and chance.random() < 0.3:
        raise OSError("replica lag of 94 s is over the limit of 60 s")
    return chance.randrange(1_000, 9_000)


@app.task(name="etl.merge", queue="etl")
async def merge(rows: list[int]) -> int:
    """All regions together."""
    await pace.work(0.5, 2)
    return sum(rows)


@app.task(name="etl.publish", queue="etl")
async def publish(rows: int) -> str:
    """The end of the night."""
    await pace.work(0.2, 1)
    return f"{rows:,} rows published"


@app.destination("crm", batch=32)
async def crm(events: list[OutboxEvent]) -> None:
    """A system elsewhere; now and then it is down."""
    await pace.work(0.05, 0.3)
    if chance.random() < 0.1:
        raise ConnectionError("crm.example: 503 Service Unavailable")


@app.cron("0 3 * * *", zone="Europe/Paris", name="nightly")
def nightly() -> None:
    """Every night: a flow over all regions."""
    start_flow("nightly")


@app.every(30, name="usage")
def usage() -> None:
    """Twice a minute, what was used goes to the CRM."""
    app.outbox("crm").put({"seats": chance.randrange(40, 60)}, kind="usage.seats")


def start_flow(name: str) -> None:
    """Regions side by side, then what needs them all."""
    with app.flow(name, tenant=chance.choice(("acme", "globex"))) as flow:
        rows = flow.map(extract, ["north", "east", "south", "west"])
        merged = flow.add(merge.job(rows.output))
        flow.add(publish.job(merged.output))
