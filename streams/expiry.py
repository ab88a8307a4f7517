"""When a run's state is freed: some time after the run ended, or after nothing was heard of it for long.

Time is the partition's watermark, not a clock: a worker that works through a backlog of days must not take runs for
idle whose next events it has not read yet.
"""

from __future__ import annotations

from collections.abc import Iterable


class Expiry:
    """Keeps the runs of one partition in the order in which they fall due. Times are in milliseconds."""

    __slots__ = ("_ended", "_ended_grace_ms", "_idle", "_idle_ms")

    def __init__(self, idle_run_s: int, ended_run_grace_s: int) -> None:
        self._idle_ms = idle_run_s * 1000
        self._ended_grace_ms = ended_run_grace_s * 1000
        # Both are in order of time, since a watermark never goes back: what was touched last stands last.
        self._idle: dict[bytes, int] = {}
        self._ended: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._idle) + len(self._ended)

    def restore(self, rows: Iterable[tuple[bytes, int, bool]]) -> None:
        """Take over runs from stored state: key, when last touched, whether ended."""
        for key, touched_ms, ended in sorted(rows, key=lambda row: row[1]):
            self.touch(key, touched_ms, ended)

    def touch(self, key: bytes, watermark_ms: int, ended: bool) -> None:
        """Note that something was heard of a run."""
        self._idle.pop(key, None)
        self._ended.pop(key, None)
        (self._ended if ended else self._idle)[key] = watermark_ms

    def take_due(self, watermark_ms: int, runs_max: int) -> list[bytes]:
        """Return the keys of runs that are due, at most ``runs_max``, and forget them."""
        due = _due(self._ended, watermark_ms - self._ended_grace_ms, runs_max)
        return due + _due(self._idle, watermark_ms - self._idle_ms, runs_max - len(due))


def _due(touched: dict[bytes, int], before_ms: int, runs_max: int) -> list[bytes]:
    due: list[bytes] = []
    for key, touched_ms in touched.items():
        if touched_ms > before_ms or len(due) >= runs_max:
            break
        due.append(key)
    for key in due:
        del touched[key]
    return due
