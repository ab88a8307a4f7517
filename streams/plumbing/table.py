"""The table of runs: a Faust table whose rows and changelog are written a batch at a time.

Rows are kept per partition, so that what moves to another worker is dropped as a whole. Faust sees to it that a
partition's changelog has been read before its events are delivered; it hands over the changelog in chunks too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import faust
from faust.types import TP

from loopwarden.streams.plumbing.chunks import Chunk, ChunkSchema
from loopwarden.streams.plumbing.logs import get_logger
from loopwarden.streams.plumbing.producer import BatchProducer, Outgoing

log = get_logger("loopwarden.table")

#: Key of the records that only mark the end of a changelog; no run has it, since run keys are JSON arrays.
END_MARK = b"end"

#: Chunks of the changelog that are held before they are applied; 1 has a meaning of its own in Faust's recovery.
_RECOVERY_CHUNKS = 16


class RunTable(faust.Table):
    """Rows (bytes) by key (bytes), for each partition that this worker holds."""

    def __init__(self, app: Any, *, name: str, partitions: int, producer: BatchProducer, changelog: str) -> None:
        topic = app.topic(changelog, schema=ChunkSchema(), partitions=partitions, internal=False)
        super().__init__(
            app,
            name=name,
            partitions=partitions,
            key_type=bytes,
            value_type=bytes,
            changelog_topic=topic,
            recovery_buffer_size=_RECOVERY_CHUNKS,
        )
        self._rows: dict[int, dict[bytes, bytes]] = {}
        self._producer = producer
        self._changelog = changelog

    def rows_of(self, partition: int) -> Mapping[bytes, bytes]:
        """Return all rows of a partition."""
        return self._rows.setdefault(partition, {})

    async def write(self, partition: int, rows: Mapping[bytes, bytes | None]) -> None:
        """Append rows to the changelog (None removes one), and apply them once the broker has them."""
        if not rows:
            return
        records = [Outgoing(key, row) for key, row in rows.items()]
        offset = await self._producer.send(self._changelog, partition, records)
        self._apply(partition, rows.items())
        # Faust reads a changelog from where it last saw it after every rebalance; what we wrote we need not read.
        tp = TP(self._changelog, partition)
        offsets = self.app.tables.recovery.active_offsets
        if offsets.get(tp) is not None and offset > offsets[tp]:
            offsets[tp] = offset

    def _apply(self, partition: int, rows: Iterable[tuple[bytes, bytes | None]]) -> None:
        held = self._rows.setdefault(partition, {})
        for key, row in rows:
            if row is None:
                held.pop(key, None)
            else:
                held[key] = row

    async def mark_ends(self, partitions: Iterable[TP]) -> None:
        """Append a mark to changelog partitions, so that their ends can be asked for.

        The embedded broker answers a request for the end with the last batch's first offset plus one; behind a batch
        of one record that is the end. Any other broker is right without it, and loses nothing by it.
        """
        for tp in partitions:
            if tp.topic == self._changelog:
                await self._producer.send(tp.topic, tp.partition, [Outgoing(END_MARK, None)])

    def apply_changelog_batch(self, batch: Iterable[Any]) -> None:
        """Apply chunks of changelog records, as recovery hands them over."""
        for event in batch:
            chunk = event.value
            if isinstance(chunk, Chunk):
                self._apply(chunk.partition, ((record.key, record.value) for record in chunk.records))

    def persisted_offset(self, tp: TP) -> int | None:
        """Return None: rows are held in memory, and read anew by whoever takes over a partition."""
        return None

    async def on_rebalance(
        self, assigned: set[TP], revoked: set[TP], newly_assigned: set[TP], generation_id: int = 0
    ) -> None:
        """Drop the rows of partitions that went to other workers."""
        held = {tp.partition for tp in self.app.assignor.assigned_actives() if tp.topic == self._changelog}
        for partition in set(self._rows) - held:
            del self._rows[partition]

    async def on_recovery_completed(self, active_tps: set[TP], standby_tps: set[TP]) -> None:
        """Call back whoever waits for recovered rows."""
        await self.call_recover_callbacks()
