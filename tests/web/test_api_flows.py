"""Flows over HTTP: made whole or piece by piece, looked at, waited for, acted on."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast

from .web_kit import Site


@pytest.fixture(autouse=True)
def tasks(app: holdfast.App) -> None:
    @app.task
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    @app.task(max_attempts=1)
    async def moody(fail: bool) -> str:
        if fail:
            raise ValueError("not today")
        return "fine"


def double(n: int, **more: Any) -> dict[str, Any]:
    return {"task": "double", "arguments": {"n": n}, **more}


def made(site: Site, members: dict[str, Any], **more: Any) -> dict[str, Any]:
    return site.post("/flows", {"name": "sums", "members": members, **more})


def refusal(site: Site, members: dict[str, Any], **more: Any) -> tuple[int, str, str]:
    answer = site.call("POST", "/api/v1/flows", json={"name": "sums", "members": members, **more})
    error = answer.json()["error"]
    return answer.status_code, error["code"], error["message"]


def test_a_flow_is_stored_whole_and_its_members_take_each_others_results(site: Site, app: holdfast.App) -> None:
    flow = made(
        site,
        {
            "total": {"task": "total", "inputs": {"numbers": {"of": ["one", "two"]}}},
            "one": double(1),
            "two": double(2),
        },
    )
    app.drain()
    assert site.get(f"/flows/{flow['id']}/result") | {"id": ""} == {
        "id": "", "state": "succeeded", "ended": True, "result": 6, "failures": {},
    }  # fmt: skip
    assert site.get(f"/jobs/{flow['members']['total']}")["member"] == "total"


def test_the_graph_shows_members_with_their_states_and_edges_by_name(site: Site, app: holdfast.App) -> None:
    flow = made(site, {"a": double(1), "b": double(2), "c": double(3, after=["a", {"member": "b", "on": "any"}])})
    graph = site.get(f"/flows/{flow['id']}/graph")
    states = {member["name"]: member["state"] for member in graph["members"]}
    assert states == {"a": "ready", "b": "ready", "c": "blocked"}
    edges = {(edge["from"], edge["to"], edge["on"], edge["met"]) for edge in graph["edges"]}
    assert edges == {("a", "c", "success", None), ("b", "c", "any", None)}


def test_a_member_may_need_any_or_a_quorum_of_others(site: Site, app: holdfast.App) -> None:
    flow = made(
        site,
        {
            "a": double(1),
            "b": {"task": "broken", "arguments": {"text": "no"}},
            "first": double(3, after=["a", "b"], needs="any", rest="cancel"),
            "both": double(4, after=["a", "b"], needs="quorum", needed=2),
        },
    )
    app.drain()
    members = {member["name"]: member for member in site.get(f"/flows/{flow['id']}/graph")["members"]}
    assert (members["first"]["needs"], members["first"]["state"]) == ("any", "succeeded")
    assert (members["both"]["needed"], members["both"]["state"]) == (2, "skipped")


def test_part_of_a_result_may_be_taken_and_a_default_where_there_is_none(site: Site, app: holdfast.App) -> None:
    @app.task
    async def pair() -> dict[str, list[int]]:
        return {"n": [5, 6]}

    part = {"of": "pair", "path": ["n", 1]}
    instead = {"of": "bad", "default": 40}
    flow = made(
        site,
        {
            "pair": {"task": "pair"},
            "bad": {"task": "moody", "arguments": {"fail": True}},
            "part": {"task": "double", "inputs": {"n": part}},
            "instead": {"task": "double", "inputs": {"n": instead}},
        },
    )
    app.drain()
    ids = flow["members"]
    assert [site.get(f"/jobs/{ids[name]}")["result"] for name in ("part", "instead")] == [12, 80]


@pytest.mark.parametrize(
    ("members", "code", "said"),
    [
        ({"a": double(1, after=["b"])}, "invalid_flow", "'b'"),
        ({"a": double(1, after=["b"]), "b": double(1, after=["a"])}, "flow_cycle", "a, b"),
        ({"a": double(1, after=["a"])}, "flow_cycle", "a"),
        ({"a": double(1), "b": double(1, inputs={"n": {"of": "a"}})}, "invalid", "'n'"),
        ({"a": {"task": "nothing"}}, "unknown_task", "nothing"),
        ({"a": {"task": "double", "arguments": {"n": "x"}}}, "invalid_arguments", "double"),
        ({"a": double(1), "b": double(1, after=["a"], needs="quorum")}, "invalid", "needed"),
        ({"a": double(1), "b": double(1, after=["a"], needs="quorum", needed=2)}, "invalid", "can never be"),
        ({"a": double(1, options={"dedupe_key": "k"})}, "invalid", "dedupe_key"),
    ],
)
def test_a_flow_that_cannot_be_is_refused_and_nothing_of_it_is_stored(
    site: Site, members: dict[str, Any], code: str, said: str
) -> None:
    status, given, message = refusal(site, members)
    assert (status, given) == (422, code)
    assert said in message
    assert site.get("/flows")["items"] == []


def test_what_does_not_fit_the_types_is_400(site: Site) -> None:
    assert refusal(site, {})[0] == 400
    assert refusal(site, {"a": double(1, colour="red")})[0] == 400


def test_a_flow_is_made_piece_by_piece(site: Site, app: holdfast.App) -> None:
    flow = site.post("/flows/staged", {"name": "slowly"})
    added = site.post(f"/flows/{flow['id']}/members", {"members": {"a": double(1), "b": double(2)}})
    edges = {"edges": [{"from": "a", "to": added["members"]["b"]}], "revision": added["revision"]}
    staged = site.post(f"/flows/{flow['id']}/edges", edges)
    assert staged["revision"] > added["revision"]
    stale = site.call("POST", f"/api/v1/flows/{flow['id']}/edges", json=edges)
    assert (stale.status_code, stale.json()["error"]["code"]) == (409, "stale_revision")
    app.drain()
    assert site.get(f"/flows/{flow['id']}")["live"] == 2
    assert site.post(f"/flows/{flow['id']}/apply") == {"id": flow["id"], "applied": 1, "changed": True}
    assert site.post(f"/flows/{flow['id']}/apply")["changed"] is False
    app.drain()
    assert site.get(f"/flows/{flow['id']}")["counts"] == {"succeeded": 2}


def test_flows_are_listed_by_filter_and_page(site: Site, app: holdfast.App) -> None:
    ids = [made(site, {"a": double(n)})["id"] for n in range(3)]
    site.post("/flows", {"name": "other", "members": {"a": double(1)}})
    first = site.get("/flows?name=sums&limit=2")
    second = site.get(f"/flows?name=sums&limit=2&after={first['next']}")
    assert [flow["id"] for flow in (*first["items"], *second["items"])] == ids[::-1]
    assert second["next"] is None
    assert site.get("/flows?state=failed")["items"] == []
    bad = site.call("GET", "/api/v1/flows?after=nonsense")
    assert (bad.status_code, bad.json()["error"]["code"]) == (422, "invalid_cursor")


def test_waiting_for_a_flow_gives_how_it_stands_when_the_time_is_over(site: Site, app: holdfast.App) -> None:
    flow = made(site, {"a": double(1)})
    assert site.get(f"/flows/{flow['id']}?wait=0.05")["state"] == "running"
    assert site.call("GET", f"/api/v1/flows/{flow['id']}/result?wait=0.05").status_code == 202
    app.drain()
    assert site.get(f"/flows/{flow['id']}?wait=5")["state"] == "succeeded"


def test_a_cancelled_flow_says_what_the_first_cancel_did(site: Site, app: holdfast.App) -> None:
    flow = made(site, {"a": double(1)})
    first = site.post(f"/flows/{flow['id']}/cancel", {"policy": "cancel_pending", "reason": "a mistake"})
    again = site.post(f"/flows/{flow['id']}/cancel", {"policy": "cancel_all"})
    assert (first["changed"], again["changed"]) == (True, False)
    assert again["policy"] == "cancel_pending"
    assert site.get(f"/flows/{flow['id']}")["state"] == "cancelled"
    assert app.audit.list()[0].actor == "local"


def test_the_failed_part_runs_again_and_a_member_with_all_that_follows(site: Site, app: holdfast.App) -> None:
    flow = made(site, {"a": {"task": "moody", "arguments": {"fail": True}}, "b": double(1, after=["a"])})
    app.drain()
    assert "not today" in site.get(f"/flows/{flow['id']}/result")["failures"]["a"]
    again = site.post(f"/flows/{flow['id']}/retry", {"reason": "look again"})
    assert set(again["jobs"]) == set(flow["members"].values())
    app.drain()
    one = site.post(f"/flows/{flow['id']}/members/a/retry", {"downstream": True})
    assert set(one["jobs"]) == set(flow["members"].values())
    assert site.call("POST", f"/api/v1/flows/{flow['id']}/members/zz/retry", json={}).status_code == 404


def test_a_join_is_changed_while_its_member_waits_and_not_after_it_has_fired(site: Site, app: holdfast.App) -> None:
    flow = made(site, {"a": double(1), "b": double(2), "c": double(3, after=["a", "b"])})
    where = f"/flows/{flow['id']}/members/c/join"
    assert site.post(where, {"needs": "quorum", "needed": 1, "reason": "b is slow"}) == {
        "id": flow["id"], "job": flow["members"]["c"], "needs": "quorum", "needed": 1, "rest": "run", "upstreams": 2,
        "state": "blocked", "changed": True,
    }  # fmt: skip
    assert app.audit.list()[0].action == "flow.set_join"
    assert site.refused("POST", where, {"needs": "quorum", "needed": 3})[0] == 422
    assert site.refused("POST", where, {"needs": "quorum"})[0] == 422
    assert site.refused("POST", where, {"needs": "most"})[0] == 400
    assert site.as_role("viewer").refused("POST", where, {"needs": "any"})[0] == 403
    assert site.as_role("operator", tenant="acme").refused("POST", where, {"needs": "any"})[0] == 404
    app.drain()
    status, message = site.refused("POST", where, {"needs": "any"})
    assert (status, "its join has fired" in message) == (409, True)


def test_a_tenants_flow_is_not_there_for_others(site: Site, app: holdfast.App) -> None:
    acme, globex = site.as_role("operator", tenant="acme"), site.as_role("operator", tenant="globex")
    flow = made(acme, {"a": double(1)})
    assert acme.get(f"/flows/{flow['id']}")["tenant"] == "acme"
    assert globex.get("/flows")["items"] == []
    for method, path in (("GET", ""), ("GET", "/graph"), ("POST", "/cancel"), ("POST", "/retry"), ("POST", "/apply")):
        how = {"json": {}} if method == "POST" else {}
        assert globex.call(method, f"/api/v1/flows/{flow['id']}{path}", **how).status_code == 404
    foreign = globex.call(
        "POST", "/api/v1/flows", json={"name": "x", "tenant": "acme", "members": {"a": double(1)}}
    )  # fmt: skip
    assert foreign.status_code == 403


def test_a_viewer_may_look_at_flows_and_not_make_or_cancel_them(site: Site, app: holdfast.App) -> None:
    flow = made(site, {"a": double(1)})
    viewer = site.as_role("viewer")
    assert viewer.get(f"/flows/{flow['id']}")["state"] == "running"
    assert viewer.call("GET", f"/api/v1/flows/{flow['id']}/result").status_code == 403
    assert viewer.call("POST", f"/api/v1/flows/{flow['id']}/cancel", json={}).status_code == 403
    body = {"name": "x", "members": {"a": double(1)}}
    assert viewer.call("POST", "/api/v1/flows", json=body).status_code == 403
