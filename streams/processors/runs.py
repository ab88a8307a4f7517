"""The processor of events: folds each chunk into its runs, publishes what that leads to, stores the runs.

The order within a chunk is what makes a crash harmless: verdicts and signals first, then the rows, then the commit of
the offset, each acknowledged before the next. A crash between two of them repeats work under the same ids, and the
offset in each row keeps an event from being counted twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from aiokafka.errors import KafkaError

from loopwarden.schemas.topics import TopicNames
from loopwarden.streams.partition import Limits, Outcome, PartitionRuns
from loopwarden.streams.plumbing.chunks import Chunk
from loopwarden.streams.plumbing.logs import get_logger
from loopwarden.streams.plumbing.metrics import Metrics
from loopwarden.streams.plumbing.outgoing import dead_letter_record, signal_record, verdict_record
from loopwarden.streams.plumbing.producer import BatchProducer
from loopwarden.streams.plumbing.table import RunTable
from loopwarden.streams.settings import SettingsBook

log = get_logger("loopwarden.runs")


class RunsProcessor:
    """Holds the runs of this worker's partitions and folds chunks of events into them."""

    def __init__(
        self,
        topics: TopicNames,
        table: RunTable,
        producer: BatchProducer,
        metrics: Metrics,
        book: SettingsBook,
        limits: Limits,
    ) -> None:
        self._topics = topics
        self._table = table
        self._producer = producer
        self._metrics = metrics
        self._book = book
        self._limits = limits
        self._partitions: dict[int, PartitionRuns] = {}
        # Chunks and the freeing of idle runs write the same rows.
        self._writing = asyncio.Lock()

    def runs_of(self, partition: int) -> PartitionRuns:
        """Return the runs of a partition, taken over from the table where nothing is held yet."""
        runs = self._partitions.get(partition)
        if runs is None:
            rows = self._table.rows_of(partition)
            runs = PartitionRuns(self._topics.events, partition, self._book, self._limits, rows.get)
            unreadable = runs.restore(rows.items(), _now_ms())
            if unreadable:
                log.warning(
                    "stored runs cannot be read; rebuilding them from the events", partition=partition, runs=unreadable
                )
            self._partitions[partition] = runs
        return runs

    def take_over(self, partition: int) -> bool:
        """Take over a recovered partition; return False where its events are to be read again from the beginning."""
        self.forget(partition)
        return not self.runs_of(partition).has_unreadable

    def forget(self, partition: int | None = None) -> None:
        """Drop what is held of a partition (or of all) beside the table, to be taken over from there again."""
        if partition is None:
            self._partitions.clear()
        else:
            self._partitions.pop(partition, None)

    async def process(self, chunk: Chunk, is_current: Callable[[], bool]) -> bool:
        """Fold a chunk, publish, store; return False where the partition was lost before the rows were written.

        While the broker takes nothing this waits and tries again. Raises what the client raises where that does not
        help; the chunk must then not be acknowledged.
        """
        async with self._writing:
            if not is_current():
                return False
            started_s = time.perf_counter()
            runs = self.runs_of(chunk.partition)
            outcome = runs.fold(chunk.records, _now_ms())
            try:
                publish = partial(self._publish, chunk, outcome)
                store = partial(self._table.write, chunk.partition, outcome.rows)
                # Before each try is asked whether the partition is still held: whoever holds it now folds these events
                # too, and rows written here would be stale.
                taken = await self._producer.insist(publish, is_current)
                if not (taken and await self._producer.insist(store, is_current)):
                    self.forget(chunk.partition)
                    return False
            except BaseException:
                self.forget(chunk.partition)  # what is held is ahead of what is stored
                raise
            self._metrics.count(outcome, runs.engine.counts, time.time())
            runs.engine.counts.clear()
            self._metrics.batch.observe(time.perf_counter() - started_s)
        self._report(outcome)
        return True

    async def _publish(self, chunk: Chunk, outcome: Outcome) -> None:
        partition = chunk.partition
        sends = []
        if outcome.verdicts:
            verdicts = [verdict_record(verdict) for verdict, _time in outcome.verdicts]
            sends.append(self._producer.send(self._topics.verdicts, partition, verdicts))
        if outcome.signals:
            signals = [signal_record(signal) for signal, _time in outcome.signals]
            sends.append(self._producer.send(self._topics.signals, partition, signals))
        if outcome.refused:
            records = {record.offset: record for record in chunk.records}
            letters = [dead_letter_record(chunk, records[offset], refusal) for offset, refusal in outcome.refused]
            sends.append(self._producer.send(self._topics.dead_letters, partition, letters))
        if sends:
            await asyncio.gather(*sends)

    async def free_idle(self, partition: int, caught_up: bool) -> None:
        """Free the runs of a quiet partition that are due; a busy one sees to that with each chunk."""
        async with self._writing:
            runs = self.runs_of(partition)
            if caught_up:
                # Nothing older is still to come, so the clock may stand in for the watermark.
                runs.watermark_ms = max(runs.watermark_ms, _now_ms())
            freed = runs.free_due(runs.watermark_ms)
            if caught_up:
                freed |= runs.give_up_unreadable()
            if not freed:
                return
            try:
                await self._table.write(partition, dict(freed))
            except BaseException as error:
                self.forget(partition)
                if isinstance(error, KafkaError) and error.retriable:
                    log.warning("idle runs could not be freed; they will be", error=repr(error))
                    return
                raise
            self._metrics.runs_freed.inc(len(freed))

    def runs_held(self) -> int:
        """Return how many runs this worker holds."""
        return sum(len(runs) for runs in self._partitions.values())

    def _report(self, outcome: Outcome) -> None:
        for run, attempts in outcome.armed:
            message = f"post-compaction guard armed for {attempts} attempts"
            log.info(message, session_id=run.session_id, run_id=run.run_id)
        for verdict, _time in outcome.verdicts:
            write: Any = log.error if verdict.level == "critical" else log.warning
            write(
                "loop detected",
                session_id=verdict.session_id,
                run_id=verdict.run_id,
                detector=verdict.detector,
                level=verdict.level,
                count=verdict.count,
                tool_name=verdict.tool_name,
                action=verdict.action,
                verdict_id=verdict.verdict_id,
            )
        for signal, _time in outcome.signals:
            log.warning(
                "signal sent",
                session_id=signal.session_id,
                run_id=signal.run_id,
                action=signal.action,
                reason=signal.reason,
                signal_id=signal.signal_id,
            )


def _now_ms() -> int:
    return int(time.time() * 1000)
