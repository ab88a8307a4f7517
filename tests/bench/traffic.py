"""Both ends of a steady load, each run as a process of its own so that neither delays the other: sender and reader.

The sender sends when an event is due, not when the one before it is done, and tells when each was due: whatever holds
it up counts as latency. The reader tells when it had each verdict. Both clocks are the kernel's monotonic one.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import time
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from rig import partition_of

from loopwarden.deploy.demo.player import read_recording
from loopwarden.schemas.verdicts import Verdict

#: Events that are due within this time go out together, in seconds: what clients call linger.
LINGER_S = 0.002

_FETCH_WAIT_MS = 5

#: One event in so many belongs to a generated loop; the recorded fleet by itself brings a verdict in 420 events.
_LOOP_EVERY = 10
_LOOPS_AT_ONCE = 40
_CALLS_PER_LOOP = 60

_TIME = '"time":"2026-12-01T13:34:05.365Z"'


def endless_load(mark: str) -> Iterator[tuple[str, bytes]]:
    """Yield the recorded fleet over and over, each time under other names, with generated loops mixed in."""
    recording = read_recording()
    loops = _loops(mark)
    copy = count = 0
    while True:
        suffix = f"-{mark}-{copy}"
        for played in recording:
            if count % _LOOP_EVERY == 0:
                yield next(loops)
                count += 1
            named = b'"session_id":"%b' % played.session_id.encode()
            yield played.session_id + suffix, played.value.replace(named, named + suffix.encode(), 1)
            count += 1
        copy += 1


def _loops(mark: str) -> Iterator[tuple[str, bytes]]:
    """Yield the events of runs that make one call again and again, with one result, a few dozen such runs at a time."""
    loops = [_one_after_the_other(f"loop-{mark}-{slot}", slot) for slot in range(_LOOPS_AT_ONCE)]
    while True:
        for loop in loops:
            yield next(loop)


def _one_after_the_other(name: str, slot: int) -> Iterator[tuple[str, bytes]]:
    run = 0
    # The first run of each slot is of another length, so that verdicts are spread evenly.
    calls = _CALLS_PER_LOOP * (slot + 1) // _LOOPS_AT_ONCE
    while True:
        session = f"{name}-{run}"
        for call in range(calls):
            for kind, rest in (("tool_call", ""), ("tool_result", ',"result":"no such file"')):
                yield (
                    session,
                    f'{{"type":"{kind}","session_id":"{session}","run_id":"run-1","agent_id":"coder",'
                    f'"runner_id":"runner-1","event_id":"{kind}/{call}",{_TIME},"tool_name":"read",'
                    f'"tool_call_id":"call-{call}","args":{{"path":"{session}/plan.md"}}{rest}}}'.encode(),
                )
        run += 1
        calls = _CALLS_PER_LOOP


class Sent(NamedTuple):
    """What the sender tells: by partition the number of each event in the order of its offsets, from offset 0 on."""

    began_s: float
    rate: float
    numbers: dict[int, array[int]]
    behind_s: array[float]

    def due_s(self, partition: int, offset: int) -> float:
        """Return when the event at an offset was due."""
        return self.began_s + self.numbers[partition][offset] / self.rate


class _Sender:
    """Sends to each partition what is due there, one batch in flight at a time, as an idempotent client would."""

    def __init__(self, producer: AIOKafkaProducer, topic: str, partitions: int) -> None:
        self._producer = producer
        self._topic = topic
        self.waiting: list[list[tuple[int, bytes, bytes]]] = [[] for _ in range(partitions)]
        self.numbers = [array("q") for _ in range(partitions)]
        self.is_due = [asyncio.Event() for _ in range(partitions)]

    async def serve(self, partition: int) -> None:
        """Send what is waiting for a partition, for as long as the load goes on."""
        while True:
            await self.is_due[partition].wait()
            self.is_due[partition].clear()
            while self.waiting[partition]:
                await self._send(partition)

    async def _send(self, partition: int) -> None:
        events, self.waiting[partition] = self.waiting[partition], []
        batch = self._producer.create_batch()
        taken = 0
        for _number, key, value in events:
            if batch.append(key=key, value=value, timestamp=None) is None:
                self.waiting[partition] = events[taken:] + self.waiting[partition]
                break
            taken += 1
        acknowledged = await (await self._producer.send_batch(batch, self._topic, partition=partition))
        held = self.numbers[partition]
        assert acknowledged.offset == len(held), "somebody else writes to this topic"
        held.extend([number for number, _key, _value in events[:taken]])


async def send(bootstrap: str, topic: str, partitions: int, mark: str, rate: float, events: int) -> Sent:
    """Send so many events at a steady rate."""
    load = endless_load(mark)
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", max_batch_size=900_000)
    await producer.start()
    sender = _Sender(producer, topic, partitions)
    tasks = [asyncio.create_task(sender.serve(partition)) for partition in range(partitions)]
    behind_s = array("d")
    gc.collect()
    gc.disable()  # the sender's own pauses are not what is measured
    began_s = time.monotonic()
    sent = 0
    while sent < events:
        now_s = time.monotonic()
        due = min(events, int((now_s - began_s) * rate) + 1)
        if due > sent:
            behind_s.append(now_s - began_s - sent / rate)
        for number in range(sent, due):
            session, value = next(load)
            partition = partition_of(session)
            sender.waiting[partition].append((number, session.encode(), value))
            sender.is_due[partition].set()
        sent = max(sent, due)
        await asyncio.sleep(LINGER_S)
    while sum(len(numbers) for numbers in sender.numbers) < events:
        for task in tasks:
            if task.done():
                task.result()
        await asyncio.sleep(LINGER_S)
    for task in tasks:
        task.cancel()
    await producer.stop()
    return Sent(began_s, rate, dict(enumerate(sender.numbers)), behind_s)


async def read(bootstrap: str, topic: str, partitions: int, ready: Path) -> list[tuple[int, int, float]]:
    """Read verdicts until SIGTERM; return partition and offset of what caused each, and when it was there."""
    until = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, until.set)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        # While aiokafka waits for records of some partitions, it does not ask for those of the one it has just read.
        fetch_max_wait_ms=_FETCH_WAIT_MS,
    )
    await consumer.start()
    consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
    decode = msgspec.json.Decoder(Verdict).decode
    seen: list[tuple[int, int, float]] = []
    gc.collect()
    gc.disable()
    ready.touch()  # noqa: ASYNC240 - once, before anything is measured
    while not until.is_set():
        fetched = await consumer.getmany(timeout_ms=200)
        now_s = time.monotonic()
        for records in fetched.values():
            for record in records:
                evidence = decode(record.value).evidence
                seen.append((evidence.partition, evidence.last_offset, now_s))
    await consumer.stop()
    return seen


def save_sent(sent: Sent, file: Path) -> None:
    """Write what the sender tells."""
    numbers = {partition: held.tobytes() for partition, held in sent.numbers.items()}
    file.write_bytes(msgspec.msgpack.encode((sent.began_s, sent.rate, numbers, sent.behind_s.tobytes())))


def load_sent(file: Path) -> Sent:
    """Read it back."""
    kind = tuple[float, float, dict[int, bytes], bytes]
    began_s, rate, numbers, behind_s = msgspec.msgpack.decode(file.read_bytes(), type=kind)
    return Sent(began_s, rate, {at: array("q", held) for at, held in numbers.items()}, array("d", behind_s))


def load_seen(file: Path) -> list[tuple[int, int, float]]:
    """Read back what the reader tells."""
    return msgspec.msgpack.decode(file.read_bytes(), type=list[tuple[int, int, float]])


if __name__ == "__main__":
    role, bootstrap_servers, topic_name, partition_count, path, *rest = sys.argv[1:]
    result = Path(path)
    # Whoever waits for the file must find all of it.
    part = result.with_suffix(".part")
    if role == "send":
        told = asyncio.run(
            send(bootstrap_servers, topic_name, int(partition_count), rest[0], float(rest[1]), int(rest[2]))
        )
        save_sent(told, part)
    else:
        found = asyncio.run(read(bootstrap_servers, topic_name, int(partition_count), result.with_suffix(".ready")))
        part.write_bytes(msgspec.msgpack.encode(found))
    part.rename(result)
