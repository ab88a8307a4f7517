"""Replay: recorded events through the very core that watches live ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

import msgspec

from loopwarden.schemas.signals import Signal
from loopwarden.schemas.verdicts import Verdict
from loopwarden.streams.decisions import Decision
from loopwarden.streams.ingest import Headers, Refusal
from loopwarden.streams.partition import Limits, PartitionRuns
from loopwarden.streams.recordings import Line
from loopwarden.streams.settings import SettingsBook

#: Lines folded together; only speed depends on it.
BATCH_LINES = 512

#: Stands for the topic in the evidence of replayed verdicts, whose offsets are the numbers of the lines read.
REPLAY_TOPIC = "replay"

_FAR_FUTURE_MS = 2**62


class DecisionRow(msgspec.Struct, kw_only=True):
    """A decision as replay reports it, with the line that caused it."""

    file: str
    line: int
    run_id: str | None
    session_id: str
    level: str
    detector: str
    count: int
    tool_name: str
    paired_tool_name: str | None = None


class BadLine(NamedTuple):
    """A line that cannot be used."""

    line: Line
    refusal: Refusal


class Replayed(NamedTuple):
    """What a batch of lines led to, in their order."""

    decisions: list[DecisionRow]
    verdicts: list[Verdict]
    signals: list[Signal]
    bad_lines: list[BadLine]


class _LineRecord(NamedTuple):
    value: bytes
    offset: int
    timestamp: int
    headers: Headers = ()


class _Timed(msgspec.Struct):
    time: str | None = None


_decode_time = msgspec.json.Decoder(_Timed).decode


class Replay:
    """Folds lines, and keeps count. Lines of several files make one log: a run may go on in the next file."""

    def __init__(self, book: SettingsBook, limits: Limits | None = None) -> None:
        self._rows: dict[bytes, bytes] = {}
        self.runs = PartitionRuns(REPLAY_TOPIC, 0, book, limits, self._rows.get)
        self.events: Counter[str] = Counter()
        self.loops: Counter[tuple[str, str]] = Counter()
        self.seen: set[tuple[str, str | None]] = set()
        self.standing: dict[tuple[str, str | None], str] = {}
        self.worst: dict[tuple[str, str | None], Decision] = {}
        self.bad_lines = 0
        self.unknown_types = 0
        self.lines = 0
        self._time_ms = 0

    def fold(self, lines: Iterable[Line]) -> Iterator[Replayed]:
        """Fold lines in their order; yields what each batch of them led to."""
        remaining = iter(lines)
        while batch := list(islice(remaining, BATCH_LINES)):
            yield self._fold_batch(batch)

    def _fold_batch(self, batch: list[Line]) -> Replayed:
        first = self.lines
        self.lines += len(batch)
        records = [_LineRecord(line.text, first + at, self._time_of(line.text)) for at, line in enumerate(batch)]
        outcome = self.runs.fold(records, _FAR_FUTURE_MS)
        for key, row in outcome.rows.items():
            if row is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = row
        for kind, number in outcome.events.items():
            self.events[str(kind.__struct_config__.tag)] += number
        self.seen.update(outcome.touched)
        self.unknown_types += outcome.unknown_types
        self.bad_lines += len(outcome.refused)
        rows = []
        for decision, run, offset in outcome.caused:
            self._count(decision, (run.session_id, run.run_id))
            rows.append(_row(decision, run.session_id, run.run_id, batch[offset - first]))
        for signal, _time in outcome.signals:
            self.standing[(signal.session_id, signal.run_id)] = {"block": "blocked", "kill": "killed"}[signal.action]
        return Replayed(
            decisions=rows,
            verdicts=[verdict for verdict, _time in outcome.verdicts],
            signals=[signal for signal, _time in outcome.signals],
            bad_lines=[BadLine(batch[offset - first], refusal) for offset, refusal in outcome.refused],
        )

    def _count(self, decision: Decision, key: tuple[str, str | None]) -> None:
        self.loops[(decision.detector, decision.level)] += 1
        self.standing.setdefault(key, "warned")
        worst = self.worst.get(key)
        if worst is None or gravity(decision) > gravity(worst):
            self.worst[key] = decision

    def _time_of(self, text: bytes) -> int:
        """Return an event's time in milliseconds since the epoch; that of the event before it where it has none."""
        try:
            stated = _decode_time(text).time
            moment = datetime.fromisoformat(stated) if stated else None
        except (msgspec.DecodeError, ValueError, RecursionError):
            moment = None
        if moment is not None:
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=UTC)
            with suppress(OverflowError):
                self._time_ms = int(moment.timestamp() * 1000)
        return self._time_ms


def gravity(decision: Decision) -> tuple[bool, int]:
    """Return what decisions are compared by to find the worst."""
    return decision.level == "critical", decision.count


def _row(decision: Decision, session_id: str, run_id: str | None, line: Line) -> DecisionRow:
    return DecisionRow(
        file=line.file,
        line=line.number,
        run_id=run_id,
        session_id=session_id,
        level=decision.level,
        detector=decision.detector,
        count=decision.count,
        tool_name=decision.tool_name,
        paired_tool_name=decision.paired_tool_name,
    )
