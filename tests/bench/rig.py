"""What the parts of the benchmark stand on: topics of their own on a Kafka, workers, what the kernel says of them."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Int16, Int32, Int64, Schema, String
from rich.console import Console
from rich.table import Table

from loopwarden.deploy.demo.stack import WorkerProcess, make_topics
from loopwarden.deploy.kafka import KafkaCluster
from loopwarden.schemas.configuration import TopicsConfig, WorkerConfig
from loopwarden.schemas.topics import TopicNames, topic_names
from loopwarden.streams.plumbing.topics import session_partition

PARTITIONS = TopicsConfig().partitions

#: How long anything may take that is waited for, in seconds: a million runs on a busy machine take minutes.
DEADLINE_S = 1800.0

#: As production has it; the shortest one that demo and tests use would end a worker that is paused meanwhile.
SESSION_TIMEOUT_S = WorkerConfig().session_timeout_seconds

_BATCH_BYTES = 400_000
_POLL_S = 0.05


class Place(NamedTuple):
    """Topics of their own, and the consumer group that goes with them."""

    bootstrap: str
    topics: TopicsConfig
    group: str
    names: TopicNames


class Filled(NamedTuple):
    """What was sent: how many events, and the bytes of their keys and values."""

    events: int
    bytes: int


def new_place(bootstrap: str) -> Place:
    """Make topics that nobody else uses."""
    unique = f"b{uuid.uuid4().hex[:8]}"
    topics = TopicsConfig(prefix=f"{unique}.")
    make_topics(bootstrap, topics, unique)
    return Place(bootstrap, topics, unique, topic_names(topics.prefix, unique))


@contextmanager
def worker_on(
    place: Place, *, instance: str | None = None, prepare: Callable[[WorkerProcess], None] = lambda _worker: None
) -> Iterator[WorkerProcess]:
    """Run a worker with detection on and all else as by default; ``prepare`` may change it before it starts."""
    settings: dict[str, Any] = {"tools": {"loopDetection": {"enabled": True}}, "worker": {"logLevel": "error"}}
    if instance is not None:
        settings["worker"]["instanceId"] = instance
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "bench.json5"
        config.write_text(json.dumps(settings))
        more = ["--session-timeout", str(SESSION_TIMEOUT_S)]
        worker = WorkerProcess(place.bootstrap, place.topics, config=config, group=place.group, more=more)
        prepare(worker)
        try:
            worker.start()
            yield worker
        finally:
            if worker.process.pid is not None:
                signal_worker(worker, signal.SIGCONT)  # a paused one would not hear that it is to stop
            worker.stop()


def signal_worker(worker: WorkerProcess, number: int) -> None:
    """Send a signal to a worker that runs."""
    os.kill(pid_of(worker), number)


def pid_of(worker: WorkerProcess) -> int:
    """Return the process id of a worker that was started."""
    assert worker.process.pid is not None, "the worker was not started"
    return worker.process.pid


def wait_until(holds: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Wait until a condition holds; fails after the deadline."""
    until_s = time.monotonic() + deadline_s
    while not holds():
        if time.monotonic() > until_s:
            raise AssertionError(f"not so after {deadline_s:.0f} s: {what}")
        time.sleep(_POLL_S)


def folded(workers: Sequence[WorkerProcess]) -> float:
    """Return how many events workers have folded; raises ProcessFailed where one of them has ended."""
    for worker in workers:
        worker.process.check_alive()
    return sum(worker.metric("loopwarden_events_total") for worker in workers)


def cpu_s(pid: int) -> float:
    """Return the CPU time that a process has used, all of its threads, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_bytes(pid: int) -> int:
    """Return the memory that a process has in use."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


partition_of = functools.cache(functools.partial(session_partition, partitions=PARTITIONS))


def fill(place: Place, events: Iterable[tuple[str, bytes]]) -> Filled:
    """Send events (session, value) as fast as the broker takes them, uncompressed, in large batches."""
    return asyncio.run(_fill(place, events))


