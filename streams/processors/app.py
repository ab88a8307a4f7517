"""The Faust app: settings, transport, table and processor put together."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import faust
from faust.types import TP
from mode import Service

from loopwarden.schemas.topics import RUNS_TABLE, TopicNames
from loopwarden.streams.partition import Limits
from loopwarden.streams.plumbing.chunks import ChunkSchema
from loopwarden.streams.plumbing.logs import get_logger
from loopwarden.streams.plumbing.metrics import Metrics
from loopwarden.streams.plumbing.producer import BatchProducer
from loopwarden.streams.plumbing.table import RunTable
from loopwarden.streams.plumbing.transport import ChunkTransport
from loopwarden.streams.processors.health import WATCH_S, Health
from loopwarden.streams.processors.runs import RunsProcessor
from loopwarden.streams.settings import SettingsBook

Hook = Callable[[], Awaitable[None]]

log = get_logger("loopwarden.app")

#: Chunks that wait in a queue of Faust's at most; each holds up to some hundred records.
_CHUNKS_WAITING_MAX = 8

#: How often idle runs are looked for and gauges set, in seconds.
_HOUSEKEEPING_S = 5.0

#: Heartbeats that may be missing in a row before the worker counts as out of touch; one gets lost now and then.
_HEARTBEATS_MISSED_MAX = 2


class WatchApp(faust.App):
    """Faust app with a transport that delivers chunks, and one table and one processor: the runs."""

    def __init__(
        self, *, topics: TopicNames, partitions: int, producer_options: dict[str, Any], **options: Any
    ) -> None:
        self.chunked_topics = frozenset({topics.events, topics.runs_changelog})
        super().__init__(
            autodiscover=False,
            store="memory://",
            topic_partitions=partitions,
            topic_disable_leader=True,
            topic_allow_declare=False,
            consumer_auto_offset_reset="earliest",
            stream_buffer_maxsize=_CHUNKS_WAITING_MAX,
            stream_wait_empty=True,
            table_standby_replicas=0,
            web_enabled=False,
            **options,
        )
        self._start_hooks: list[Hook] = []
        self._stop_hooks: list[Hook] = []
        self.health: Health | None = None
        self.batch_producer = BatchProducer(producer_options)
        self.runs_table = RunTable(
            self, name=RUNS_TABLE, partitions=partitions, producer=self.batch_producer, changelog=topics.runs_changelog
        )
        self.tables.add(self.runs_table)

    def _new_transport(self) -> Any:
        return ChunkTransport(self.conf.broker_consumer, self)

    def on_start_hook(self, hook: Hook) -> Hook:
        """Have a function called before anything connects."""
        self._start_hooks.append(hook)
        return hook

    def on_stop_hook(self, hook: Hook) -> Hook:
        """Have a function called after everything has stopped."""
        self._stop_hooks.append(hook)
        return hook

    async def on_start(self) -> None:
        """Connect the batch producer before anything can be processed."""
        for hook in self._start_hooks:
            await hook()
        await self.batch_producer.start()
        await super().on_start()

    async def on_shutdown(self) -> None:
        """Disconnect the batch producer last."""
        await super().on_shutdown()
        await self.batch_producer.stop()
        for hook in self._stop_hooks:
            await hook()

    @Service.task
    async def _watch_health(self) -> None:
        """Watch from the start on; timers of Faust's begin only after the first recovery."""
        while not self.should_stop:
            if self.health is not None:
                await self.health.watch()
            await self.sleep(WATCH_S)

    @property
    def is_in_touch(self) -> bool:
        """Whether the broker confirmed lately that this worker is in the group."""
        out_of_touch_s = time.monotonic() - self.consumer.confirmed_at_s
        return bool(out_of_touch_s < (_HEARTBEATS_MISSED_MAX + 1) * self.conf.broker_heartbeat_interval)

    def why_not_ready(self) -> str | None:
        """Return why not every partition assigned to this worker is recovered and being read, None where all are."""
        if not self.started or self.should_stop:
            return "starting or stopping"
        if not self.is_in_touch:
            return "out of touch with the broker"
        if self.batch_producer.stalled_since_s is not None:
            return "the broker does not take what is sent"
        if self.rebalancing or not self.tables.actives_ready:
            return "recovering or rebalancing"
        return None

    def records_to_recover(self) -> dict[int, int]:
        """Return by partition how many records of the changelog recovery has still to read."""
        recovery = self.tables.recovery
        if not recovery.in_recovery:
            return {}
        # Ends are those of the last records, not the offsets after them; both are -1 where there is none.
        ends = {tp.partition: (end, recovery.active_offsets.get(tp)) for tp, end in recovery.active_highwaters.items()}
        left = {number: end - (-1 if at is None else at) for number, (end, at) in ends.items() if end is not None}
        return {number: records for number, records in left.items() if records > 0}


def make_app(
    *,
    topics: TopicNames,
    partitions: int,
    book: SettingsBook,
    limits: Limits,
    metrics: Metrics,
    faust_options: dict[str, Any],
    producer_options: dict[str, Any],
    reach: Callable[[], Awaitable[None]],
) -> WatchApp:
    """Return an app that watches the events topic; ``faust_options`` hold id, broker, credentials and timeouts.

    ``reach`` asks whether a broker can be used, and raises Unreachable where none can.
    """
    app = WatchApp(topics=topics, partitions=partitions, producer_options=producer_options, **faust_options)
    app.health = health = Health(app, metrics, reach)
    processor = RunsProcessor(topics, app.runs_table, app.batch_producer, metrics, book, limits)
    events = app.topic(topics.events, schema=ChunkSchema(), partitions=partitions, internal=False)

    async def fold_chunks(stream: Any) -> None:
        async for event in stream.events():
            message = event.message
            try:
                done = await processor.process(event.value, partial(app.consumer.is_current, message))
            except Exception as error:
                # Faust would acknowledge the chunk and go on; a worker that stops repeats it instead.
                log.exception("a chunk could not be published; stopping")
                await app.crash(error)
                await app.wait_until_stopped()
                return
            if not done:
                message.generation_id = None  # not processed: not to be acknowledged

    app.agent(events, name="runs")(fold_chunks)

    @app.runs_table.on_recover
    async def take_over() -> None:
        processor.forget()
        for tp in app.assignor.assigned_actives():
            if tp.topic == topics.runs_changelog and not processor.take_over(tp.partition):
                app.consumer.read_anew(TP(topics.events, tp.partition))
        health.on_recovered()

    @app.on_partitions_assigned.connect
    async def note_assignment(_app: Any, _assigned: Any, **_rest: Any) -> None:
        health.on_assigned()

    @app.timer(_HOUSEKEEPING_S)
    async def housekeeping() -> None:
        if app.why_not_ready() is not None:
            return
        metrics.runs_held.set(processor.runs_held())
        lags = {tp.partition: app.consumer.lag(tp) for tp in app.consumer.assignment() if tp.topic == topics.events}
        metrics.show_lags(lags)
        for partition, lag in lags.items():
            await processor.free_idle(partition, caught_up=lag == 0)

    return app
