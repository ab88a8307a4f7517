"""How fast the core is by itself, and what each of its steps costs."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
from load import BenchRecord

from loopwarden.schemas.events import Event
from loopwarden.streams.ingest import Refusal, read_event
from loopwarden.streams.partition import PartitionRuns
from loopwarden.streams.plumbing.chunks import RECORDS_PER_CHUNK_MAX
from loopwarden.streams.settings import resolve

ROUNDS = 5
BOOK = resolve({"enabled": True}, {})[0]


def best_of(work: Callable[[], object]) -> float:
    """Return the seconds of the fastest of some rounds: what the machine can do when nothing disturbs it."""
    fastest = float("inf")
    for _ in range(ROUNDS):
        began_s = time.perf_counter()
        work()
        fastest = min(fastest, time.perf_counter() - began_s)
    return fastest


def measure_core(records: list[BenchRecord]) -> dict[str, float]:
    """Return microseconds per event for decoding alone, for reading, and for all of it with states encoded."""
    decode = msgspec.json.Decoder(Event).decode
    events = len(records)

    def decode_all() -> None:
        for record in records:
            decode(record.value)

    def read_all() -> None:
        for record in records:
            assert not isinstance(read_event(record.value, record.headers), Refusal)

    def fold_all() -> None:
        runs = PartitionRuns("bench", 0, BOOK)
        for at in range(0, events, RECORDS_PER_CHUNK_MAX):
            runs.fold(records[at : at + RECORDS_PER_CHUNK_MAX], 2**62)

    to_us = 1_000_000 / events
    return {
        "decode_us": best_of(decode_all) * to_us,
        "read_us": best_of(read_all) * to_us,
        "core_us": best_of(fold_all) * to_us,
    }
