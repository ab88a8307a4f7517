"""Verdicts, signals and dead letters as records: keys, JSON values, and headers."""

from __future__ import annotations

from typing import Any

import msgspec

from loopwarden.schemas import dead_letters
from loopwarden.schemas.signals import Signal
from loopwarden.schemas.verdicts import Verdict
from loopwarden.streams.ingest import Refusal
from loopwarden.streams.plumbing.chunks import Chunk
from loopwarden.streams.plumbing.producer import Outgoing

_encode = msgspec.json.Encoder().encode

#: ``ce_source`` of everything sent from here.
_SOURCE = b"loopwarden"


def verdict_record(verdict: Verdict) -> Outgoing:
    """Return the record of a verdict, keyed by its session."""
    headers = _cloud_event(verdict.verdict_id, "loopwarden.verdict", verdict.run_id, verdict.time)
    return Outgoing(verdict.session_id.encode(), _encode(verdict), headers)


def signal_record(signal: Signal) -> Outgoing:
    """Return the record of a signal, keyed ``SESSION/RUN`` so that the newest one of a run stands."""
    headers = _cloud_event(signal.signal_id, "loopwarden.signal", signal.run_id, signal.issued_at)
    return Outgoing(f"{signal.session_id}/{signal.run_id or ''}".encode(), _encode(signal), headers)


def dead_letter_record(chunk: Chunk, record: Any, refusal: Refusal) -> Outgoing:
    """Return the record of a dead letter: key and value byte for byte, why and where from in the headers."""
    headers = (
        (dead_letters.HEADER_REASON, str(refusal.reason).encode()),
        (dead_letters.HEADER_DETAIL, refusal.detail.encode()),
        (dead_letters.HEADER_SOURCE_TOPIC, chunk.topic.encode()),
        (dead_letters.HEADER_SOURCE_PARTITION, str(chunk.partition).encode()),
        (dead_letters.HEADER_SOURCE_OFFSET, str(record.offset).encode()),
    )
    return Outgoing(record.key, record.value, headers, record.timestamp)


def _cloud_event(event_id: str, event_type: str, subject: str | None, time: str) -> tuple[tuple[str, bytes], ...]:
    headers = [
        ("ce_specversion", b"1.0"),
        ("ce_id", event_id.encode()),
        ("ce_source", _SOURCE),
        ("ce_type", event_type.encode()),
        ("ce_time", time.encode()),
        ("content-type", b"application/json"),
    ]
    if subject is not None:
        headers.append(("ce_subject", subject.encode()))
    return tuple(headers)
