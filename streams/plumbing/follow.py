"""Follows a topic: all partitions, no consumer group, from its end, its beginning, or some time ago."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from loopwarden.streams.kafka_settings import KafkaSettings
from loopwarden.streams.plumbing.topics import admin_client

#: How long one request for records may wait, in milliseconds.
_POLL_MS = 500

#: How long a broker may wait before it answers that a partition has no records, in milliseconds; while it does, records
#: of other partitions are not asked for.
_FETCH_WAIT_MS = 50


class MissingTopic(Exception):
    """The topic is not there."""


async def follow(
    kafka: KafkaSettings, topic: str, *, from_beginning: bool = False, since_ms: int | None = None
) -> AsyncIterator[list[Any]]:
    """Yield the records of a topic as they come, an empty list while none do; ``since_ms`` is milliseconds since the
    epoch. Raises KafkaConnectionError where no broker answers, MissingTopic where there is no such topic."""
    partitions = await _partitions_of(kafka, topic)
    consumer = AIOKafkaConsumer(
        **kafka.client_options(),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        group_id=None,
        fetch_max_wait_ms=_FETCH_WAIT_MS,
    )
    try:
        await consumer.start()
        consumer.assign(partitions)
        await _seek(consumer, partitions, from_beginning, since_ms)
        while True:
            fetched = await consumer.getmany(timeout_ms=_POLL_MS)
            # Where a broker does not know the offset of a time, reading begins earlier than asked for.
            records = [record for held in fetched.values() for record in held if record.timestamp >= (since_ms or 0)]
            yield sorted(records, key=lambda record: record.timestamp)
    finally:
        await consumer.stop()


async def _partitions_of(kafka: KafkaSettings, topic: str) -> list[TopicPartition]:
    async with admin_client(kafka) as admin:
        if topic not in await admin.list_topics():
            raise MissingTopic(topic)
        (described,) = await admin.describe_topics([topic])
    return [TopicPartition(topic, entry["partition"]) for entry in described["partitions"]]


async def _seek(
    consumer: AIOKafkaConsumer, partitions: list[TopicPartition], from_beginning: bool, since_ms: int | None
) -> None:
    if from_beginning:
        await consumer.seek_to_beginning(*partitions)
    elif since_ms is None:
        await consumer.seek_to_end(*partitions)
    else:
        found = await consumer.offsets_for_times(dict.fromkeys(partitions, since_ms))
        for partition in partitions:
            place = found.get(partition)
            if place is None:
                await consumer.seek_to_end(partition)
            else:
                consumer.seek(partition, place.offset)
