"""Plays a recording into the events topic, as the fleet that it was recorded from would have sent it."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
from aiokafka import AIOKafkaProducer

from loopwarden.streams.kafka_settings import KafkaSettings

#: The recorded fleet that comes with the project.
RECORDING = Path(__file__).parent / "fleet.jsonl.gz"

#: Events that are due sooner than this, in seconds, are sent at once: too soon for the eye.
_TICK_S = 0.02


class PlayedEvent(NamedTuple):
    """An event of a recording: its bytes, whose it is, when it happened; ``at_s`` is in seconds since the first one."""

    value: bytes
    session_id: str
    run_id: str | None
    time: str
    at_s: float

    def happening_now(self) -> bytes:
        """Return the event's bytes with the present time in place of the recorded one."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return self.value.replace(b'"time":"%b"' % self.time.encode(), b'"time":"%b"' % now.encode(), 1)


class _Named(msgspec.Struct):
    session_id: str
    time: str
    run_id: str | None = None


_decode = msgspec.json.Decoder(_Named).decode


def read_recording(path: Path = RECORDING) -> list[PlayedEvent]:
    """Return the events of a recording in the order in which they happened."""
    events = []
    with gzip.open(path) as lines:
        for line in lines:
            value = line.rstrip(b"\n")
            named = _decode(value)
            at_s = datetime.fromisoformat(named.time).timestamp()
            events.append(PlayedEvent(value, named.session_id, named.run_id, named.time, at_s))
    events.sort(key=lambda event: event.at_s)
    began_s = events[0].at_s if events else 0.0
    return [event._replace(at_s=event.at_s - began_s) for event in events]


async def play(
    kafka: KafkaSettings,
    topic: str,
    events: list[PlayedEvent],
    speed: float | None,
    on_played: Callable[[int], None] = lambda _count: None,
) -> None:
    """Send events, ``speed`` times as fast as they happened (None: as fast as it goes); return once all arrived."""
    producer = AIOKafkaProducer(**kafka.client_options(), linger_ms=5, acks="all")
    await producer.start()
    try:
        began_s = time.monotonic()
        sent = []
        for event in events:
            if speed is not None:
                ahead_s = event.at_s / speed - (time.monotonic() - began_s)
                if ahead_s > _TICK_S:
                    await asyncio.sleep(ahead_s)
            sent.append(await producer.send(topic, event.happening_now(), key=event.session_id.encode()))
            on_played(1)
        await asyncio.gather(*sent)
    finally:
        await producer.stop()
