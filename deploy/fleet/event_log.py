"""Where the fleet's events are gathered, in the form of the wire contract, and written to the recording."""

from __future__ import annotations

import gzip
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from loopwarden.schemas.events import Event


class LeakError(Exception):
    """An event would tell where it was recorded; the text says which event."""


class EventLog:
    """Events of all sessions in the order of their times.

    Times come from one clock that never steps back, and are given under the lock that orders the events; so a
    run's events, and the log as a whole, are in order without sorting.
    """

    def __init__(self, root: Path) -> None:
        """``root``: the fleet's temporary folder; no event may name it, or where Python is installed."""
        self._forbidden = tuple(str(path).encode() for path in (root, sys.prefix, sys.base_prefix))
        self._lock = threading.Lock()
        self._started_s = time.time()
        self._started_monotonic_s = time.monotonic()
        self.lines: list[bytes] = []

    def add(self, event: Event) -> None:
        """Stamp an event and append it; raises LeakError where it holds a path of this machine."""
        with self._lock:
            now_s = self._started_s + time.monotonic() - self._started_monotonic_s
            stamp = datetime.fromtimestamp(now_s, UTC).isoformat(timespec="milliseconds")
            event.time = stamp.replace("+00:00", "Z")
            line = msgspec.json.encode(event)
            if any(text in line for text in self._forbidden):
                raise LeakError(f"event {event.event_id} holds a path of this machine")
            self.lines.append(line)

    def write(self, output: Path) -> int:
        """Write all events as gzip-compressed JSON lines; return the size of the file in bytes.

        The file appears whole or not at all, and carries neither a name nor a time of its own.
        """
        output.parent.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.NamedTemporaryFile(dir=output.parent, prefix=".recording-", delete=False) as part,
            gzip.GzipFile("", "wb", compresslevel=9, fileobj=part, mtime=0) as packed,
        ):
            packed.writelines(line + b"\n" for line in self.lines)
        Path(part.name).chmod(0o644)
        Path(part.name).replace(output)
        return output.stat().st_size
