"""How values of the query and the body become those of their types."""

from __future__ import annotations

from .web_kit import Site


def test_a_whole_number_may_have_a_point(site: Site) -> None:
    assert site.put("/limits/tasks/double", {"most": 3.0}) == {"most": 3}
    status, message = site.refused("PUT", "/limits/tasks/double", {"most": 3.5})
    assert (status, "most" in message) == (400, True)


def test_the_word_null_is_no_value_of_a_query_but_a_name(site: Site) -> None:
    status, message = site.refused("GET", "/audit?until=null")
    assert (status, "until" in message) == (400, True)
    assert site.get("/budgets?tenant=null")["items"] == []
    site.put("/budgets/team?tenant=null", {"limits": {"usd": 1}})
    site.put("/budgets/team?tenant=other", {"limits": {"usd": 1}})
    assert [one["tenant"] for one in site.get("/budgets?tenant=null")["items"]] == ["null"]


def test_an_instant_in_a_query_is_no_number(site: Site) -> None:
    for text in ("1700000000", "0", "1e9", "nan"):
        assert site.refused("GET", f"/audit?since={text}")[0] == 400
    assert site.get("/audit?since=2024-05-01T00:00:00%2B02:00")["items"] == []


def test_a_name_with_a_slash_is_one_name(site: Site) -> None:
    site.put("/breakers/a%2Fb", {})
    assert site.get("/breakers/a%2Fb")["scope"] == "a/b"
    assert site.refused("GET", "/breakers/a/b")[0] == 404


def test_a_value_that_is_none_of_several_is_answered_with_those(site: Site) -> None:
    status, message = site.refused("GET", "/jobs?state=done")
    assert (status, "use one of ready, blocked, running" in message) == (400, True)
    status, message = site.refused("POST", "/jobs", {"task": "double", "options": {"retry": {"kind": "x"}}})
    assert (status, "use one of " in message) == (400, True)


def test_a_post_without_a_body_is_told_what_to_send(site: Site) -> None:
    bare = site.call("POST", "/api/v1/jobs/nope/cancel")
    assert bare.status_code == 415
    assert "send the header content-type: application/json, and a body, {} at least" in bare.json()["error"]["message"]
    empty = site.call("POST", "/api/v1/jobs", content=b"", headers={"content-type": "application/json"})
    assert (empty.status_code, empty.json()["error"]["message"]) == (
        400,
        "the body is empty; send a JSON object, {} at least",
    )


def test_a_token_without_the_word_bearer_is_told_so(site: Site) -> None:
    guarded, secret = site.with_settings(auth="required"), site.app.tokens.create("ci", role="admin").secret
    bare = guarded.call("GET", "/api/v1/jobs", headers={"authorization": secret})
    assert bare.status_code == 401
    assert "Authorization: Bearer TOKEN" in bare.json()["error"]["message"]
    assert secret not in bare.text
    wrong = guarded.call("GET", "/api/v1/jobs", headers={"authorization": "Bearer nonsense"})
    assert "invalid or expired token" in wrong.json()["error"]["message"]
