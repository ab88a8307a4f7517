"""One partition's runs: folds a batch of records into them and says what is to be published and stored.

Still pure: rows come from a function, the clock from the caller, and nothing is sent from here. The processor, replay
and the benchmark differ only in where records come from and where the outcome goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from loopwarden.schemas.events import Event
from loopwarden.schemas.signals import Signal
from loopwarden.schemas.verdicts import Verdict
from loopwarden.streams.decisions import Decision
from loopwarden.streams.engine import Engine
from loopwarden.streams.expiry import Expiry
from loopwarden.streams.fingerprint import Unusable
from loopwarden.streams.ingest import EVENT_BYTES_MAX, Record, Refusal, read_events
from loopwarden.streams.run import Run
from loopwarden.streams.settings import Settings, SettingsBook
from loopwarden.streams.state import (
    UnreadableState,
    decode_run,
    encode_run,
    is_readable,
    parse_run_key,
    run_key,
    touched_at,
)
from loopwarden.streams.verdicts import Place, announce

#: How many runs are freed with one batch, so that a batch's length has a bound.
FREED_PER_BATCH_MAX = 1000


class Limits:
    """How long and how much is held: seconds, bytes, and numbers of runs."""

    __slots__ = ("ended_run_grace_s", "event_bytes_max", "idle_run_s", "live_runs_max", "signal_ttl_s")

    def __init__(
        self,
        idle_run_s: int = 86_400,
        ended_run_grace_s: int = 300,
        event_bytes_max: int = EVENT_BYTES_MAX,
        signal_ttl_s: int = 86_400,
        live_runs_max: int = 2_000,
    ) -> None:
        self.idle_run_s = idle_run_s
        self.ended_run_grace_s = ended_run_grace_s
        self.event_bytes_max = event_bytes_max
        self.signal_ttl_s = signal_ttl_s
        self.live_runs_max = live_runs_max


class Outcome:
    """What a batch leads to. ``rows`` maps table keys to stored runs, None where a run is freed; ``caused`` has each
    decision with the run and the record's offset; ``refused`` the offsets of records that cannot be used; ``touched``
    the session and run of every run that an event went to."""

    __slots__ = (
        "armed",
        "caused",
        "events",
        "freed",
        "refused",
        "rows",
        "signals",
        "touched",
        "unknown_types",
        "unreadable_rows",
        "verdicts",
    )

    def __init__(self) -> None:
        self.verdicts: list[tuple[Verdict, int]] = []
        self.signals: list[tuple[Signal, int]] = []
        self.caused: list[tuple[Decision, Run, int]] = []
        self.refused: list[tuple[int, Refusal]] = []
        self.rows: dict[bytes, bytes | None] = {}
        self.events: dict[type[Event], int] = {}
        self.armed: list[tuple[Run, int]] = []
        self.touched: list[tuple[str, str | None]] = []
        self.unknown_types = 0
        self.unreadable_rows = 0
        self.freed = 0


class PartitionRuns:
    """The runs of one partition. Lately touched ones are held as objects, all others as rows of the table."""

    def __init__(
        self,
        topic: str,
        partition: int,
        book: SettingsBook,
        limits: Limits | None = None,
        load_row: Callable[[bytes], bytes | None] = lambda _key: None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.book = book
        self.limits = limits or Limits()
        self.engine = Engine()
        self.watermark_ms = 0
        self._load_row = load_row
        self._live: dict[tuple[str, str | None], Run] = {}
        self._unreadable: set[bytes] = set()
        self._expiry = Expiry(self.limits.idle_run_s, self.limits.ended_run_grace_s)

    def __len__(self) -> int:
        """Return how many runs are held."""
        return len(self._expiry)

    def restore(self, rows: Iterable[tuple[bytes, bytes]], now_ms: int) -> int:
        """Take note of the runs that the table holds after recovery; return how many rows cannot be read.

        Where there are any (another version wrote them, or they are damaged), the partition's events are to be read
        again from the beginning: such a run begins anew with its first event, and every other one skips the events
        that it has seen. A row that cannot be read stays until it is written anew, so that a crash on the way repeats
        this.
        """
        touched = []
        for key, row in rows:
            if not is_readable(row):
                self._unreadable.add(key)
                continue
            seen_ms, ended = touched_at(row)
            touched.append((key, min(seen_ms, now_ms), ended))
        self._expiry.restore(touched)
        self.watermark_ms = max((entry[1] for entry in touched), default=0)
        return len(self._unreadable)

    @property
    def has_unreadable(self) -> bool:
        """Whether there are rows that cannot be read and have not been written anew."""
        return bool(self._unreadable)

    def give_up_unreadable(self) -> dict[bytes, None]:
        """Forget the rows that still cannot be read once all events were, and return their tombstones."""
        given_up = dict.fromkeys(self._unreadable)
        self._unreadable.clear()
        return given_up

    def fold(self, records: Sequence[Record], now_ms: int) -> Outcome:
        """Fold a batch of records, in the order of their offsets, into their runs."""
        outcome = Outcome()
        touched: dict[tuple[str, str | None], Run] = {}
        counts: dict[type[Event], int] = {}
        fold = self.engine.fold
        agents, everybody = self.book.agents, self.book.everybody
        for record, event in zip(records, read_events(records, self.limits.event_bytes_max), strict=True):
            offset, time_ms = record.offset, record.timestamp
            if isinstance(event, Refusal):
                self._refuse(outcome, offset, event)
                continue
            if time_ms > self.watermark_ms:
                # A producer's clock that is ahead must not make everybody else's runs idle.
                self.watermark_ms = max(self.watermark_ms, min(time_ms, now_ms))
            key = (event.session_id or "", event.run_id)
            run = touched.get(key)
            if run is None:
                run = touched[key] = self._take(key, outcome)
            settings = agents.get(event.agent_id or run.agent_id or "", everybody)
            guard = run.guard
            try:
                decision = fold(run, event, offset, time_ms, settings)
            except Unusable as fault:
                self._refuse(outcome, offset, Refusal(fault.reason, fault.detail))
                continue
            kind = type(event)
            counts[kind] = counts.get(kind, 0) + 1
            if run.guard is not guard and run.guard is not None:
                outcome.armed.append((run, run.guard.remaining))
            if decision is not None:
                self._announce(
                    outcome, run, decision, settings, Place(self.topic, self.partition, offset, event.time, time_ms)
                )
        outcome.events = counts
        self._store(outcome, touched)
        return outcome

    def _announce(self, outcome: Outcome, run: Run, decision: Decision, settings: Settings, place: Place) -> None:
        outcome.caused.append((decision, run, place.offset))
        verdict, signal = announce(run, decision, settings, place, self.limits.signal_ttl_s)
        if verdict is not None:
            outcome.verdicts.append((verdict, place.time_ms))
        if signal is not None:
            outcome.signals.append((signal, place.time_ms))

    @staticmethod
    def _refuse(outcome: Outcome, offset: int, refusal: Refusal) -> None:
        if refusal.reason is None:
            outcome.unknown_types += 1
        else:
            outcome.refused.append((offset, refusal))

    def _take(self, key: tuple[str, str | None], outcome: Outcome) -> Run:
        """Return the run with this key, from memory, from its row, or new; it then counts as touched last."""
        run = self._live.pop(key, None)
        if run is None:
            run = Run(*key)
            row = self._load_row(run_key(*key))
            if row is not None:
                try:
                    run = decode_run(row)
                except UnreadableState:
                    outcome.unreadable_rows += 1  # better to start the run anew than to stop its whole partition
        self._live[key] = run
        return run

    def _store(self, outcome: Outcome, touched: dict[tuple[str, str | None], Run]) -> None:
        """Encode every touched run once, and free those that are due."""
        outcome.touched += touched
        for key, run in touched.items():
            stored_key = run_key(*key)
            outcome.rows[stored_key] = encode_run(run)
            self._unreadable.discard(stored_key)
            self._expiry.touch(stored_key, self.watermark_ms, run.ended_ms > 0)
        freed = self.free_due(self.watermark_ms)
        outcome.rows.update(freed)
        outcome.freed = len(freed)
        surplus = len(self._live) - self.limits.live_runs_max
        if surplus > 0:
            for key in list(islice(self._live, surplus)):
                del self._live[key]

    def free_due(self, watermark_ms: int) -> dict[bytes, None]:
        """Forget the runs that are due and return their tombstones."""
        due = self._expiry.take_due(watermark_ms, FREED_PER_BATCH_MAX)
        for key in due:
            self._live.pop(parse_run_key(key), None)
        return dict.fromkeys(due)
