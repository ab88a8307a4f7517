"""Recomputes states and verdicts from the events topic, and compares them with what is stored and published.

The events topic is the log of record; everything else follows from it. A rebuild says whether it does, and can put
right what does not: the ids are the same, so what is published again is recognised.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition

from loopwarden.schemas.signals import Signal
from loopwarden.schemas.topics import TopicNames
from loopwarden.schemas.verdicts import Verdict
from loopwarden.streams.kafka_settings import KafkaSettings
from loopwarden.streams.partition import Limits, PartitionRuns
from loopwarden.streams.plumbing.embedded_quirks import fetched_ends, is_embedded
from loopwarden.streams.plumbing.outgoing import signal_record, verdict_record
from loopwarden.streams.plumbing.producer import BatchProducer, Outgoing
from loopwarden.streams.settings import SettingsBook

_POLL_MS = 1000
_FETCH_WAIT_MS = 50


class _Identified(msgspec.Struct):
    verdict_id: str | None = None
    signal_id: str | None = None


_decode_id = msgspec.json.Decoder(_Identified).decode


class PartitionReport(NamedTuple):
    """What a rebuild of one partition found. ``missing`` and ``different`` rows are rebuilt ones that the changelog
    lacks or has otherwise; ``extra`` ones are in the changelog alone."""

    partition: int
    events: int
    rows: dict[bytes, bytes]
    missing_rows: list[bytes]
    different_rows: list[bytes]
    extra_rows: list[bytes]
    missing_verdicts: list[Verdict]
    missing_signals: list[Signal]
    verdicts: int

    @property
    def is_right(self) -> bool:
        """Whether all that follows from the events is there, and nothing else."""
        return not (
            self.missing_rows or self.different_rows or self.extra_rows or self.missing_verdicts or self.missing_signals
        )


class Rebuild:
    """Reads topics a partition at a time, and folds the events of each from a given offset on."""

    def __init__(self, kafka: KafkaSettings, topics: TopicNames, book: SettingsBook, limits: Limits) -> None:
        self._kafka = kafka
        self._topics = topics
        self._book = book
        self._limits = limits

    async def partition(
        self, number: int, from_offset: int | None, on_events: Callable[[int], None] = lambda _count: None
    ) -> PartitionReport:
        """Rebuild one partition from an offset (None: from its earliest record) and compare; raises KafkaError."""
        rows: dict[bytes, bytes] = {}
        runs = PartitionRuns(self._topics.events, number, self._book, self._limits, rows.get)
        verdicts: dict[str, Verdict] = {}
        signals: dict[str, Signal] = {}
        events = 0
        async for records in self._read(self._topics.events, number, from_offset):
            outcome = runs.fold(records, _now_ms())
            for key, row in outcome.rows.items():
                _set(rows, key, row)
            verdicts.update({verdict.verdict_id: verdict for verdict, _time in outcome.verdicts})
            signals.update({signal.signal_id: signal for signal, _time in outcome.signals})
            events += len(records)
            on_events(len(records))
        stored = await self._latest_rows(number)
        published = await self._ids(self._topics.verdicts, number) | await self._ids(self._topics.signals, number)
        return PartitionReport(
            partition=number,
            events=events,
            rows=rows,
            missing_rows=[key for key in rows if key not in stored],
            different_rows=[key for key, row in rows.items() if key in stored and stored[key] != row],
            extra_rows=[key for key in stored if key not in rows],
            missing_verdicts=[verdict for name, verdict in verdicts.items() if name not in published],
            missing_signals=[signal for name, signal in signals.items() if name not in published],
            verdicts=len(verdicts),
        )

    async def put_right(self, report: PartitionReport) -> None:
        """Publish what is missing and store rows as rebuilt; no worker may be running. Raises KafkaError."""
        producer = BatchProducer(self._kafka.client_options())
        await producer.start()
        try:
            number = report.partition
            changed = [*report.missing_rows, *report.different_rows]
            rows = [Outgoing(key, report.rows[key]) for key in changed] + [
                Outgoing(key, None) for key in report.extra_rows
            ]
            for topic, records in (
                (self._topics.verdicts, [verdict_record(verdict) for verdict in report.missing_verdicts]),
                (self._topics.signals, [signal_record(signal) for signal in report.missing_signals]),
                (self._topics.runs_changelog, rows),
            ):
                if records:
                    await producer.send(topic, number, records)
        finally:
            await producer.stop()

    async def _latest_rows(self, number: int) -> dict[bytes, bytes]:
        stored: dict[bytes, bytes] = {}
        async for records in self._read(self._topics.runs_changelog, number, None):
            for record in records:
                _set(stored, record.key, record.value)
        return stored

    async def _ids(self, topic: str, number: int) -> set[str]:
        found: set[str] = set()
        async for records in self._read(topic, number, None):
            for record in records:
                identified = _decode_id(record.value)
                found.add(identified.signal_id or identified.verdict_id or "")
        return found

    async def _read(self, topic: str, number: int, from_offset: int | None) -> AsyncIterator[list[Any]]:
        """Yield the records of a partition up to where it ends now."""
        options = self._kafka.client_options()
        partition = TopicPartition(topic, number)
        consumer = AIOKafkaConsumer(
            **options,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=_FETCH_WAIT_MS,
        )
        await consumer.start()
        try:
            consumer.assign([partition])
            end = (await consumer.end_offsets([partition]))[partition]
            if await is_embedded(consumer):
                end = (await fetched_ends({partition: end}, options))[partition]
            if from_offset is not None:
                consumer.seek(partition, from_offset)
            position = await consumer.position(partition)
            while position < end:
                records = (await consumer.getmany(partition, timeout_ms=_POLL_MS)).get(partition, [])
                within = [record for record in records if record.offset < end]
                if within:
                    yield within
                position = await consumer.position(partition)
        finally:
            await consumer.stop()


def _set(rows: dict[bytes, bytes], key: bytes, row: bytes | None) -> None:
    if row is None:
        rows.pop(key, None)
    else:
        rows[key] = row


def _now_ms() -> int:
    return int(time.time() * 1000)


def total(reports: list[PartitionReport]) -> dict[str, int]:
    """Return the numbers of all partitions, added up."""
    sums: defaultdict[str, int] = defaultdict(int)
    for report in reports:
        sums["events"] += report.events
        sums["runs"] += len(report.rows)
        sums["verdicts"] += report.verdicts
        for name in ("missing_rows", "different_rows", "extra_rows", "missing_verdicts", "missing_signals"):
            sums[name] += len(getattr(report, name))
    return dict(sums)
