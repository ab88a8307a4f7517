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

#: Chunks of the changelog that are held before they are applied; 1 has a meaning of its own in Faust's recovery.
_RECOVERY_CHUNKS = 16

_NO_ROWS: Mapping[bytes, bytes] = {}


class _PartitionRows:
    """The rows of a partition, and the offset of the last changelog record that is in them (-1: none is)."""

    __slots__ = ("offset", "rows")

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.offset = -1

    def apply(self, rows: Iterable[tuple[bytes, bytes | None]], last_offset: int) -> None:
        """Set rows, remove those that are None."""
        held = self.rows
        for key, row in rows:
            if row is None:
                held.pop(key, None)
            else:
                held[key] = row
        self.offset = max(self.offset, last_offset)


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
        # One for each partition held, from its assignment to its revocation.
        self._partitions: dict[int, _PartitionRows] = {}
        self._producer = producer
        self._changelog = changelog

    def rows_of(self, partition: int) -> Mapping[bytes, bytes]:
        """Return all rows of a partition; none where it is not held."""
        held = self._partitions.get(partition)
        return _NO_ROWS if held is None else held.rows

    async def write(self, partition: int, rows: Mapping[bytes, bytes | None]) -> None:
        """Append rows to the changelog (None removes one), and apply them once the broker has them.

        Raises what aiokafka raises when the broker does not take them; nothing is applied then.
        """
        if not rows:
            return
        held = self._partitions.get(partition)
        offset = await self._producer.send(
            self._changelog, partition, [Outgoing(key, row) for key, row in rows.items()]
        )
        if held is not None and held is self._partitions.get(partition):
            held.apply(rows.items(), offset)
        # Otherwise the partition was lost meanwhile: rows of a few runs must not pass for all rows when it comes back.

    def apply_changelog_batch(self, batch: Iterable[Any]) -> None:
        """Apply chunks of changelog records, as recovery hands them over.

        Recovery may still hold chunks from before a rebalance, of partitions that are gone or began anew (see the
        remark in ``Recovery._slurp_changelogs``).
        """
        generation = self.app.consumer_generation_id
        for event in batch:
            chunk = event.value
            held = self._partitions.get(chunk.partition) if isinstance(chunk, Chunk) else None
            if held is not None and event.message.generation_id == generation:
                held.apply(((record.key, record.value) for record in chunk.records), chunk.last_offset)

    def persisted_offset(self, tp: TP) -> int:
        """Return the offset of the last changelog record in the rows of a partition, -1 where there is none.

        Recovery asks with each assignment where to go on. Told None, it would go on from what it remembers, which
        after two rebalances in quick succession may be ahead of rows that were dropped.
        """
        held = self._partitions.get(tp.partition)
        return -1 if held is None else held.offset

    async def on_rebalance(
        self, assigned: set[TP], revoked: set[TP], newly_assigned: set[TP], generation_id: int = 0
    ) -> None:
        """Drop the rows of partitions that went to other workers, and begin those that came."""
        holds = {tp.partition for tp in self.app.assignor.assigned_actives() if tp.topic == self._changelog}
        for partition in self._partitions.keys() - holds:
            del self._partitions[partition]
        for partition in holds - self._partitions.keys():
            self._partitions[partition] = _PartitionRows()

    async def on_recovery_completed(self, active_tps: set[TP], standby_tps: set[TP]) -> None:
        """Call back whoever waits for recovered rows."""
        await self.call_recover_callbacks()
