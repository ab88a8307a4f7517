"""Fixtures that tests of all sorts share: a broker, topics of one's own, workers that are stopped whatever comes."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import json5
import pytest
from broker_tools import Stream

from loopwarden.deploy.demo.stack import WorkerProcess, make_topics
from loopwarden.deploy.embedded import EmbeddedBroker
from loopwarden.deploy.kafka import KafkaCluster, KafkaUnavailable
from loopwarden.schemas.configuration import TopicsConfig

PARTITIONS = 4


@pytest.fixture(scope="session")
def kafka() -> Iterator[str]:
    """The address of an Apache Kafka broker; where Java or Maven are missing, its tests are skipped with the reason.

    ``LOOPWARDEN_REQUIRE_KAFKA`` makes that a failure.
    """
    try:
        with KafkaCluster() as cluster:
            yield cluster.bootstrap
    except KafkaUnavailable as error:
        if os.environ.get("LOOPWARDEN_REQUIRE_KAFKA"):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def embedded() -> Iterator[str]:
    """The address of the embedded broker."""
    with EmbeddedBroker() as broker:
        yield broker.bootstrap


@pytest.fixture(scope="session", params=["embedded", "kafka"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of each broker in turn; what a test makes there bears names of its own."""
    return str(request.getfixturevalue(request.param))


@pytest.fixture
def stream(bootstrap: str) -> Stream:
    """Topics of this test's own."""
    unique = uuid.uuid4().hex[:8]
    topics = TopicsConfig(prefix=f"t{unique}.", partitions=PARTITIONS)
    group = f"g{unique}"
    make_topics(bootstrap, topics, group)
    return Stream(bootstrap, topics, group)


StartWorker = Callable[..., WorkerProcess]


@pytest.fixture
def start_worker(stream: Stream, tmp_path: Path) -> Iterator[StartWorker]:
    """A function that starts a worker on this test's topics; keyword arguments are blocks of its configuration."""
    workers: list[WorkerProcess] = []

    def start(ready: bool = True, more: Sequence[str] = (), **blocks: Any) -> WorkerProcess:
        content = {"tools": {"loopDetection": {"enabled": True}}} | blocks
        config = tmp_path / f"worker-{len(workers)}.json5"
        config.write_text(json5.dumps(content))
        worker = WorkerProcess(stream.bootstrap, stream.topics, config=config, group=stream.group, more=more)
        workers.append(worker)
        if ready:
            worker.start()
        return worker

    yield start
    for worker in workers:
        worker.stop()
