"""The Kubernetes files: checked against the schemas, and what they run and ask is run and asked."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import kubernetes_validate
import psycopg
import pytest
import yaml
from jsonschema import Draft202012Validator

import holdfast
from holdfast.cli.main import cli
from tests.postgres_server import url_of
from tests.release.kit import ROOT, free_port, started, succeed

FILES = ROOT / "examples" / "kubernetes"
PAGE = ROOT / "docs" / "how-to" / "deploy.md"
VERSIONS = ("1.29", "1.34")

pytestmark = pytest.mark.timeout(600)

TEXT = {"type": "string", "minLength": 1}
COUNT = {"type": "integer", "minimum": 0}
KEDA: dict[str, dict[str, Any]] = {
    "TriggerAuthentication": {
        "secretTargetRef": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"parameter": TEXT, "name": TEXT, "key": TEXT},
                "required": ["parameter", "name", "key"],
                "additionalProperties": False,
            },
        }
    },
    "ScaledObject": {
        "scaleTargetRef": {
            "type": "object",
            "properties": {"name": TEXT, "kind": TEXT, "apiVersion": TEXT},
            "required": ["name"],
            "additionalProperties": False,
        },
        "minReplicaCount": COUNT,
        "maxReplicaCount": COUNT,
        "pollingInterval": COUNT,
        "cooldownPeriod": COUNT,
        "fallback": {
            "type": "object",
            "properties": {"failureThreshold": COUNT, "replicas": COUNT},
            "required": ["failureThreshold", "replicas"],
            "additionalProperties": False,
        },
        "advanced": {
            "type": "object",
            "properties": {
                "horizontalPodAutoscalerConfig": {
                    "type": "object",
                    "properties": {"behavior": {"type": "object"}},
                    "additionalProperties": False,
                }
            },
            "additionalProperties": False,
        },
        "triggers": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "type": {"const": "postgresql"},
                    "authenticationRef": {"type": "object", "properties": {"name": TEXT}, "required": ["name"]},
                    # All values of a trigger's metadata are texts.
                    "metadata": {
                        "type": "object",
                        "properties": {"query": TEXT, "targetQueryValue": TEXT, "activationTargetQueryValue": TEXT},
                        "required": ["query", "targetQueryValue"],
                        "additionalProperties": False,
                    },
                },
                "required": ["type", "metadata"],
                "additionalProperties": False,
            },
        },
    },
}
"""The fields of keda.sh/v1alpha1 that the files use, as KEDA documents them."""


def documents(text: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(text) if document]


def manifests() -> list[dict[str, Any]]:
    """Every manifest of the files, and those of the page."""
    shown = re.findall(r"```yaml\n(apiVersion: .*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return [found for text in [*(file.read_text("utf-8") for file in sorted(FILES.glob("*.yaml"))), *shown]
            for found in documents(text)]  # fmt: skip


def only(kind: str) -> dict[str, Any]:
    [found] = [it for file in FILES.glob("*.yaml") for it in documents(file.read_text("utf-8")) if it["kind"] == kind]
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_the_manifests_fit_the_schemas_of_kubernetes(version: str) -> None:
    checked = [it["kind"] for it in manifests() if not it["apiVersion"].startswith("keda.sh/")]
    for manifest in manifests():
        if not manifest["apiVersion"].startswith("keda.sh/"):
            kubernetes_validate.validate(manifest, version, strict=True)
    assert checked == ["Deployment"] * 2


def test_the_objects_of_keda_fit_their_fields() -> None:
    found = [it for it in manifests() if it["apiVersion"] == "keda.sh/v1alpha1"]
    assert sorted(it["kind"] for it in found) == ["ScaledObject", "TriggerAuthentication"]
    for it in found:
        schema = {"type": "object", "properties": KEDA[it["kind"]], "additionalProperties": False}
        Draft202012Validator(schema).validate(it["spec"])


def test_the_objects_name_each_other() -> None:
    scaled, deployment = only("ScaledObject"), only("Deployment")
    assert scaled["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    [trigger] = scaled["spec"]["triggers"]
    assert trigger["authenticationRef"]["name"] == only("TriggerAuthentication")["metadata"]["name"]
    assert f"--concurrency={trigger['metadata']['targetQueryValue']}" in container("worker")["args"]


def container(name: str) -> dict[str, Any]:
    pod = only("Deployment")["spec"]["template"]["spec"]
    [found] = [it for it in [*pod["initContainers"], *pod["containers"]] if it["name"] == name]
    return dict(found)


def test_the_containers_run_as_a_user_without_rights() -> None:
    pod = only("Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert f"USER {pod['securityContext']['runAsUser']}" in (ROOT / "Dockerfile").read_text("utf-8")
    for it in [*pod["initContainers"], *pod["containers"]]:
        assert not it["securityContext"]["allowPrivilegeEscalation"]
        assert it["securityContext"]["readOnlyRootFilesystem"]
        assert it["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("words", [it["args"] for it in [
    found for manifest in manifests() if manifest["kind"] == "Deployment"
    for found in [*manifest["spec"]["template"]["spec"].get("initContainers", []),
                  *manifest["spec"]["template"]["spec"]["containers"]]
]], ids=" ".join)  # fmt: skip
def test_the_commands_and_options_exist(words: list[str]) -> None:
    words = words[words[0] == "holdfast" :]
    with cli.make_context("holdfast", list(words)) as context:
        command = context.command
        rest = [*context._protected_args, *context.args]
        while hasattr(command, "get_command"):
            command = command.get_command(context, rest[0])
            assert command is not None, words
            inner = command.make_context(rest[0], rest[1:], parent=context)
            rest = [*getattr(inner, "_protected_args", []), *inner.args] if hasattr(command, "get_command") else []


@pytest.mark.thorough
def test_the_deployment_migrates_and_its_worker_answers_its_probes(blank_postgres_dsn: str, tmp_path: Path) -> None:
    store, port = url_of(blank_postgres_dsn), free_port()
    worker = container("worker")
    succeed([sys.executable, "-m", "holdfast", *container("migrate")["args"]], ROOT, HOLDFAST_STORE=store)
    # Only what a container has to itself is replaced: the address.
    args = [word.replace("0.0.0.0", "127.0.0.1").replace("8080", str(port)) for word in worker["args"]]
    assert worker["ports"] == [{"name": "health", "containerPort": 8080}]
    with started([sys.executable, "-m", "holdfast", *args], ROOT, tmp_path / "log", HOLDFAST_STORE=store) as it:
        it.said("serves default with 50 slots")
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert worker[probe]["httpGet"]["port"] == "health"
            assert answer(f"http://127.0.0.1:{port}{worker[probe]['httpGet']['path']}") == 200


def answer(url: str) -> int:
    try:
        with urlopen(url, timeout=30) as response:
            return int(response.status)
    except HTTPError as error:
        return error.code


def test_the_query_of_keda_counts_jobs_that_are_ready_or_run_and_is_never_empty(postgres_dsn: str) -> None:
    trigger = only("ScaledObject")["spec"]["triggers"][0]["metadata"]

    def workers_wanted() -> int:
        with psycopg.connect(postgres_dsn) as connection:
            connection.execute("set role holdfast_keda")
            [(value,)] = connection.execute(trigger["query"]).fetchall()
        assert isinstance(value, int)
        return math.ceil(value / float(trigger["targetQueryValue"]))

    app = holdfast.App(url_of(postgres_dsn))
    app.migrate()
    confirm = app.declare("confirm")
    with psycopg.connect(postgres_dsn) as connection:
        connection.execute("drop role if exists holdfast_keda")
        connection.execute("create role holdfast_keda")
        connection.execute("grant select on holdfast_queue_backlog to holdfast_keda")
    try:
        assert workers_wanted() == 0
        app.enqueue_many([confirm.job(order=number) for number in range(101)])
        app.declare("watch", queue="video").enqueue()
        assert workers_wanted() == 3
        worker = app.remote.register("one", ["default"], ["confirm"], concurrency=100).worker
        assert len(app.remote.claim(worker, 60)) == 60
        assert workers_wanted() == 3
    finally:
        app.close()
        with psycopg.connect(postgres_dsn) as connection:
            connection.execute("drop owned by holdfast_keda")
            connection.execute("drop role holdfast_keda")