async def _fill(place: Place, events: Iterable[tuple[str, bytes]]) -> Filled:
    producer = AIOKafkaProducer(bootstrap_servers=place.bootstrap, acks="all", max_batch_size=_BATCH_BYTES)
    await producer.start()
    topic = place.names.events
    count = size = 0
    try:
        batches = [producer.create_batch() for _ in range(PARTITIONS)]
        waiting: list[Any] = []
        for session, value in events:
            partition, key = partition_of(session), session.encode()
            if batches[partition].append(key=key, value=value, timestamp=None) is None:
                waiting.append(await producer.send_batch(batches[partition], topic, partition=partition))
                batches[partition] = producer.create_batch()
                batches[partition].append(key=key, value=value, timestamp=None)
            count += 1
            size += len(key) + len(value)
        for partition, batch in enumerate(batches):
            if batch.record_count():
                waiting.append(await producer.send_batch(batch, topic, partition=partition))
        await asyncio.gather(*waiting)
    finally:
        await producer.stop()
    return Filled(count, size)


class _LogDirsResponse(Response):
    API_KEY = 35
    API_VERSION = 1
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "folders",
            Array(
                ("error_code", Int16),
                ("folder", String("utf-8")),
                (
                    "topics",
                    Array(
                        ("topic", String("utf-8")),
                        (
                            "partitions",
                            Array(("partition", Int32), ("size", Int64), ("lag", Int64), ("is_future", Boolean)),
                        ),
                    ),
                ),
            ),
        ),
    )


class _LogDirsRequestStruct(RequestStruct):
    API_KEY = 35
    API_VERSION = 1
    RESPONSE_TYPE = _LogDirsResponse
    SCHEMA = Schema(("topics", Array(("topic", String("utf-8")), ("partitions", Array(Int32)))))


class _LogDirsRequest(Request[_LogDirsRequestStruct]):
    """Kafka's DescribeLogDirs, which aiokafka does not have."""

    API_KEY = 35

    def __init__(self, topics: list[str]) -> None:
        self._topics = [(topic, list(range(PARTITIONS))) for topic in topics]

    def build(self, request_struct_class: type[_LogDirsRequestStruct]) -> _LogDirsRequestStruct:
        return request_struct_class(self._topics)


def topic_bytes(place: Place) -> tuple[int, int]:
    """Return how much the events topic and the changelog take on the broker's disk, framing included."""
    names = [place.names.events, place.names.runs_changelog]
    sizes = asyncio.run(_topic_bytes(place.bootstrap, names))
    return sizes[names[0]], sizes[names[1]]


async def _topic_bytes(bootstrap: str, topics: list[str]) -> dict[str, int]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        response = await admin._send_request(_LogDirsRequest(topics))
    finally:
        await admin.close()
    sizes = dict.fromkeys(topics, 0)
    for _code, _folder, held in response.folders:
        for topic, partitions in held:
            sizes[topic] += sum(entry[1] for entry in partitions)
    return sizes


@contextmanager
def kafka(bootstrap: str | None) -> Iterator[str]:
    """Use the Kafka that is given, or run one of one node."""
    if bootstrap is not None:
        yield bootstrap
        return
    with KafkaCluster() as cluster:
        yield cluster.bootstrap


def standalone(command: Callable[..., None]) -> Callable[..., None]:
    """Give a part that is run by itself the options that all parts share."""
    for option in (
        click.option("--bootstrap", metavar="HOST:PORT", help="A Kafka that runs.  [default: one node is started]"),
        click.option("--output", type=click.Path(path_type=Path), help="A file for the raw figures, as JSON."),
    ):
        command = option(command)
    return command


def show(figures: dict[str, Any], table: Table, output: Path | None) -> None:
    """Print the table, and write the raw figures where that is wanted."""
    Console(highlight=False, width=None if sys.stdout.isatty() else 140).print(table)
    if output is not None:
        output.write_text(json.dumps(figures, indent=2) + "\n")
