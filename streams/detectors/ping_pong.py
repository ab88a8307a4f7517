"""Two calls are made in turn, over and over.

Why it matters: each of the two looks like work, and neither repeats twice running.
Fires when: the newest calls alternate between two and the attempted call goes on with it; critical when all of them
are finished and each side's result never changed.
Quiet when: a third call comes in between; a warning only, when a result changes or is still awaited.
Blind to: cycles of three calls or more.
"""

from __future__ import annotations

from loopwarden.schemas.verdicts import Level
from loopwarden.streams.decisions import Decision, Pattern
from loopwarden.streams.history import Measures
from loopwarden.streams.settings import Settings

NAME = "ping_pong"


def detect(measures: Measures, settings: Settings) -> Decision | None:
    """Return a decision where an alternation is long enough, critical where it is stuck as well."""
    count = measures.alternation
    if not settings.ping_pong or measures.paired_signature is None or count < settings.warning_threshold:
        return None
    level: Level = "critical" if count >= settings.critical_threshold and measures.stuck else "warning"
    pair = (measures.signature, measures.paired_signature)
    return Decision(
        level=level,
        detector=NAME,
        count=count,
        tool_name=measures.tool_name,
        paired_tool_name=measures.paired_tool_name,
        subject=b"".join(sorted(pair)),
        pattern=Pattern(count - 1, pair),
        message=f"{measures.tool_name} and {measures.paired_tool_name} were called in turn {count} times"
        + (" with unchanging results" if level == "critical" else "")
        + ": have the agent say what it is waiting for, or stop it.",
    )
