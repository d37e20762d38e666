"""The output of a member has the type of its task's result, wherever it is passed."""

from typing import Any, assert_type

import holdfast
from holdfast import all_of, any_of, group, quorum

app = holdfast.App(":memory:")


@app.task
async def extract(region: str) -> list[int]:
    return []


@app.task
def merge(left: list[int], right: list[int], *, label: str = "") -> dict[str, int]:
    return {}


@app.task
def total(rows: list[int], factor: float = 1.0) -> float:
    return sum(rows) * factor


@app.task
def join(parts: list[float]) -> str:
    return ""


with app.flow("nightly") as flow:
    assert_type(flow, holdfast.Flow)
    a = flow.add(extract.job("eu"))
    b = flow.add(extract.job("us"), after=a)
    assert_type(a, holdfast.flows.Member[list[int]])
    assert_type(a.output, list[int])
    c = flow.add(merge.job(a.output, b.output, label="all"), after=any_of(a, b.failed))
    assert_type(c.output, dict[str, int])
    assert_type(c.output["rows"], int)
    assert_type(a.output_or(None), list[int] | None)
    flow.add(total.job(a.output_or([])), after=quorum(2, a.ended, b, c, rest="cancel"))
    flow.add(merge.job(a.output, c.output))  # error: arg-type / reportArgumentType
    flow.add(total.job(a.output_or(None)))  # error: arg-type / reportArgumentType
    flow.map(extract, ["eu"], after="a")  # error: arg-type / reportArgumentType
    flow.add(extract)  # error: call-overload / reportCallIssue
    assert_type(flow.add(extract, "eu"), holdfast.flows.Member[list[int]])
    assert_type(flow.add(merge, a.output, right=b.output), holdfast.flows.Member[dict[str, int]])
    assert_type(flow.add(extract, "eu", after=a), holdfast.flows.Member[list[int]])
    assert_type(flow.add(extract, region="eu", name="first"), holdfast.flows.Member[list[int]])
    flow.add(extract, 1)  # error: call-overload / reportArgumentType
    flow.add(merge, a.output)  # error: call-overload / reportCallIssue

    several = flow.map(extract, ["eu", "us"])
    assert_type(several, holdfast.flows.Members[list[int]])
    assert_type(several.output, list[list[int]])
    assert_type(several[0], holdfast.flows.Member[list[int]])
    assert_type(flow.starmap(merge, [([1], [2])]), holdfast.flows.Members[dict[str, int]])
    assert_type(flow.starmap(lambda n, f: total.job([n], f), [(1, 0.5)]), holdfast.flows.Members[float])
    flow.starmap(merge, [([1], "2")])  # error: arg-type / reportArgumentType
    flow.map(extract, [1, 2])  # error: arg-type / reportArgumentType
    assert_type(flow.map(lambda n: total.job([n]), [1, 2]), holdfast.flows.Members[float])
    flow.add(join.job([m.output for m in flow.map(total, several.output)]), after=all_of(several, a))

    chain = extract.job("eu") | total
    assert_type(chain, holdfast.flows.Chain[float])
    assert_type(flow.add(chain), holdfast.flows.Part[float])
    assert_type(flow.add(chain).output, float)
    assert_type(extract.job("eu") | group(total, total) | join, holdfast.flows.Chain[str])
    assert_type(group(extract.job("eu"), extract.job("us")), holdfast.flows.Group[list[int]])
    wrong: holdfast.flows.Chain[str] = extract.job("eu") | join  # error: operator / reportOperatorIssue

assert_type(flow.wait(timeout=1), holdfast.model.FlowState)
assert_type(flow.result(), Any)
assert_type(flow.progress(), dict[str, int])
assert_type(a.result(timeout=1), list[int])
flow.cancel("cancel_pending")


@app.task
async def split(ctx: holdfast.Context, path: str) -> None:
    async with ctx.flow() as more:
        assert_type(more.add(extract.job(path)).output, list[int])


@app.task
def divide(ctx: holdfast.SyncContext, path: str) -> None:
    with ctx.flow() as more:
        assert_type(more.add(extract.job(path)).output, list[int])
