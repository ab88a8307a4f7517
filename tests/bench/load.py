"""What benchmarks are fed with: the recorded fleet over and over, each time under other names, interleaved."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import NamedTuple

import msgspec

from loopwarden.deploy.demo.player import read_recording


class BenchRecord(NamedTuple):
    """An event as the core takes it."""

    value: bytes
    offset: int
    timestamp: int
    headers: tuple[tuple[str, bytes], ...] = ()


class _Named(msgspec.Struct, frozen=True):
    session_id: str
    run_id: str | None = None


class Load(NamedTuple):
    """Events with their sessions, in the order in which they are sent."""

    events: list[tuple[str, bytes]]

    @property
    def runs(self) -> int:
        """How many runs the events belong to."""
        return len({msgspec.json.decode(value, type=_Named) for _session, value in self.events})

    @property
    def mean_bytes(self) -> float:
        """The mean size of an event."""
        return sum(len(value) for _session, value in self.events) / len(self.events)


def make_load(events_min: int) -> Load:
    """Return at least so many events; a copy of the fleet follows the next, all of its runs at once."""
    recording = read_recording()
    events: list[tuple[str, bytes]] = []
    copy = 0
    while len(events) < events_min:
        mark = f"-{copy}".encode()
        for played in recording:
            session = played.session_id.encode()
            value = played.value.replace(b'"session_id":"' + session, b'"session_id":"' + session + mark, 1)
            events.append((f"{played.session_id}-{copy}", value))
        copy += 1
    return Load(events)


def mixed_load(events_min: int) -> Load:
    """Return such a load with recorded sessions of real agents mixed in, where there are any beside the project."""
    load = make_load(events_min)
    folder = Path(os.environ.get("LOOPWARDEN_SHARED", str(Path(__file__).parents[3] / "shared"))) / "data" / "events"
    real = [
        (msgspec.json.decode(line, type=_Named).session_id, line.rstrip(b"\n"))
        for file in sorted(folder.glob("*.jsonl.gz"))
        for line in gzip.decompress(file.read_bytes()).splitlines()
    ]
    step = max(1, len(load.events) // (len(real) + 1))
    for number, event in enumerate(real):
        load.events.insert(number * (step + 1), event)
    return load


def as_records(load: Load) -> list[BenchRecord]:
    """Return the events as records of one partition."""
    return [BenchRecord(value, offset, 1_800_000_000_000) for offset, (_session, value) in enumerate(load.events)]
