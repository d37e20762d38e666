"""What every operation of the API has in common."""

from __future__ import annotations

import holdfast

from .web_kit import Site, served


def test_a_job_is_shown_with_its_arguments(site: Site, app: holdfast.App) -> None:
    job = app.enqueue(app.tasks["double"].job(21))
    assert site.get(f"/jobs/{job.id}")["arguments"] == {"n": 21}


def test_a_viewer_does_not_see_arguments(site: Site, app: holdfast.App) -> None:
    job = app.enqueue(app.tasks["double"].job(21))
    assert site.as_role("viewer").get(f"/jobs/{job.id}")["arguments"] is None


def test_without_a_token_nothing_is_shown(site: Site, app: holdfast.App) -> None:
    answer = site.as_nobody().call("GET", "/api/v1/jobs/x")
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthenticated")


def test_a_foreign_host_is_refused(site: Site) -> None:
    assert site.call("GET", "/api/v1/jobs/x", headers={"host": "evil.example"}).status_code == 421


def test_another_tenants_job_is_not_there(site: Site, app: holdfast.App) -> None:
    job = app.enqueue(app.tasks["double"].job(1), tenant="acme")
    other = site.as_role("operator", tenant="globex")
    assert other.call("GET", f"/api/v1/jobs/{job.id}").status_code == 404
    assert site.as_role("operator", tenant="acme").get(f"/jobs/{job.id}")["tenant"] == "acme"


def test_an_unknown_parameter_is_named(site: Site) -> None:
    answer = site.call("GET", "/api/v1/jobs/x?colour=red")
    assert answer.status_code == 400
    assert "colour" in answer.json()["error"]["message"]


def test_a_path_without_the_version_of_the_api_is_told_where_it_is(site: Site) -> None:
    for path in ("/api/jobs", "/api", "/api/v2/jobs"):
        answer = site.call("GET", path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
        assert "the API is below /api/v1" in answer.json()["error"]["message"]


def test_a_body_without_a_type_is_told_to_have_one(site: Site) -> None:
    answer = site.call("POST", "/api/v1/jobs/x/cancel")
    assert answer.status_code == 415
    assert "and no content-type was sent; send the header" in answer.json()["error"]["message"]


def test_a_method_that_is_not_there_says_which_are(site: Site) -> None:
    answer = site.call("TRACE", "/api/v1/jobs/x")
    assert answer.status_code == 405
    assert "GET" in answer.headers["allow"]


def test_the_site_is_served_over_http(app: holdfast.App) -> None:
    import httpx2

    job = app.enqueue(app.tasks["double"].job(21))
    with served(app, auth="off") as address:
        assert httpx2.get(f"{address}/api/v1/jobs/{job.id}").json()["id"] == job.id
