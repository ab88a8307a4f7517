"""A run as the core holds it: its history and what has been said about it so far."""

from __future__ import annotations

from loopwarden.streams.detectors.compaction_loop_persisted import Guard
from loopwarden.streams.history import History
from loopwarden.streams.policy import Standing

#: How many subjects a run remembers having published; beyond that the one published longest ago is forgotten.
PUBLISHED_MAX = 64


class Run:
    """Everything that is known of one run; two runs never share anything.

    ``last_offset`` is that of the last event folded in: events at or below it are redeliveries. ``published`` maps a
    subject (as a fingerprint) to the bucket last published for it and the offset of that verdict's event.
    ``event_ids`` holds the latest event ids, oldest first, as a dict for its order. Times are milliseconds since
    the epoch; ``ended_ms`` is 0 while the run goes on.
    """

    __slots__ = (
        "agent_id",
        "ended_ms",
        "event_ids",
        "guard",
        "history",
        "last_offset",
        "published",
        "run_id",
        "runner_id",
        "seen_ms",
        "session_id",
        "standing",
    )

    def __init__(self, session_id: str, run_id: str | None) -> None:
        self.session_id = session_id
        self.run_id = run_id
        self.agent_id: str | None = None
        self.runner_id: str | None = None
        self.last_offset = -1
        self.seen_ms = 0
        self.ended_ms = 0
        self.history = History()
        self.guard: Guard | None = None
        self.standing = Standing.NONE
        self.published: dict[bytes, tuple[int, int]] = {}
        self.event_ids: dict[int, None] = {}
