"""What whoever runs workers sees: metrics of the group and of recovery, and how a worker does without its broker."""

from __future__ import annotations

import asyncio
import json
import os
import re
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from broker_tools import DEADLINE_S, Stream, at_least, expect, wait_until

from loopwarden.deploy.demo.stack import SESSION_TIMEOUT_S, WorkerProcess, make_topics
from loopwarden.deploy.kafka import KafkaCluster, KafkaUnavailable
from loopwarden.deploy.processes import free_port
from loopwarden.schemas.configuration import TopicsConfig
from loopwarden.streams.kafka_settings import KafkaSettings
from loopwarden.streams.plumbing.topics import admin_client
from loopwarden.streams.settings import resolve
from loopwarden.streams.state import run_key

pytestmark = pytest.mark.broker

PARTITIONS = 2

#: So many rows take recovery longer than a look at its progress.
ROWS = 30_000


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A cluster whose nodes a test may stop and start; of one node, unless the test says how many."""
    try:
        with KafkaCluster(nodes=getattr(request, "param", 1)) as started:
            yield started
    except KafkaUnavailable as error:
        if os.environ.get("LOOPWARDEN_REQUIRE_KAFKA"):
            raise
        pytest.skip(str(error))


def new_stream(bootstrap: str, copies: int = 1) -> Stream:
    """Topics of a test's own."""
    unique = uuid.uuid4().hex[:8]
    topics = TopicsConfig(prefix=f"t{unique}.", partitions=PARTITIONS, replication_factor=copies)
    group = f"g{unique}"
    make_topics(bootstrap, topics, group)
    return Stream(bootstrap, topics, group)


StartWorker = Callable[..., WorkerProcess]


@pytest.fixture
def worker_of(tmp_path: Path) -> Iterator[StartWorker]:
    """A function that makes a worker of a stream; all are stopped at the end."""
    workers: list[WorkerProcess] = []
    config = tmp_path / "worker.json5"
    config.write_text(json.dumps({"tools": {"loopDetection": {"enabled": True}}}))

    def make(stream: Stream, *more: str) -> WorkerProcess:
        workers.append(WorkerProcess(stream.bootstrap, stream.topics, config=config, group=stream.group, more=more))
        return workers[-1]

    yield make
    for worker in workers:
        worker.stop()


def loops(sessions: int, calls: int, first: int = 0) -> list[tuple[str | None, bytes | None]]:
    """The same call with the same result, so many times in each session, beginning with the call of a number."""
    events: list[tuple[str | None, bytes | None]] = []
    for number in range(first, first + calls):
        for session in range(sessions):
            call = {"session_id": f"s{session}", "run_id": "r", "tool_call_id": f"c{number}", "tool_name": "read"}
            call_event = call | {"type": "tool_call", "args": {"path": "/a"}}
            result_event = call | {"type": "tool_result", "args": {"path": "/a"}, "result": "same"}
            events += [(f"s{session}", json.dumps(event).encode()) for event in (call_event, result_event)]
    return events


def status(worker: WorkerProcess, path: str) -> tuple[int, str]:
    """The status code and the body that a worker answers with; 0 where nothing listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{worker.status_port}{path}", timeout=5) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def series(worker: WorkerProcess, name: str) -> dict[str, float]:
    """The values of a metric by its labels."""
    found = re.findall(rf"^{name}({{.*}})? (\S+)$", status(worker, "/metrics")[1], re.MULTILINE)
    return {labels: float(value) for labels, value in found}


def said(worker: WorkerProcess, line: str) -> list[dict[str, object]]:
    """The lines of a worker's log that say something."""
    lines = [json.loads(text) for text in worker.process.log.read_text().splitlines() if text.startswith("{")]
    return [entry for entry in lines if entry.get("event") == line]


def test_commits_and_heartbeats_and_rebalances_are_shown(kafka: str, worker_of: StartWorker) -> None:
    stream = new_stream(kafka)
    first = worker_of(stream)
    first.start()
    stream.send(loops(sessions=4, calls=3))
    wait_until(lambda: first.metric("loopwarden_events_total") == 24, "all events are folded")

    wait_until(lambda: first.metric("loopwarden_last_commit_age_seconds") < 2, "the commit is seen")
    wait_until(lambda: first.metric("loopwarden_last_commit_age_seconds") > 3, "its age grows while nothing comes")
    assert first.metric("loopwarden_last_heartbeat_age_seconds") < SESSION_TIMEOUT_S / 2
    assert set(series(first, "loopwarden_consumer_lag")) <= {'{partition="0"}', '{partition="1"}'}
    rebalances = first.metric("loopwarden_rebalances_total")
    assert rebalances >= 1

    second = worker_of(stream)
    second.start()
    wait_until(lambda: first.metric("loopwarden_rebalances_total") > rebalances, "a second worker is a rebalance")
    assert second.metric("loopwarden_rebalances_total") >= 1


def test_recovery_shows_how_far_it_is_and_how_long_it_took(kafka: str, worker_of: StartWorker) -> None:
    stream = new_stream(kafka)
    first = worker_of(stream)
    first.start()
    stream.send(loops(sessions=1, calls=1))
    (row,) = stream.rows(lambda rows: len(rows) == 1).values()
    first.stop()
    stream.write_rows([(run_key(f"s{number}", "r"), row) for number in range(ROWS)])

    seen: list[float] = []
    second = worker_of(stream)

    def is_up() -> bool:
        seen.extend(series(second, "loopwarden_recovery_records_remaining").values())
        return second.is_ready()

    second.process.start(is_up, DEADLINE_S)

    assert seen
    assert 0 < max(seen) <= ROWS
    assert series(second, "loopwarden_recovery_records_remaining") == {}
    assert 0 < second.metric("loopwarden_recovery_seconds") < DEADLINE_S
    wait_until(lambda: second.metric("loopwarden_runs_held") == ROWS, "all runs are held")


