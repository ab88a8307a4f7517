"""What the tests of the plumbing share: topics of one's own on a broker, counting workers, and what they stored."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

#: How long anything may take that a test waits for, in seconds.
DEADLINE_S = 40.0

_APP = Path(__file__).with_name("counting_app.py")


def wait_until(holds: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Wait until a condition holds; fails after the deadline."""
    until_s = time.monotonic() + deadline_s
    while not holds():
        if time.monotonic() > until_s:
            raise AssertionError(f"not within {deadline_s:.0f} s: {what}")
        time.sleep(0.05)


class Worker:
    """A process of the counting app; its lines and its log are in files."""

    def __init__(self, options: dict[str, Any], folder: Path, name: str) -> None:
        self._lines = folder / f"{name}.jsonl"
        self.log = folder / f"{name}.log"
        with self._lines.open("wb") as lines, self.log.open("wb") as log:
            command = [sys.executable, str(_APP), json.dumps(options)]
            self.process = subprocess.Popen(command, stdout=lines, stderr=log, cwd=folder)

    def told(self) -> list[dict[str, Any]]:
        """What the worker has told so far."""
        text = self._lines.read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def chunks(self) -> list[dict[str, Any]]:
        """The chunks that were processed to their end."""
        return [line for line in self.told() if "records" in line]

    def records(self) -> int:
        """How many records were processed, those that came again included."""
        return sum(chunk["records"] for chunk in self.chunks())

    def partitions(self) -> int | None:
        """How many partitions the worker reads, None while it is not ready."""
        for line in reversed(self.told()):
            if "ready" in line:
                return int(line["partitions"]) if line["ready"] else None
        return None

    def recovered(self) -> int:
        """How many rows were there after the last recovery."""
        counts = [line["recovered"] for line in self.told() if "recovered" in line]
        return sum(counts[-1].values()) if counts else 0

    def wait_ready(self, partitions: int) -> Worker:
        """Wait until the worker reads that many partitions."""
        wait_until(lambda: self.partitions() == partitions or self.process.poll() is not None, f"{self.log} ready")
        assert self.process.poll() is None, self.log.read_text()[-3000:]
        return self

    def kill(self) -> None:
        """End the process as a crash would."""
        self.process.kill()
        self.process.wait()

    def stop(self, deadline_s: float = 20.0) -> tuple[int, float]:
        """Ask the process to end; return its exit code and how many seconds that took."""
        begun_s = time.monotonic()
        self.process.terminate()
        return self.process.wait(deadline_s), time.monotonic() - begun_s


class Topics:
    """An events topic and a changelog of a test's own."""

    def __init__(self, bootstrap: str, folder: Path, session_s: float, partitions: int = 4, keys: int = 40) -> None:
        self.bootstrap = bootstrap
        self.session_s = session_s
        self.partitions = partitions
        self.prefix = f"p{uuid.uuid4().hex[:8]}."
        self.events = f"{self.prefix}events"
        self.changelog = f"{self.prefix}changelog"
        self.sent: dict[bytes, int] = {f"key-{number}".encode(): 0 for number in range(keys)}
        self.workers: list[Worker] = []
        self._folder = folder
        asyncio.run(self._create())

    async def _create(self) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(name, self.partitions, 1) for name in (self.events, self.changelog)])
        finally:
            await admin.close()

    def start_worker(self, **options: Any) -> Worker:
        """Start a counting worker."""
        fixed = {
            "bootstrap": self.bootstrap,
            "prefix": self.prefix,
            "partitions": self.partitions,
            "session_s": self.session_s,
        }
        worker = Worker(fixed | options, self._folder, f"worker-{len(self.workers)}")
        self.workers.append(worker)
        return worker

    def partition_of(self, key: bytes) -> int:
        """The partition that the records of a key go to."""
        return list(self.sent).index(key) % self.partitions

    def numbered(self, records: int) -> list[tuple[bytes, bytes]]:
        """The next records of all keys in turn, numbered within their keys."""
        keys = list(self.sent)
        numbered = []
        for index in range(records):
            key = keys[index % len(keys)]
            self.sent[key] += 1
            numbered.append((key, str(self.sent[key]).encode()))
        return numbered

    def send(self, records: int) -> None:
        """Send that many more records."""
        asyncio.run(self._send(self.numbered(records)))

    async def _send(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, linger_ms=5)
        await producer.start()
        try:
            waiting = [
                await producer.send(self.events, value, key=key, partition=self.partition_of(key))
                for key, value in records
            ]
            await asyncio.gather(*waiting)
        finally:
            await producer.stop()

    def rows(self) -> dict[bytes, dict[str, int]]:
        """The rows as the changelog has them, read to its end by fetching."""
        return asyncio.run(self._rows())

    async def _rows(self) -> dict[bytes, dict[str, int]]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=50
        )
        await consumer.start()
        rows: dict[bytes, dict[str, int]] = {}
        try:
            partitions = [TopicPartition(self.changelog, number) for number in range(self.partitions)]
            consumer.assign(partitions)
            await consumer.seek_to_beginning()
            while True:
                for held in (await consumer.getmany(timeout_ms=100)).values():
                    for record in held:
                        rows[record.key] = json.loads(record.value)
                ends = {partition: consumer.highwater(partition) for partition in partitions}
                if all([ends[partition] == await consumer.position(partition) for partition in partitions]):
                    return rows
        finally:
            await consumer.stop()

    def committed(self) -> dict[int, int | None]:
        """The committed offsets of the events topic."""
        return asyncio.run(self._committed())

    async def _committed(self) -> dict[int, int | None]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap, group_id=f"{self.prefix}group", enable_auto_commit=False
        )
        await consumer.start()
        try:
            return {
                number: await consumer.committed(TopicPartition(self.events, number))
                for number in range(self.partitions)
            }
        finally:
            await consumer.stop()

    def counts(self) -> dict[bytes, int]:
        """How many records of each key are in the stored rows."""
        return {key: row["count"] for key, row in self.rows().items()}

    def wait_counted(self, deadline_s: float = DEADLINE_S) -> None:
        """Wait until the stored rows hold every record sent, and check that each came once and in order."""
        expected = {key: count for key, count in self.sent.items() if count}
        wait_until(lambda: self.counts() == expected, "everything is counted", deadline_s)
        assert {key: row["astray"] for key, row in self.rows().items()} == dict.fromkeys(expected, 0)

    def came_again(self) -> int:
        """How many records were delivered again and skipped."""
        return sum(row["again"] for row in self.rows().values())

    def stop(self) -> None:
        """End all workers."""
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.kill()
