"""The pages of flows: the list, the graph, and what operators do there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import holdfast
from holdfast.web.pages.flow_graph import draw

from .browse_kit import HOSTILE, act, page, said, shown, submit
from .form_kit import live_parts
from .web_kit import Site

Make = Callable[..., str]


@pytest.fixture
def make(app: holdfast.App) -> Make:
    """Makes a flow of three members, of which the first fails if asked; its id."""

    @app.task
    async def gather(n: int) -> int:
        return n

    @app.task(max_attempts=1)
    async def spoil(n: int) -> int:
        raise ValueError("spoilt")

    @app.task
    async def total(rows: list[int]) -> int:
        return sum(rows)

    @app.task
    async def tell(text: str) -> None: ...

    def made(name: str = "nightly", *, fails: bool = False, tenant: str | None = None) -> str:
        with app.flow(name, tenant=tenant) as flow:
            first = flow.add((spoil if fails else gather).job(1), name="first")
            second = flow.add(total.job([first.output]), name="second")
            flow.add(tell.job("done"), name="third", after=[second])
        return flow.id

    return made


def state_of(app: holdfast.App, flow: str) -> str:
    return str(app.flows.status(flow).state)


def test_without_flows_the_list_says_how_to_make_one(site: Site, app: holdfast.App) -> None:
    assert "No flows yet" in page(site, "/flows")
    assert "No matching flows" in page(site, "/flows?name=nothing")


def test_the_list_narrows_by_state_name_tenant_and_time(site: Site, app: holdfast.App, make: Make) -> None:
    good, bad, theirs = make("good"), make("bad", fails=True), make("theirs", tenant="acme")
    app.drain()
    late = make("late")

    def listed(query: str) -> set[str]:
        text = page(site, f"/flows?{query}")
        return {flow for flow in (good, bad, theirs, late) if f'data-key="{flow}"' in text}

    assert listed("") == {good, bad, theirs, late}
    assert listed("state=failed") == {bad}
    assert listed("state=running") == {late}
    assert listed("name=good") == {good}
    assert listed("tenant=acme") == {theirs}
    assert listed("window=1h") == {good, bad, theirs, late}
    assert listed("to=1000") == set()
    assert site.call("GET", "/flows?colour=red").status_code == 400
    assert site.call("GET", "/flows?state=strange").status_code == 400


def test_the_list_goes_on_page_by_page(site: Site, app: holdfast.App, make: Make) -> None:
    made = [make() for _ in range(52)]
    first = page(site, "/flows")
    assert sum(f'data-key="{flow}"' in first for flow in made) == 50
    older = page(site, f"/flows?before={made[2]}")
    assert [flow for flow in made if f'data-key="{flow}"' in older] == made[:2]
    assert "Newest" in older


def test_a_row_shows_how_far_its_members_are(site: Site, app: holdfast.App, make: Make) -> None:
    make(fails=True)
    app.drain()
    text = shown(site, "/flows")
    assert "Jobs of nightly by state: 1 failed, 2 skipped" in text
    assert "3 of 3" in text


def test_the_graph_can_be_read_without_script(site: Site, app: holdfast.App, make: Make) -> None:
    flow = make()
    app.drain()
    text = shown(site, f"/flows/{flow}")
    for member in app.flows.graph(flow).members:
        assert f"<title>{member.name} ({member.task}): Succeeded" in text
        assert f'href="/jobs/{member.id}"' in text
    assert "first passes its result to second" in text
    assert "second runs before third" in text
    assert live_parts(site, f"/flows/{flow}") == 6
    assert live_parts(site, "/flows") == 1


def test_the_counts_above_the_table_follow_the_jobs(site: Site, app: holdfast.App, make: Make) -> None:
    chips = page(site, f"/flows/{make()}").partition('data-live-id="chips"')[2].partition("</div>")[0]
    assert "Ready" in chips and "Blocked" in chips


def test_states_change_and_places_stay(app: holdfast.App, make: Make) -> None:
    flow = make()
    before = draw(app.flows.graph(flow))
    app.drain()
    after = draw(app.flows.graph(flow))
    assert [(node.key, node.x, node.y) for node in before.nodes] == [(node.key, node.x, node.y) for node in after.nodes]
    assert {node.state for node in after.nodes} == {"succeeded"}
    assert {edge.state for edge in after.edges} == {"succeeded"}
    assert sorted((edge.data) for edge in after.edges) == [False, True]


def test_many_of_one_task_are_one_node_with_counts(site: Site, app: holdfast.App, make: Make) -> None:
    with app.flow("wide") as flow:
        rows = flow.map(app.tasks["gather"], list(range(40)))
        flow.add(app.tasks["total"].job(rows.output))
    text = shown(site, f"/flows/{flow.id}")
    assert "40 × gather: 40 ready" in text
    unfolded = draw(app.flows.graph(flow.id), unfold=True)
    assert len(unfolded.nodes) == 41
    assert "Group by task" in page(site, f"/flows/{flow.id}?unfold=true")


def test_the_table_lists_members_by_state(site: Site, app: holdfast.App, make: Make) -> None:
    flow = make(fails=True)
    app.drain()
    table = page(site, f"/flows/{flow}?state=failed").partition('id="members"')[2]
    assert ">first<" in table
    assert ">third<" not in table


def test_a_viewer_sees_no_actions_and_may_not_act(site: Site, app: holdfast.App, make: Make) -> None:
    flow, viewer = make(), site.as_role("viewer")
    text = page(viewer, f"/flows/{flow}")
    assert f'action="/flows/{flow}' not in text
    for path in ("cancel", "retry", "retry-member"):
        assert submit(viewer, f"/flows/{flow}/{path}", job="x").status_code == 403
    assert state_of(app, flow) == "running"


def test_cancelling_asks_first_then_cancels_and_says_so_the_second_time(
    site: Site, app: holdfast.App, make: Make
) -> None:
    flow, operator = make(), site.as_role("operator")
    asked = submit(operator, f"/flows/{flow}/cancel", policy="cancel_pending")
    assert asked.status_code == 200
    assert "Cancel pending jobs?" in asked.text
    assert state_of(app, flow) == "running"
    assert "not started were cancelled" in act(
        operator, f"/flows/{flow}/cancel", policy="cancel_pending", reason="oops"
    )
    entry = next(entry for entry in app.audit.list() if entry.action == "flow.cancel")
    assert (entry.actor, entry.reason, entry.target) == ("token:operator-all", "oops", flow)
    again = act(operator, f"/flows/{flow}/cancel")
    assert "already" in again
    assert '"ok": false' in again


def test_the_failed_part_is_run_again(site: Site, app: holdfast.App, make: Make) -> None:
    flow = make(fails=True)
    app.drain()
    assert "Retry failed jobs" in page(site, f"/flows/{flow}")
    assert "3 jobs run again" in said(submit(site, f"/flows/{flow}/retry"))
    assert state_of(app, flow) == "running"
    assert "already running again" in said(submit(site, f"/flows/{flow}/retry"))


def test_a_member_is_replayed_with_all_behind_it_or_alone(site: Site, app: holdfast.App, make: Make) -> None:
    flow = make()
    app.drain()
    second = next(member.id for member in app.flows.graph(flow).members if member.name == "second")
    assert "Run this job again?" in submit(site, f"/flows/{flow}/retry-member", job=second).text
    assert "2 jobs run again" in act(site, f"/flows/{flow}/retry-member", job=second)
    app.drain()
    assert "1 job runs again" in act(site, f"/flows/{flow}/retry-member", job=second, alone="yes")


def test_a_job_of_another_flow_is_not_replayed_here(site: Site, app: holdfast.App, make: Make) -> None:
    flow, other = make(), make("other")
    app.drain()
    job = app.flows.graph(other).members[0].id
    assert "not part of this flow" in act(site, f"/flows/{flow}/retry-member", job=job)
    assert state_of(app, other) == "succeeded"


def test_hostile_names_stay_text(site: Site, app: holdfast.App, make: Make) -> None:
    with app.flow(HOSTILE) as flow:
        flow.add(app.tasks["gather"].job(1), name=HOSTILE)
    for path in ("/flows", f"/flows/{flow.id}"):
        text = page(site, path)
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert" in text


def test_a_tenant_sees_and_changes_its_own_flows_alone(site: Site, app: holdfast.App, make: Make) -> None:
    own, others = make("own", tenant="acme"), make("others", tenant="globex")
    acme = site.as_role("operator", tenant="acme")
    text = page(acme, "/flows")
    assert own in text
    assert others not in text
    page(acme, f"/flows/{others}", 404)
    assert submit(acme, f"/flows/{others}/cancel", confirmed="yes").status_code == 404
    assert state_of(app, others) == "running"
    assert "Cancelled" in act(acme, f"/flows/{own}/cancel")


def test_a_flow_that_is_not_there_is_a_page_that_says_so(site: Site, app: holdfast.App) -> None:
    assert "Not found" in page(site, "/flows/01m0000000000000000missing", 404)
