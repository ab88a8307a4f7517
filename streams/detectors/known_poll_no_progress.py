"""Something is polled that does not move.

Why it matters: a dead process or a finished job is asked for news for hours, each time at the price of a model call.
Fires when: a call known to poll brought the same result a number of times in a row.
Quiet when: the answer changes, if only by a line of output or an exit code.
Blind to: polls by tools it does not know, unless the producer marks them ``known_poll``.
"""

from __future__ import annotations

from loopwarden.schemas.verdicts import Level
from loopwarden.streams.decisions import Decision, Pattern
from loopwarden.streams.history import Measures
from loopwarden.streams.settings import Settings

NAME = "known_poll_no_progress"


def detect(measures: Measures, settings: Settings) -> Decision | None:
    """Return a decision where a poll's no-progress streak reaches the critical or the warning threshold."""
    count = measures.no_progress
    if not settings.known_poll_no_progress or not measures.known_poll:
        return None
    if count < settings.warning_threshold or measures.result is None:
        return None
    level: Level = "critical" if count >= settings.critical_threshold else "warning"
    return Decision(
        level=level,
        detector=NAME,
        count=count,
        tool_name=measures.tool_name,
        subject=measures.signature + measures.result,
        pattern=Pattern(count, (measures.signature,), (measures.result,)),
        message=f"{measures.tool_name} polled {count} times and nothing changed: "
        "wait longer between polls, or take what is polled for dead.",
    )
