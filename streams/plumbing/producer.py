"""Sending whole batches to a partition, acknowledged by the broker before going on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.errors import UnknownError

from loopwarden.streams.plumbing.logs import get_logger

log = get_logger("loopwarden.producer")

#: Bytes in a batch at most; below the broker's default limit of a megabyte for a message.
BATCH_BYTES_MAX = 900_000


class Outgoing(NamedTuple):
    """A record to be sent; ``timestamp_ms`` is milliseconds since the epoch, None for the time of sending."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None


class BatchProducer:
    """Sends record batches, idempotently and with ``acks=all``."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._producer: AIOKafkaProducer | None = None

    async def start(self) -> None:
        """Connect to the broker; raises KafkaConnectionError where there is none.

        The embedded broker knows no idempotent producer. Nothing is lost without it: a batch may then be written
        twice, and everything sent here can be.
        """
        try:
            self._producer = await self._connect(idempotent=True)
        except UnknownError:
            log.info("this broker has no idempotent producer; going on without")
            self._producer = await self._connect(idempotent=False)

    async def _connect(self, *, idempotent: bool) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            **self._options,
            acks="all",
            enable_idempotence=idempotent,
            max_batch_size=BATCH_BYTES_MAX,
            max_request_size=2 * BATCH_BYTES_MAX,
        )
        try:
            await producer.start()
        except BaseException:
            await producer.stop()
            raise
        return producer

    async def stop(self) -> None:
        """Send what is waiting, and disconnect."""
        if self._producer is not None:
            await self._producer.stop()
            self._producer = None

    async def send(self, topic: str, partition: int, records: Sequence[Outgoing]) -> int:
        """Send records to a partition in order; return the offset of the last one, once all are acknowledged.

        Raises what aiokafka raises when the broker does not take them.
        """
        producer = self._producer
        if producer is None:
            raise RuntimeError("the producer is not started")
        batch = producer.create_batch()
        sent = []
        for record in records:
            timestamp = record.timestamp_ms
            headers = list(record.headers)
            if batch.append(key=record.key, value=record.value, timestamp=timestamp, headers=headers) is None:
                sent.append(await producer.send_batch(batch, topic, partition=partition))
                batch = producer.create_batch()
                if batch.append(key=record.key, value=record.value, timestamp=timestamp, headers=headers) is None:
                    raise ValueError(f"a record for {topic} is larger than {BATCH_BYTES_MAX} bytes")
        sent.append(await producer.send_batch(batch, topic, partition=partition))
        acknowledged = await asyncio.gather(*sent)
        last_offset: int = acknowledged[-1].offset + batch.record_count() - 1
        return last_offset
