"""Where chaos happens: topics full of a fleet's events, workers that are mistreated, and a judge who compares.

What must come out is what the pure core makes of the events topic, read back in the order of its partitions.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import tempfile
import threading
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from aiokafka import AIOKafkaProducer
from broker_tools import Stream, expect, latest, wait_until
from load import Load

from loopwarden.deploy.demo.stack import SESSION_TIMEOUT_S, WorkerProcess, make_topics
from loopwarden.deploy.processes import ProcessFailed
from loopwarden.schemas.configuration import TopicsConfig
from loopwarden.schemas.verdicts import Verdict
from loopwarden.streams.settings import resolve

PARTITIONS = 12

#: How long the workers may need for what is left once a scenario is over, in seconds.
DRAIN_DEADLINE_S = 300.0

_TICK_S = 0.02

_BOOK = resolve({"enabled": True}, {})[0]
_decode = msgspec.json.Decoder(Verdict).decode


class Judgement(NamedTuple):
    """How a scenario ended: numbers of events and of verdicts, by what became of them."""

    events: int
    expected: int
    missing: int
    wrong: int
    duplicates: int
    states_wrong: int

    @property
    def is_right(self) -> bool:
        """Whether nothing is missing, nothing wrong, and all states as a rebuild has them; duplicates are allowed."""
        return not (self.missing or self.wrong or self.states_wrong)


class Arena:
    """Topics of their own on a cluster, with workers that a supervisor would start again."""

    def __init__(self, bootstrap: str, *, replicas: int = 1, seed: int = 0) -> None:
        unique = uuid.uuid4().hex[:8]
        topics = TopicsConfig(
            prefix=f"c{unique}.",
            partitions=PARTITIONS,
            replication_factor=replicas,
            min_insync_replicas=min(2, replicas),
        )
        make_topics(bootstrap, topics, f"c{unique}")
        self.stream = Stream(bootstrap, topics, f"c{unique}", idempotent=True)
        self.pick = random.Random(seed)
        self.workers: list[WorkerProcess] = []
        self.sent = 0
        self._folder = tempfile.TemporaryDirectory(prefix="loopwarden-chaos-")
        self._config = Path(self._folder.name) / "worker.json5"
        content = {"tools": {"loopDetection": {"enabled": True}}, "worker": {"logLevel": "warning"}}
        self._config.write_text(json.dumps(content))
        self._feeder: threading.Thread | None = None
        self._stop_feeding = threading.Event()
        self._feeder_failed: Exception | None = None

    # Workers

    def start_worker(self, *, ready: bool = True) -> WorkerProcess:
        """Start one more worker; without ``ready``, do not wait for it."""
        worker = WorkerProcess(self.stream.bootstrap, self.stream.topics, config=self._config, group=self.stream.group)
        self.workers.append(worker)
        if ready:
            worker.start()
        else:
            worker.process.start(lambda: True, 10)
        return worker

    def kill(self, worker: WorkerProcess) -> None:
        """SIGKILL."""
        worker.process.kill()
        worker.process.stop()
        self.workers.remove(worker)

    def stop(self, worker: WorkerProcess) -> float:
        """SIGTERM; return the seconds it took to end in good order."""
        began_s = time.monotonic()
        code = worker.stop()
        self.workers.remove(worker)
        if code != 0:
            raise ProcessFailed(f"a worker that was asked to stop ended with code {code}")
        return time.monotonic() - began_s

    def freeze(self, worker: WorkerProcess, seconds: float) -> None:
        """SIGSTOP for some time, then SIGCONT."""
        assert worker.process.pid is not None
        os.kill(worker.process.pid, signal.SIGSTOP)
        time.sleep(seconds)  # the length of the fault itself
        os.kill(worker.process.pid, signal.SIGCONT)

    def supervise(self) -> int:
        """Start again what has ended by itself, as a supervisor would; return how many that were."""
        ended = 0
        for worker in list(self.workers):
            try:
                worker.process.check_alive()
            except ProcessFailed:
                worker.process.stop()
                self.workers.remove(worker)
                self.start_worker(ready=False)
                ended += 1
        return ended

    # Load

    def feed(self, load: Load, per_second: int) -> None:
        """Begin to send events in the background, in their order, at a steady rate."""
        self._stop_feeding.clear()
        self._feeder = threading.Thread(target=self._feed, args=(load.events, per_second), daemon=True)
        self._feeder.start()

    def _feed(self, events: list[tuple[str, bytes]], per_second: int) -> None:
        try:
            asyncio.run(self._send_steadily(events, per_second))
        except Exception as error:
            self._feeder_failed = error

    async def _send_steadily(self, events: list[tuple[str, bytes]], per_second: int) -> None:
        """Send with one producer, which outlasts a broker's restart and repeats nothing."""
        producer = AIOKafkaProducer(
            bootstrap_servers=self.stream.bootstrap,
            linger_ms=5,
            acks="all",
            enable_idempotence=True,
            request_timeout_ms=int(DRAIN_DEADLINE_S * 1000),
        )
        await producer.start()
        try:
            began_s = time.monotonic()
            waiting = []
            for at, (session, value) in enumerate(events):
                ahead_s = at / per_second - (time.monotonic() - began_s)
                if ahead_s > _TICK_S and not self._stop_feeding.is_set():
                    await asyncio.sleep(ahead_s)
                waiting.append(await producer.send(self.stream.names.events, value, key=session.encode()))
            await asyncio.gather(*waiting)
            self.sent += len(events)
        finally:
            await producer.stop()

    def finish_feeding(self) -> None:
        """Send what is left as fast as it goes, and return when all of it is there."""
        self._stop_feeding.set()
        if self._feeder is not None:
            self._feeder.join()
        if self._feeder_failed is not None:
            raise self._feeder_failed

    def send_extra(self, records: list[tuple[str | None, bytes | None]] | list[tuple[str, bytes]]) -> None:
        """Send records beside the load."""
        self.stream.send(list(records))
        self.sent += len(records)

    # Judgement

    def drain(self) -> None:
        """Wait until every event is folded and stored: the group's commits and the lag say so."""

        def all_done() -> bool:
            self.supervise()
            ready = [worker for worker in self.workers if worker.is_ready()]
            if not ready or len(ready) < len(self.workers):
                return False
            return all(worker.metric("loopwarden_consumer_lag") == 0 for worker in ready)

        wait_until(all_done, "every event is folded", DRAIN_DEADLINE_S)

    def judge(self) -> Judgement:
        """Compare verdicts and states with what must follow from the events."""
        self.finish_feeding()
        expected = expect(self.stream, self.sent, _BOOK)
        self.drain()
        records = self._read_until_whole(set(expected.verdicts))
        verdicts = [_decode(record.value) for record in records]
        counts = Counter(verdict.verdict_id for verdict in verdicts)
        wrong = {verdict.verdict_id for verdict in verdicts if expected.verdicts.get(verdict.verdict_id) != verdict}
        rows = self._rows_until(expected.rows)
        return Judgement(
            events=self.sent,
            expected=len(expected.verdicts),
            missing=len(set(expected.verdicts) - set(counts)),
            wrong=len(wrong),
            duplicates=sum(count - 1 for count in counts.values()),
            states_wrong=sum(rows.get(key) != row for key, row in expected.rows.items())
            + len(set(rows) - set(expected.rows)),
        )

    def _read_until_whole(self, ids: set[str]) -> list[Any]:
        """Return all verdict records: until every expected one is there, or none has come for long."""
        seen: list[int] = []

        def enough(records: list[Any]) -> bool:
            seen.append(len(records))
            found = {msgspec.json.decode(record.value)["verdict_id"] for record in records} if records else set()
            quiet = len(seen) > 25 and seen[-25] == seen[-1]
            return (ids <= found and len(seen) > 10 and seen[-10] == seen[-1]) or quiet

        return self.stream.read(self.stream.names.verdicts, enough, DRAIN_DEADLINE_S)

    def _rows_until(self, expected: dict[bytes, bytes]) -> dict[bytes, bytes]:
        """Return the newest rows: once they are as expected, or no more come."""
        seen: list[int] = []

        def enough(records: list[Any]) -> bool:
            seen.append(len(records))
            quiet = len(seen) > 25 and seen[-25] == seen[-1]
            return quiet or (len(seen) % 5 == 0 and latest(records) == expected)

        return latest(self.stream.read(self.stream.names.runs_changelog, enough, DRAIN_DEADLINE_S))

    def close(self) -> None:
        """End all workers."""
        self._stop_feeding.set()
        for worker in self.workers:
            worker.process.kill()
            worker.process.stop()
        self._folder.cleanup()


#: Longer than the group waits for a worker's sign of life, in seconds.
BEYOND_SESSION_S = SESSION_TIMEOUT_S + 3.0
