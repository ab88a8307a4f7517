"""The transport: Faust's aiokafka transport, with a consumer that delivers chunks.

Three things are added to Faust's consumer, and all else is left to it: records are cut into chunks, chunks are
acknowledged without Faust's search for gaps, and a chunk that was fetched before a rebalance or a seek, but would be
delivered after it, is dropped and asked for again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from aiokafka.structs import TopicPartition
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage

from loopwarden.streams.plumbing.chunks import Chunk, ChunkScheduler
from loopwarden.streams.plumbing.logs import get_logger

log = get_logger("loopwarden.transport")

#: How long a broker may wait for records before it answers that there are none, in milliseconds.
FETCH_WAIT_MS = 20


class ChunkConsumerThread(driver.AIOKafkaConsumerThread):
    """The thread that fetches, asking for new records more often than Faust does."""

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        # aiokafka asks a broker for one set of partitions at a time. While quiet ones are waited for (1.5 s, which
        # Faust sets without an option), records of a busy one that was just read out are not asked for.
        consumer._fetch_max_wait_ms = FETCH_WAIT_MS
        return consumer


class ChunkConsumer(driver.Consumer):
    """A consumer that delivers the records of ``app.chunked_topics`` in chunks."""

    def _new_consumer_thread(self) -> ChunkConsumerThread:
        return ChunkConsumerThread(self, loop=self.loop, beacon=self.beacon)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.chunked_topics: frozenset[str] = self.app.chunked_topics
        self.scheduler = ChunkScheduler(self.chunked_topics)
        # Where each partition goes on: the offset after the last record delivered.
        self._expected: dict[TP, int] = {}
        self._asked_again: set[TP] = set()

    def _to_message(self, tp: TP, record: Any) -> ConsumerMessage:
        if not isinstance(record, Chunk):
            return super()._to_message(tp, record)
        last = record.records[-1]
        return ConsumerMessage(
            record.topic,
            record.partition,
            record.last_offset,
            last.timestamp / 1000.0,
            last.timestamp_type,
            [],
            None,
            record,
            None,
            None,
            None,
            tp,
            generation_id=self.app.consumer_generation_id,
        )

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, ConsumerMessage]]:  # noqa: ASYNC109 - Faust's
        """Fetch, and let through only chunks that go on where their partition stands."""
        dropped: set[TP] = set()
        async for tp, message in super().getmany(timeout):
            chunk = message.value
            if not isinstance(chunk, Chunk):
                yield tp, message
            elif tp not in dropped:
                if await self._goes_on(tp, chunk):
                    yield tp, message
                else:
                    dropped.add(tp)

    async def _goes_on(self, tp: TP, chunk: Chunk) -> bool:
        """Return whether a chunk is the next one of its partition; if records are missing before it, ask for them.

        ``getmany`` notes the generation only after a fetch has returned, so records fetched before a rebalance may
        come out after it, ahead of where the partition stands. Records that really are missing (retention, markers
        of transactions) are missing still when asked for again.
        """
        expected = self._expected.get(tp)
        if expected is not None and chunk.first_offset > expected and tp not in self._asked_again:
            log.info("asking again for skipped records", topic=tp.topic, partition=tp.partition, offset=expected)
            await self.seek(tp, expected)
            self._asked_again.add(tp)
            return False
        self._asked_again.discard(tp)
        if expected is not None and chunk.last_offset < expected:
            return False
        self._expected[tp] = chunk.last_offset + 1
        return True

    async def perform_seek(self) -> None:
        """Seek all partitions to their committed offsets, and expect what stands there."""
        await super().perform_seek()
        self._expected.clear()
        self._asked_again.clear()
        for tp, offset in self._read_offset.items():
            if offset is not None and tp.topic in self.chunked_topics:
                self._expected[tp] = offset

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Note a gap in the offsets; between chunks, each known by its last offset, there always is one."""
        if tp.topic not in self.chunked_topics:
            await super()._add_gap(tp, offset_from, offset_to)

    def _new_offset(self, tp: TP) -> int | None:
        """Return the offset to commit. Chunks of a partition are acknowledged in order, so the highest tells all."""
        if tp.topic not in self.chunked_topics:
            found: int | None = super()._new_offset(tp)
            return found
        acked = self._acked[tp]
        if not acked:
            return None
        newest: int = max(acked)
        acked.clear()
        self._acked_index[tp].clear()
        return newest + 1

    def ack(self, message: Any) -> bool:
        """Acknowledge a message, unless it is a chunk that was given up or belongs to an earlier generation."""
        if message.topic in self.chunked_topics and message.generation_id != self.app.consumer_generation_id:
            message.acked = True
            self._unacked_messages.discard(message)
            return False
        return bool(super().ack(message))

    def is_current(self, message: Any) -> bool:
        """Return whether this worker still holds the partition as it did when the message was fetched."""
        return (
            message.generation_id == self.app.consumer_generation_id
            and not self.app.rebalancing
            and message.tp in self.assignment()
        )

    async def highwaters(self, *partitions: TP) -> Mapping[TP, int]:
        """Return the ends of partitions, as they are once the app has marked them (see ``RunTable.mark_ends``)."""
        await self.app.before_highwaters(frozenset(partitions))
        highwaters: Mapping[TP, int] = await super().highwaters(*partitions)
        return highwaters

    def lag(self, tp: TP) -> int | None:
        """Return how many records of a partition have not been delivered; None while its end is not known."""
        expected = self._expected.get(tp)
        highwater = self.highwater(TopicPartition(tp.topic, tp.partition))
        return None if expected is None or highwater is None else max(0, highwater - expected)


class ChunkTransport(driver.Transport):
    """Faust's aiokafka transport with the consumer above."""

    Consumer = ChunkConsumer
