"""The transport: Faust's aiokafka transport, with a consumer that delivers chunks.

Added to Faust's consumer: records are cut into chunks; a chunk that was fetched before a rebalance or a seek, but would
be delivered after it, is dropped and fetched again; no event is delivered while the worker rebalances or recovers; and
only what was processed to its end is committed. Each override says which behaviour of Faust 0.15 it depends on.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from aiokafka.errors import IllegalStateError
from aiokafka.structs import TopicPartition
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage

from loopwarden.streams.plumbing.chunks import Chunk, ChunkScheduler
from loopwarden.streams.plumbing.embedded_quirks import fetched_ends, is_embedded
from loopwarden.streams.plumbing.ledger import Ledger
from loopwarden.streams.plumbing.logs import get_logger
from loopwarden.streams.plumbing.recovery import pass_over_empty_tail

log = get_logger("loopwarden.transport")

#: How long a broker may wait for records before it answers that there are none, in milliseconds.
FETCH_WAIT_MS = 20


class LeasedThread(driver.AIOKafkaConsumerThread):
    """Faust's consumer thread, which also notes when the group last confirmed this worker's membership."""

    #: Monotonic time of the last confirmation, in seconds; 0 before the first.
    confirmed_at_s = 0.0

    def _create_worker_consumer(self, transport: Any) -> Any:
        """Make the client; it asks for new records more often than Faust has it do.

        aiokafka asks a broker for one set of partitions at a time. While quiet ones are waited for (1.5 s, which Faust
        sets without an option), records of a busy one that was just read out are not asked for.
        """
        consumer = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = FETCH_WAIT_MS
        return consumer

    async def on_start(self) -> None:
        """Connect, and listen in on the heartbeats: aiokafka keeps to itself when the last one was answered."""
        await super().on_start()
        coordinator = self._ensure_consumer()._coordinator
        heartbeat = coordinator._do_heartbeat

        async def noted_heartbeat() -> bool:
            sent_at_s = time.monotonic()
            confirmed = bool(await heartbeat())
            if confirmed:
                self.confirmed_at_s = sent_at_s
            return confirmed

        coordinator._do_heartbeat = noted_heartbeat

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Having been given partitions confirms the membership as well."""
        self.confirmed_at_s = time.monotonic()
        await super().on_partitions_assigned(assigned, generation_id)


