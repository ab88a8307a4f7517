"""The stored form of a run: bytes for the table and its changelog, and back.

What can be counted again from the calls (groups, ids) is not stored. A header says when the run was touched, so that
a worker that takes over a partition need not decode every row; its first byte is the version of the form, and a row in
a form this code does not know is refused.
"""

from __future__ import annotations

import struct

import msgspec

from loopwarden.streams.detectors.compaction_loop_persisted import Guard
from loopwarden.streams.history import Call, History
from loopwarden.streams.policy import Standing
from loopwarden.streams.run import Run

#: Changes whenever stored rows of an earlier version can no longer be read.
STATE_VERSION = 1

#: Version, then when the run was last touched and when it ended (0: not yet), in milliseconds since the epoch.
_HEADER = struct.Struct(">Bqq")


class UnreadableState(Exception):
    """A stored row that is damaged, or was written by another version."""


class _StoredRun(msgspec.Struct, array_like=True, gc=False):
    session_id: str
    run_id: str | None
    agent_id: str | None
    runner_id: str | None
    last_offset: int
    standing: int
    next_sequence: int
    guard: Guard | None
    published: dict[bytes, tuple[int, int]]
    event_ids: list[int]
    calls: list[Call]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_StoredRun).decode
_encode_key = msgspec.json.Encoder().encode
_decode_key = msgspec.json.Decoder(tuple[str, str | None]).decode


def run_key(session_id: str, run_id: str | None) -> bytes:
    """Return the table key of a run: a JSON array, so that no two runs share one whatever is in their ids."""
    return _encode_key((session_id, run_id))


def parse_run_key(key: bytes) -> tuple[str, str | None]:
    """Return session and run of a table key."""
    return _decode_key(key)


def touched_at(row: bytes) -> tuple[int, bool]:
    """Return when a stored run was last touched, in milliseconds since the epoch, and whether it has ended."""
    if len(row) < _HEADER.size:
        return 0, False
    _version, seen_ms, ended_ms = _HEADER.unpack_from(row)
    return seen_ms, ended_ms > 0


def is_readable(row: bytes) -> bool:
    """Return whether a row is of the form that this code reads, by its header alone."""
    return len(row) >= _HEADER.size and row[0] == STATE_VERSION


def encode_run(run: Run) -> bytes:
    """Return the stored form of a run."""
    return _HEADER.pack(STATE_VERSION, run.seen_ms, run.ended_ms) + _encode(
        _StoredRun(
            run.session_id,
            run.run_id,
            run.agent_id,
            run.runner_id,
            run.last_offset,
            run.standing,
            run.history.next_sequence,
            run.guard,
            run.published,
            list(run.event_ids),
            run.history.calls,
        )
    )


def decode_run(row: bytes) -> Run:
    """Return the run in a stored row; raises UnreadableState."""
    if not is_readable(row):
        raise UnreadableState(f"{len(row)} bytes of version {row[0] if row else 'none'}, this is {STATE_VERSION}")
    try:
        stored = _decode(memoryview(row)[_HEADER.size :])
        run = Run(stored.session_id, stored.run_id)
        run.standing = Standing(stored.standing)
        run.history = History(stored.calls)
    except (msgspec.DecodeError, ValueError) as error:
        raise UnreadableState(str(error)) from None
    run.agent_id = stored.agent_id
    run.runner_id = stored.runner_id
    run.last_offset = stored.last_offset
    _version, run.seen_ms, run.ended_ms = _HEADER.unpack_from(row)
    run.history.next_sequence = stored.next_sequence
    run.guard = stored.guard
    run.published = stored.published
    run.event_ids = dict.fromkeys(stored.event_ids)
    return run
