"""Decisions: what a detector says about one event."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from loopwarden.schemas.verdicts import Level


class Pattern(NamedTuple):
    """The calls of the history that make up the loop: the newest ``calls`` of those that have one of the
    signatures and one of the results, where any are given."""

    calls: int
    signatures: tuple[bytes, ...] = ()
    results: tuple[bytes, ...] = ()


class Decision(msgspec.Struct, frozen=True):
    """A loop seen at one event. ``subject`` tells apart the loops of one detector in a run, so that each is
    published on its own; ``count`` is the measure that met the threshold; ``first_offset`` is that of the oldest call
    of the pattern, which the engine looks up."""

    level: Level
    detector: str
    count: int
    tool_name: str
    subject: bytes
    pattern: Pattern
    message: str
    paired_tool_name: str | None = None
    aborts: bool = False
    first_offset: int = -1
