"""The Faust app: settings, transport, table and processor put together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import faust
from faust.types import TP

from loopwarden.schemas.topics import RUNS_TABLE, TopicNames
from loopwarden.streams.partition import Limits
from loopwarden.streams.plumbing.chunks import ChunkSchema
from loopwarden.streams.plumbing.logs import get_logger
from loopwarden.streams.plumbing.metrics import Metrics
from loopwarden.streams.plumbing.producer import BatchProducer
from loopwarden.streams.plumbing.table import RunTable
from loopwarden.streams.plumbing.transport import ChunkTransport
from loopwarden.streams.processors.runs import RunsProcessor
from loopwarden.streams.settings import SettingsBook

Hook = Callable[[], Awaitable[None]]

log = get_logger("loopwarden.app")

#: Chunks that wait in a queue of Faust's at most; each holds up to some hundred records.
_CHUNKS_WAITING_MAX = 8

#: How often idle runs are looked for and gauges set, in seconds.
_HOUSEKEEPING_S = 5.0


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

    @property
    def is_ready(self) -> bool:
        """Whether every partition assigned to this worker is recovered and being read."""
        return bool(self.started and not self.should_stop and not self.rebalancing and self.tables.actives_ready)


def make_app(
    *,
    topics: TopicNames,
    partitions: int,
    book: SettingsBook,
    limits: Limits,
    metrics: Metrics,
    faust_options: dict[str, Any],
    producer_options: dict[str, Any],
) -> WatchApp:
    """Return an app that watches the events topic; ``faust_options`` hold id, broker, credentials and timeouts."""
    app = WatchApp(topics=topics, partitions=partitions, producer_options=producer_options, **faust_options)
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

    @app.timer(_HOUSEKEEPING_S)
    async def housekeeping() -> None:
        if not app.is_ready:
            return
        metrics.runs_held.set(processor.runs_held())
        lags = {tp.partition: app.consumer.lag(tp) for tp in app.consumer.assignment() if tp.topic == topics.events}
        metrics.show_lags(lags)
        for partition, lag in lags.items():
            await processor.free_idle(partition, caught_up=lag == 0)

    return app