def test_a_worker_waits_for_a_broker_at_its_start(cluster: KafkaCluster, worker_of: StartWorker) -> None:
    stream = new_stream(cluster.bootstrap)
    stream.send(loops(sessions=2, calls=12))
    (node,) = cluster.nodes
    node.stop()
    worker = worker_of(stream)
    worker.process.start(lambda: status(worker, "/health/live")[0] == 200, DEADLINE_S)

    assert status(worker, "/health/ready") == (503, '{"status": "waiting for a broker"}')
    wait_until(lambda: len(said(worker, "waiting for a broker")) == 1, "it says so")
    assert "refused" in str(said(worker, "waiting for a broker")[0]["reason"]).lower()

    node.start()
    wait_until(worker.is_ready, "it goes on by itself")
    wait_until(lambda: worker.metric("loopwarden_events_total") == 48, "all events are folded")
    assert len(said(worker, "waiting for a broker")) == 1


def test_a_worker_gives_up_waiting_for_a_broker_after_the_time_it_was_given(worker_of: StartWorker) -> None:
    nowhere = Stream(f"127.0.0.1:{free_port()}", TopicsConfig(prefix="none.", partitions=PARTITIONS), "none")
    worker = worker_of(nowhere, "--broker-wait", "2")
    with pytest.raises(Exception, match="ended with code 2") as failure:
        worker.process.start(worker.is_ready, DEADLINE_S)

    assert f"no Kafka broker answers on {nowhere.bootstrap}" in str(failure.value)


@pytest.mark.parametrize(("session_s", "away_s"), [(15, 0), (6, 18)], ids=["within-the-session", "beyond-the-session"])
def test_a_worker_that_loses_its_broker_goes_on_when_it_is_back(
    cluster: KafkaCluster, worker_of: StartWorker, session_s: int, away_s: int
) -> None:
    stream = new_stream(cluster.bootstrap)
    worker = worker_of(stream, "--session-timeout", str(session_s))
    worker.start()
    (node,) = cluster.nodes
    stream.send(loops(sessions=6, calls=12))
    wait_until(lambda: worker.metric("loopwarden_events_total") > 0, "it is at work")
    node.stop()
    wait_until(lambda: status(worker, "/health/ready")[0] == 503, "it is not ready without a broker")
    age = "loopwarden_last_heartbeat_age_seconds"
    wait_until(lambda: worker.metric(age) >= away_s, "the broker has been away for as long as it is to be")
    assert status(worker, "/health/live")[0] == 200

    node.start()
    stream.send(loops(sessions=6, calls=12, first=12))

    wait_until(worker.is_ready, "it is ready again")
    expected = expect(stream, 6 * 48, resolve({"enabled": True}, {})[0])
    verdicts = stream.verdicts(at_least(len(expected.verdicts)))
    assert {verdict.verdict_id: verdict for verdict in verdicts} == expected.verdicts
    assert stream.rows(lambda rows: rows == expected.rows) == expected.rows
    wait_until(lambda: worker.metric("loopwarden_consumer_lag") == 0, "nothing is left to fold")
    assert worker.metric("loopwarden_events_total") == 6 * 48
    if away_s > session_s:
        assert len(said(worker, "no broker lets us work; trying on")) == 1
        # The worker may still be waiting for an answer to its last question.
        wait_until(lambda: len(said(worker, "a broker answers again")) == 1, "it says that the broker is back")


@pytest.mark.parametrize("cluster", [3], indirect=True, ids=["three-nodes"])
def test_a_worker_whose_states_are_not_taken_is_not_ready_and_goes_on_once_they_are(
    cluster: KafkaCluster, worker_of: StartWorker
) -> None:
    stream = new_stream(cluster.bootstrap, copies=3)
    require_copies(stream, 3)
    worker = worker_of(stream)
    worker.start()
    cluster.nodes[2].stop()
    stream.send(loops(sessions=3, calls=12))

    wait_until(lambda: "not take" in status(worker, "/health/ready")[1], "it is not ready while states are refused")
    line = "the broker does not take what is sent; trying on"
    wait_until(lambda: len(said(worker, line)) == 1, "it says so")
    assert worker.metric("loopwarden_events_total") < 72
    cluster.nodes[2].start()

    wait_until(worker.is_ready, "it goes on by itself")
    expected = expect(stream, 72, resolve({"enabled": True}, {})[0])
    assert stream.rows(lambda rows: rows == expected.rows) == expected.rows
    wait_until(lambda: worker.metric("loopwarden_events_total") == 72, "each event is counted once")
    assert len(said(worker, line)) == 1


def require_copies(stream: Stream, copies: int) -> None:
    """Have the broker take records of the changelog only while so many nodes have a copy."""

    async def alter() -> None:
        settings = {"cleanup.policy": "compact", "min.insync.replicas": str(copies)}
        resource = ConfigResource(ConfigResourceType.TOPIC, stream.names.runs_changelog, configs=settings)
        async with admin_client(KafkaSettings(bootstrap_servers=stream.bootstrap)) as admin:
            await admin.alter_configs([resource])

    asyncio.run(alter())