class ChunkConsumer(driver.Consumer):
    """A consumer that delivers the records of ``app.chunked_topics`` in chunks; they are read from the earliest on."""

    _thread: LeasedThread

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.chunked_topics: frozenset[str] = self.app.chunked_topics
        self.scheduler = ChunkScheduler(self.chunked_topics)
        self._ledgers: defaultdict[TP, Ledger] = defaultdict(Ledger)
        self._embedded: bool | None = None
        self._anew: set[TP] = set()
        #: Monotonic time of the last commit that succeeded, in seconds; 0 before the first.
        self.committed_at_s = 0.0

    def _new_consumer_thread(self) -> LeasedThread:
        return LeasedThread(self, loop=self.loop, beacon=self.beacon)

    # Delivery

    def _to_message(self, tp: TP, record: Any) -> ConsumerMessage:
        """Make a message of a chunk; Faust knows it by its last offset."""
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
        if not self.app.rebalancing and not self._is_confirmed():
            await self.sleep(self.app.conf.broker_heartbeat_interval)  # until the next sign of life, or a rebalance
        await self._seek_where_due()
        idle = True
        async for tp, message in super().getmany(timeout):
            idle = False
            if isinstance(message.value, Chunk) and not self._deliver(tp, message):
                continue
            yield tp, message
        if idle:
            await pass_over_empty_tail(self, self._ledgers)

    def _deliver(self, tp: TP, message: ConsumerMessage) -> bool:
        """Note a chunk as delivered; return False where it is not to be, and then see to it that it comes again.

        Nothing moves a partition's position ahead without a restart of its ledger, so records missing in between are
        missing in the log. ``Recovery.on_recovery_completed`` resumes the partitions of streams before it seeks them,
        with the flow on, and clears the queues afterwards; ``app.rebalancing`` ends behind all that.
        """
        ledger = self._ledgers[tp]
        is_changelog = self._is_changelog_tp(tp)
        if not is_changelog and (self.app.rebalancing or not self._is_confirmed()):
            ledger.seek_due = True
        if ledger.next_offset is not None and message.value.first_offset < ledger.next_offset:
            ledger.seek_due = True
        if ledger.seek_due:
            return False
        ledger.deliver(message, to_commit=not is_changelog)
        # ``_drain_messages`` compares with what was read last, to skip and to note gaps; the ledger sees to both.
        self._read_offset.pop(tp, None)
        return True

    def on_buffer_full(self, tp: TP) -> None:
        """Go on fetching chunks when their queue is nearly full: delivery waits for room in it, which is enough.

        Faust stops fetching such partitions, and once it has stopped all of them, it sleeps for a second.
        """
        if tp.topic not in self.chunked_topics:
            super().on_buffer_full(tp)

    @property
    def confirmed_at_s(self) -> float:
        """Monotonic time when the group last confirmed the membership, in seconds; 0 before the first time."""
        return self._thread.confirmed_at_s

    def _is_confirmed(self) -> bool:
        """Return whether the group has confirmed the membership within a session's time."""
        unconfirmed_s = time.monotonic() - self.confirmed_at_s
        return bool(unconfirmed_s < self.app.conf.broker_session_timeout)

    async def _seek_where_due(self) -> None:
        """Send the client to where partitions stand, before it fetches on.

        Faust seeks while fetches may be running, which then take the position further. This runs between fetches.
        """
        if self.app.rebalancing and not self.app.in_recovery:
            return  # they will stand elsewhere at the end of that
        moves = {}
        for tp in self.assignment():
            ledger = self._ledgers.get(tp)
            if ledger is not None and (ledger.go_back() or ledger.seek_due) and ledger.next_offset is not None:
                moves[tp] = ledger.next_offset
                ledger.seek_due = False  # before the wait, in which it may become due again
        if moves:
            try:
                await super().seek_wait(moves)
            except IllegalStateError:
                return  # revoked meanwhile; restarted when assigned again

    # Positions

    async def seek_wait(self, partitions: Mapping[TP, int]) -> None:
        """Move partitions to offsets."""
        for tp, offset in partitions.items():
            self._ledgers[tp].restart(offset)
        await super().seek_wait(partitions)

    async def perform_seek(self) -> None:
        """Move all partitions to their committed offsets, and to the earliest where nothing is committed.

        aiokafka leaves those where they stand, which after a rebalance may be anywhere.
        """
        await super().perform_seek()
        events = [tp for tp in self.assignment() if tp.topic in self.chunked_topics and not self._is_changelog_tp(tp)]
        committed = {tp: None if tp in self._anew else self._read_offset[tp] for tp in events}
        self._anew.clear()
        fresh = [tp for tp in events if not committed[tp]]
        earliest = await self.earliest_offsets(*fresh) if fresh else {}
        for tp in events:
            self._ledgers[tp].restart(committed[tp] or earliest.get(tp) or 0)

    def read_anew(self, tp: TP) -> None:
        """Have a partition begin with its earliest record once recovery is through, whatever was committed."""
        self._anew.add(tp)

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Commit what is done before Faust forgets it."""
        await self.commit()
        await super().on_partitions_revoked(revoked)
        for tp in revoked:
            self._ledgers.pop(tp, None)

    # Acknowledgement and commit

    def _new_offset(self, tp: TP) -> int | None:
        """Return the offset to commit: of chunks, the end of those that are done, in order.

        Once the app has crashed none is: Faust acknowledges the very message whose processing failed.
        """
        if tp.topic not in self.chunked_topics:
            found: int | None = super()._new_offset(tp)
            return found
        self._acked[tp].clear()
        self._acked_index[tp].clear()
        ledger = self._ledgers.get(tp)
        return None if ledger is None or self.app.crashed else ledger.take_committable()

    async def _commit_offsets(self, offsets: Mapping[TP, int], start_new_transaction: bool = True) -> bool:
        """Commit, and note when."""
        committed = bool(await super()._commit_offsets(offsets, start_new_transaction))
        if committed:
            self.committed_at_s = time.monotonic()
        return committed

    def _filter_tps_with_pending_acks(self, topics: Any = None) -> Iterator[TP]:
        """Return the partitions to commit; those of chunks too that Faust has forgotten on a revocation."""
        pending: list[TP] = list(super()._filter_tps_with_pending_acks(topics))
        yield from pending
        if topics is None:
            yield from [tp for tp in self._ledgers if tp not in self._acked and not self._is_changelog_tp(tp)]

    async def wait_empty(self) -> None:
        """Wait until what is being processed is done, for as long as the session lasts; give up what is not.

        Faust waits without end (and swallows a cancellation), and acknowledges a message whose processing is cancelled
        afterwards.
        """
        waiting = asyncio.ensure_future(super().wait_empty())
        done, _pending = await asyncio.wait({waiting}, timeout=self.app.conf.broker_session_timeout)
        if not done:
            log.warning("not waiting any longer for chunks to be processed")
            self._give_up_unfinished()
            self._unacked_messages.clear()  # which is what Faust waits for
        await waiting
        self._give_up_unfinished()

    def _give_up_unfinished(self) -> None:
        for tp, ledger in self._ledgers.items():
            given_up = ledger.give_up_unfinished()
            if given_up:
                log.info("chunks given up", topic=tp.topic, partition=tp.partition, chunks=given_up)

    def is_current(self, message: Any) -> bool:
        """Return whether this worker still holds the partition of a chunk, as far as it can know.

        It does not where the group has not confirmed its membership for as long as a session lasts: another worker
        may have the partition then, though nobody could tell this one, which was stopped or cut off.
        """
        ledger = self._ledgers.get(message.tp)
        return (
            message.generation_id == self.app.consumer_generation_id
            and not self.app.rebalancing
            and message.tp in self.assignment()
            and ledger is not None
            and ledger.holds(message)
            and self._is_confirmed()
        )

    # What is known of partitions

    async def highwaters(self, *partitions: TP) -> Mapping[TP, int]:
        """Return the ends of partitions, by fetching on the embedded broker."""
        ends: Mapping[TP, int] = await super().highwaters(*partitions)
        if self._embedded is None:
            self._embedded = bool(await self._thread.call_thread(is_embedded, self._thread._ensure_consumer()))
        if not self._embedded or not ends:
            return ends
        conf = self.app.conf
        options = driver.credentials_to_aiokafka_auth(conf.broker_credentials, conf.ssl_context)
        servers = driver.server_list(self.transport.url, self.transport.default_port)
        return await fetched_ends(ends, {"bootstrap_servers": servers, **options})

    def lag(self, tp: TP) -> int | None:
        """Return how many records of a partition have not been delivered; None while its end is not known."""
        next_offset = self._ledgers[tp].next_offset if tp in self._ledgers else None
        highwater = self.highwater(TopicPartition(tp.topic, tp.partition))
        return None if next_offset is None or highwater is None else max(0, highwater - next_offset)


class ChunkTransport(driver.Transport):
    """Faust's aiokafka transport with the consumer above."""

    Consumer = ChunkConsumer
