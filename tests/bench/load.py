"""What benchmarks are fed with: the recorded fleet over and over, each time under other names, interleaved."""

from __future__ import annotations

from typing import NamedTuple

from loopwarden.deploy.demo.player import read_recording


class BenchRecord(NamedTuple):
    """An event as the core takes it."""

    value: bytes
    offset: int
    timestamp: int
    headers: tuple[tuple[str, bytes], ...] = ()


class Load(NamedTuple):
    """Events with their sessions, in the order in which they are sent."""

    events: list[tuple[str, bytes]]

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


def as_records(load: Load) -> list[BenchRecord]:
    """Return the events as records of one partition."""
    return [BenchRecord(value, offset, 1_800_000_000_000) for offset, (_session, value) in enumerate(load.events)]
