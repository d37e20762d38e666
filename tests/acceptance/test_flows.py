"""Random flows run by processes that are killed again and again; every member ends as a pure model says."""

from __future__ import annotations

import random
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.model.flows import FlowGraph, FlowState, MemberRecord
from holdfast.model.jobs import JobRecord
from tests.acceptance import flow_jobs
from tests.acceptance.fleet import LONG_LEASE, Fleet, Line, until
from tests.acceptance.flow_model import Dag, Node, predict, random_dag
from tests.chaos.check import require

pytestmark = pytest.mark.thorough

OPTIONS = ("--concurrency", "12")
PROCESSES = 3


class Crew(Fleet):
    """Workers that know the task of random flows."""

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        process = self.run_python("-m", "holdfast", "worker", "tests.acceptance.flow_jobs:app", *options)
        self.workers.append(process)
        return process


@pytest.fixture
def crew(store_url: str, tmp_path: Path) -> Iterator[Crew]:
    it = Crew(store_url, tmp_path, lease=LONG_LEASE)
    yield it
    it.end()


@pytest.fixture
def producer(store_url: str) -> Iterator[holdfast.App]:
    it = holdfast.App(store_url)
    own = flow_jobs.node.task_options
    assert flow_jobs.node.fn is not None
    it.task(name="node", max_attempts=own.max_attempts, retry=own.retry)(flow_jobs.node.fn)
    yield it
    it.close()


@pytest.mark.timeout(900)
def test_random_flows_end_as_the_model_says_whoever_is_killed(producer: holdfast.App, crew: Crew) -> None:
    _run(producer, crew, dags=15, kills=10)


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_two_hundred_flows_of_fifty_members_survive_a_hundred_kills(producer: holdfast.App, crew: Crew) -> None:
    _run(producer, crew, dags=200, kills=100)


def _run(producer: holdfast.App, crew: Crew, *, dags: int, kills: int) -> None:
    dice = random.Random(5)
    producer.migrate()
    for _ in range(PROCESSES):
        crew.start(*OPTIONS)
    flows: dict[str, Dag] = {}
    for n in range(kills):
        # The kills are spread over the work: as many flows as are due, then a kill once some of them have begun.
        while len(flows) * kills < dags * (n + 1):
            dag = random_dag(dice, 50)
            with producer.flow(f"dag-{len(flows)}") as flow:
                flow_jobs.build(flow, dag, producer.tasks["node"])
            flows[flow.id] = dag
        seen = len(crew.lines())
        until(lambda seen=seen: len(crew.lines()) > seen + 5 or _is_over(producer), 60, "work goes on", crew.log)
        crew.kill(dice.randrange(PROCESSES), *OPTIONS)
    until(lambda: _is_over(producer), 600, "every flow has ended", crew.log)
    crew.stop_all()
    require(crew.facts(producer), drained=True)
    assert _leftovers(producer) == {}
    runs = _by_job(crew.lines())
    lost = sum(_check(producer, flow_id, dag, runs) for flow_id, dag in flows.items())
    assert lost >= kills // 2, "the kills met work that was under way"


def _is_over(producer: holdfast.App) -> bool:
    return not producer.flows.find(holdfast.model.FlowFilter(state=FlowState.RUNNING, limit=1))


def _leftovers(producer: holdfast.App) -> dict[str, int]:
    live = ("ready", "delayed", "running", "blocked", "suspended")
    return {count.state: count.jobs for count in producer.jobs.counts() if count.state in live and count.jobs}


def _by_job(lines: list[Line]) -> dict[str, list[Line]]:
    found: defaultdict[str, list[Line]] = defaultdict(list)
    for line in lines:
        found[line.job].append(line)
    return found


def _check(producer: holdfast.App, flow_id: str, dag: Dag, runs: dict[str, list[Line]]) -> int:
    """How many runs were lost with their worker."""
    status, graph = producer.flows.status(flow_id), producer.flows.graph(flow_id)
    members = {member.name: member for member in graph.members}
    expected = predict(dag)
    assert members.keys() == expected.keys(), "none is missing, none was added twice"
    for name, member in members.items():
        assert member.state in expected[name], (name, member, expected[name])
    assert status.counts == Counter(str(member.state) for member in graph.members)
    assert status.live == 0 and status.finished_at is not None
    plans = {node.name: node for node in dag.nodes} | {c.name: c for grown in dag.grown.values() for c in grown}
    _check_edges(graph)
    lost = 0
    for name, member in members.items():
        attempts = producer.jobs.attempts(member.id)
        _check_order(plans[name], member, members, runs)
        _check_once(producer.jobs.get(member.id), len(attempts), runs.get(member.id, []))
        lost += sum(attempt.outcome == "lost" for attempt in attempts)
    return lost


def _check_order(
    plan: Node, member: MemberRecord, members: dict[str, MemberRecord], runs: dict[str, list[Line]]
) -> None:
    """No child starts before as many of its upstreams as it needs have ended as asked."""
    starts = [line.at for line in runs.get(member.id, []) if line.mark == "S"]
    if not starts or not plan.upstreams:
        return
    assert member.state != "skipped"
    asked = {"success": {"succeeded"}, "failure": {"failed", "expired"}}
    ends = sorted(
        members[up].finished_at or 0
        for up, policy in plan.upstreams
        if policy == "any" or members[up].state in asked[policy]
    )
    needed = {"all": len(plan.upstreams), "any": 1}.get(plan.mode, plan.needed)
    assert len(ends) >= needed
    assert min(starts) * 1e6 >= ends[needed - 1], (plan, "started before its time")


def _check_once(job: JobRecord, lost: int, lines: list[Line]) -> None:
    """Each claim ran at most one handler; what succeeded did so in a run that came to its end."""
    starts = [line.epoch for line in lines if line.mark == "S"]
    assert len(set(starts)) == len(starts)
    if job.state == "succeeded":
        assert job.finished_epoch in {line.epoch for line in lines if line.mark == "E"}
        assert job.epoch == 2 * (lost + 1), "one success, and a record of every other run"
    if job.state == "skipped":
        assert lines == []


def _check_edges(graph: FlowGraph) -> None:
    """Every edge was counted, once: its upstream has ended."""
    assert all(edge.met is not None for edge in graph.edges)
