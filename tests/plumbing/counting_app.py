"""A worker whose processor counts records by key, to see what the plumbing delivers, stores, recovers and commits.

A record's value is its number among the records of its key. A row holds how many records of a key were folded in, the
offset of the last one, how many came with a number that was not the next, and how many came again.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from functools import partial
from typing import Any

import faust

from loopwarden.streams.plumbing.chunks import Chunk, ChunkSchema
from loopwarden.streams.plumbing.logs import configure_logs
from loopwarden.streams.plumbing.producer import BatchProducer
from loopwarden.streams.plumbing.table import RunTable
from loopwarden.streams.plumbing.transport import ChunkTransport


def say(**fields: Any) -> None:
    """Tell the test something, as a line of JSON."""
    print(json.dumps(fields), flush=True)


class CountingApp(faust.App):
    """The least app that the plumbing needs."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.settings_of_test = options
        prefix, partitions = options["prefix"], options["partitions"]
        self.events_name = f"{prefix}events"
        changelog = f"{prefix}changelog"
        self.chunked_topics = frozenset({self.events_name, changelog})
        session_s = options["session_s"]
        super().__init__(
            f"{prefix}group",
            broker=f"aiokafka://{options['bootstrap']}",
            autodiscover=False,
            store="memory://",
            topic_partitions=partitions,
            topic_allow_declare=False,
            topic_disable_leader=True,
            consumer_auto_offset_reset="earliest",
            stream_buffer_maxsize=options.get("queue", 8),
            stream_wait_empty=True,
            consumer_max_fetch_size=options.get("fetch_bytes", 2**20),
            table_standby_replicas=0,
            web_enabled=False,
            broker_session_timeout=session_s,
            broker_heartbeat_interval=session_s / 5,
            broker_rebalance_timeout=10.0,
            broker_commit_interval=options.get("commit_interval_s", 0.5),
        )
        self.batch_producer = BatchProducer({"bootstrap_servers": options["bootstrap"]})
        self.table = RunTable(
            self, name="counts", partitions=partitions, producer=self.batch_producer, changelog=changelog
        )
        self.tables.add(self.table)

    def _new_transport(self) -> Any:
        return ChunkTransport(self.conf.broker_consumer, self)

    async def on_start(self) -> None:
        await self.batch_producer.start()
        await super().on_start()

    async def on_shutdown(self) -> None:
        await super().on_shutdown()
        await self.batch_producer.stop()


class Counter:
    """Folds chunks of records into rows."""

    def __init__(self, app: CountingApp) -> None:
        self._app = app
        self._options = app.settings_of_test
        self._given_up = 0

    async def process(self, chunk: Chunk, is_current: Any) -> bool:
        """Fold a chunk and store its rows; return False where it is not to be acknowledged."""
        if not is_current():
            say(refused=chunk.partition)
            return False
        rows = self._fold(chunk)
        await asyncio.sleep(self._options.get("delay_s", 0))
        if chunk.partition == self._options.get("give_up_on") and self._given_up < 3:
            self._given_up += 1
            return False
        if self._options.get("fail_at") in range(chunk.first_offset, chunk.last_offset + 1):
            raise RuntimeError("told to fail")
        if not is_current():
            say(refused=chunk.partition)
            return False
        await self._app.table.write(chunk.partition, rows)
        say(
            partition=chunk.partition,
            first=chunk.first_offset,
            last=chunk.last_offset,
            records=len(chunk.records),
            at_s=time.monotonic(),
        )
        return True

    def _fold(self, chunk: Chunk) -> dict[bytes, bytes | None]:
        stored = self._app.table.rows_of(chunk.partition)
        rows: dict[bytes, dict[str, int]] = {}
        for record in chunk.records:
            row = rows.get(record.key)
            if row is None:
                held = stored.get(record.key)
                row = json.loads(held) if held else {"count": 0, "last": -1, "astray": 0, "again": 0}
                rows[record.key] = row
            if record.offset <= row["last"]:
                row["again"] += 1
                continue
            row["astray"] += int(record.value) != row["count"] + 1
            row["count"] += 1
            row["last"] = record.offset
        return {key: json.dumps(row).encode() for key, row in rows.items()}


def make_app(options: dict[str, Any]) -> CountingApp:
    """Return the app for a test's options."""
    app = CountingApp(options)
    counter = Counter(app)
    events = app.topic(app.events_name, schema=ChunkSchema(), partitions=options["partitions"], internal=False)

    async def count(stream: Any) -> None:
        async for event in stream.events():
            message = event.message
            try:
                done = await counter.process(event.value, partial(app.consumer.is_current, message))
            except Exception as error:
                say(failed=str(error))
                await app.crash(error)
                await app.wait_until_stopped()
                return
            if not done:
                message.generation_id = None

    app.agent(events, name="count")(count)

    @app.table.on_recover
    async def tell() -> None:
        held = {tp.partition for tp in app.assignor.assigned_actives() if tp.topic == app.events_name}
        say(recovered={partition: len(app.table.rows_of(partition)) for partition in held})

    told: list[tuple[bool, int]] = []

    @app.timer(0.05)
    async def tell_ready() -> None:
        now = (not app.rebalancing and app.tables.actives_ready, len(app.consumer.assignment()) // 2)
        if told[-1:] != [now]:  # a rebalance may come and go between two looks
            told.append(now)
            say(ready=now[0], partitions=now[1])

    return app


def main() -> None:
    """Run a worker with the options given as JSON."""
    configure_logs("text", os.environ.get("LOG_LEVEL", "info"))
    app = make_app(json.loads(sys.argv[1]))
    worker = faust.Worker(app, loglevel=None, override_logging=False, redirect_stdouts=False, quiet=True)
    worker.spinner = None
    worker.execute_from_commandline()


if __name__ == "__main__":
    main()
