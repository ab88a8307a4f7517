"""What tests do with a broker: send events, read topics back, and say what must have come of it."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.partitioner import DefaultPartitioner

from loopwarden.schemas.configuration import TopicsConfig
from loopwarden.schemas.signals import Signal
from loopwarden.schemas.topics import TopicNames, topic_names
from loopwarden.schemas.verdicts import Verdict
from loopwarden.streams.partition import Limits, PartitionRuns
from loopwarden.streams.settings import SettingsBook
from loopwarden.streams.state import parse_run_key

#: How long anything may take that a test waits for, in seconds.
DEADLINE_S = 60.0

_FAR_FUTURE_MS = 2**62


class Sent(NamedTuple):
    """Where a record went."""

    partition: int
    offset: int


class Stream:
    """The topics of one test."""

    def __init__(
        self,
        bootstrap: str,
        topics: TopicsConfig,
        group: str,
        *,
        idempotent: bool = False,
        client_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.bootstrap = bootstrap
        self._client = {"bootstrap_servers": bootstrap} | dict(client_options or {})
        self._idempotent = idempotent  # the embedded broker knows no such producers
        self.topics = topics
        self.group = group
        self.names: TopicNames = topic_names(topics.prefix, group)

    def send(self, records: Sequence[tuple[str | None, bytes | None]], headers: Sequence[Any] = ()) -> list[Sent]:
        """Send records (session, value) to the events topic in order; return where they went."""
        return asyncio.run(self._send(records, headers))

    async def _send(self, records: Sequence[tuple[str | None, bytes | None]], headers: Sequence[Any]) -> list[Sent]:
        producer = AIOKafkaProducer(
            **self._client,
            linger_ms=5,
            max_request_size=2_000_000,
            acks="all",
            enable_idempotence=self._idempotent,
        )
        await producer.start()
        try:
            waiting = [
                await producer.send(
                    self.names.events, value, key=None if key is None else key.encode(), headers=list(headers)
                )
                for key, value in records
            ]
            return [Sent(done.partition, done.offset) for done in await asyncio.gather(*waiting)]
        finally:
            await producer.stop()

    def write_rows(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        """Append rows to the changelog, each to the partition of its session, as no worker would."""
        asyncio.run(self._write_rows(rows))

    async def _write_rows(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        producer = AIOKafkaProducer(**self._client)
        await producer.start()
        try:
            partitioner = DefaultPartitioner()
            numbers = list(range(self.topics.partitions))
            for key, row in rows:
                partition = partitioner(parse_run_key(key)[0].encode(), numbers, numbers)
                await producer.send_and_wait(self.names.runs_changelog, row, key=key, partition=partition)
        finally:
            await producer.stop()

    def read(self, topic: str, enough: Callable[[list[Any]], bool], deadline_s: float = DEADLINE_S) -> list[Any]:
        """Return the records of a topic, read from its beginning until there are enough; fails after the deadline."""
        return asyncio.run(self._read(topic, enough, deadline_s))

    async def _read(self, topic: str, enough: Callable[[list[Any]], bool], deadline_s: float) -> list[Any]:
        consumer = AIOKafkaConsumer(
            **self._client,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topic, number) for number in range(self.topics.partitions)])
            records: list[Any] = []
            until_s = time.monotonic() + deadline_s
            while not enough(records):
                if time.monotonic() > until_s:
                    raise AssertionError(f"{topic}: only {len(records)} records after {deadline_s:.0f} s")
                for held in (await consumer.getmany(timeout_ms=200)).values():
                    records += held
            return records
        finally:
            await consumer.stop()

    def verdicts(self, enough: Callable[[list[Any]], bool]) -> list[Verdict]:
        """Return the verdicts, each once, in the order of their partitions."""
        decode = msgspec.json.Decoder(Verdict).decode
        found = {verdict.verdict_id: verdict for verdict in map(decode, values(self.read(self.names.verdicts, enough)))}
        return list(found.values())

    def signals(self, enough: Callable[[list[Any]], bool]) -> list[Signal]:
        """Return the signals, each once, in the order of their partitions."""
        decode = msgspec.json.Decoder(Signal).decode
        found = {signal.signal_id: signal for signal in map(decode, values(self.read(self.names.signals, enough)))}
        return list(found.values())

    def rows(self, enough: Callable[[dict[bytes, bytes]], bool]) -> dict[bytes, bytes]:
        """Return the newest row of each run in the changelog, those that were freed left out."""
        return latest(self.read(self.names.runs_changelog, lambda records: enough(latest(records))))


def values(records: list[Any]) -> list[bytes]:
    """Return the values of records."""
    return [record.value for record in records]


def latest(records: list[Any]) -> dict[bytes, bytes]:
    """Return what a compacted topic stands for."""
    rows: dict[bytes, bytes] = {}
    for record in records:
        if record.value is None:
            rows.pop(record.key, None)
        else:
            rows[record.key] = record.value
    return rows


def at_least(count: int) -> Callable[[list[Any]], bool]:
    """Return a condition for reading: so many different records, by key and value."""
    return lambda records: len({(record.key, record.value) for record in records}) >= count


class Expected(NamedTuple):
    """What must come of the events of a topic, by the pure core alone."""

    verdicts: dict[str, Verdict]
    signals: dict[str, Signal]
    rows: dict[bytes, bytes]


def expect(stream: Stream, events: int, book: SettingsBook, limits: Limits | None = None) -> Expected:
    """Fold the events topic, read back in the order of its partitions, with the pure core."""
    by_partition: dict[int, list[Any]] = defaultdict(list)
    for record in stream.read(stream.names.events, lambda records: len(records) >= events):
        by_partition[record.partition].append(record)
    expected = Expected({}, {}, {})
    for partition, records in by_partition.items():
        runs = PartitionRuns(stream.names.events, partition, book, limits)
        outcome = runs.fold(sorted(records, key=lambda record: int(record.offset)), _FAR_FUTURE_MS)
        expected.verdicts.update({verdict.verdict_id: verdict for verdict, _time in outcome.verdicts})
        expected.signals.update({signal.signal_id: signal for signal, _time in outcome.signals})
        expected.rows.update({key: row for key, row in outcome.rows.items() if row is not None})
    return expected


def wait_until(holds: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Wait until a condition holds; fails after the deadline."""
    until_s = time.monotonic() + deadline_s
    while not holds():
        if time.monotonic() > until_s:
            raise AssertionError(f"not so after {deadline_s:.0f} s: {what}")
        time.sleep(0.05)
