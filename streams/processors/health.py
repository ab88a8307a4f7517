"""What is watched over while a worker runs: whether a broker answers, how recovery goes, when was last committed.

Clients keep trying on their own, and say so in hundreds of lines a minute or not at all; a person wants to know once a
minute that the worker waits, and for what.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from loopwarden.streams.plumbing.logs import get_logger
from loopwarden.streams.plumbing.metrics import Metrics
from loopwarden.streams.plumbing.reach import SAY_EVERY_S, Unreachable

log = get_logger("loopwarden.health")

#: How often is looked whether the broker is there, in seconds.
WATCH_S = 1.0

#: How often the broker is asked where the group has not confirmed the membership for a while, in seconds.
_PROBE_S = 5.0


class _Trouble:
    """Something that lasts: said when it begins, once a minute, and when it is over."""

    def __init__(self, line: str, line_when_over: str) -> None:
        self._line = line
        self._line_when_over = line_when_over
        self._began_at_s: float | None = None
        self._said_at_s = 0.0

    def goes_on(self, began_at_s: float, **fields: object) -> None:
        """Say so, where it has not been said for a minute; ``began_at_s`` is monotonic time."""
        now_s = time.monotonic()
        if self._began_at_s is None:
            self._began_at_s = began_at_s
        elif now_s - self._said_at_s < SAY_EVERY_S:
            return
        self._said_at_s = now_s
        log.warning(self._line, **fields, for_s=round(now_s - self._began_at_s))

    def is_over(self) -> None:
        """Say so, where there was any."""
        if self._began_at_s is not None:
            log.info(self._line_when_over, after_s=round(time.monotonic() - self._began_at_s))
            self._began_at_s = None


class Health:
    """Tells metrics and the log of a worker's connection, commits, rebalances and recovery."""

    def __init__(self, app: Any, metrics: Metrics, reach: Callable[[], Awaitable[None]]) -> None:
        self._app = app
        self._metrics = metrics
        self._reach = reach
        self._began_at_s = time.monotonic()
        self._assigned_at_s: float | None = None
        self._probed_at_s = self._began_at_s
        self._unreachable = _Trouble("no broker lets us work; trying on", "a broker answers again")
        self._stalled = _Trouble("the broker does not take what is sent; trying on", "the broker takes it again")
        metrics.before_show = self.show

    def show(self) -> None:
        """Bring the metrics that change without an event up to date."""
        consumer, now_s = self._app.consumer, time.monotonic()
        self._metrics.heartbeat_age.set(now_s - (consumer.confirmed_at_s or self._began_at_s))
        self._metrics.commit_age.set(now_s - (consumer.committed_at_s or self._began_at_s))
        self._metrics.show_recovery(self._app.records_to_recover())

    async def watch(self) -> None:
        """Look once whether the broker is there and takes what is sent; say what comes of it."""
        sending_since_s = self._app.batch_producer.stalled_since_s
        if sending_since_s is None:
            self._stalled.is_over()
        else:
            self._stalled.goes_on(sending_since_s)
        now_s = time.monotonic()
        if self._app.is_in_touch:
            self._unreachable.is_over()
        elif now_s - self._probed_at_s >= _PROBE_S:
            # The group may just be slow to confirm the membership, as in a rebalance; so the broker is asked.
            self._probed_at_s = now_s
            try:
                await self._reach()
            except Unreachable as error:
                confirmed_at_s = self._app.consumer.confirmed_at_s or now_s
                self._unreachable.goes_on(confirmed_at_s, reason=str(error.args[0]))
            else:
                self._unreachable.is_over()

    def on_assigned(self) -> None:
        """Note that partitions were assigned: the end of a rebalance, and the beginning of a recovery."""
        self._assigned_at_s = time.monotonic()
        self._metrics.rebalances.inc()

    def on_recovered(self) -> None:
        """Note that all that was assigned is recovered."""
        if self._assigned_at_s is not None:
            self._metrics.recovery_seconds.set(time.monotonic() - self._assigned_at_s)
            self._assigned_at_s = None
