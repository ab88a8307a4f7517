"""One call is made again and again.

Why it matters: the commonest loop; the agent has forgotten, or does not believe, what the call told it.
Fires when: a call that is not a poll brought the same result a number of times in a row (critical), or was merely made
often among the recent calls (warning).
Quiet when: the arguments differ; and never critical while results change.
Blind to: loops that vary a detail of their arguments.
"""

from __future__ import annotations

from loopwarden.streams.decisions import Decision, Pattern
from loopwarden.streams.history import Measures
from loopwarden.streams.settings import Settings

NAME = "generic_repeat"


def detect(measures: Measures, settings: Settings) -> Decision | None:
    """Return a critical decision for a long streak, else a warning for many repeats."""
    if not settings.generic_repeat or measures.known_poll:
        return None
    streak, repeats = measures.no_progress, measures.repeats
    if streak >= settings.critical_threshold and measures.result is not None:
        return Decision(
            level="critical",
            detector=NAME,
            count=streak,
            tool_name=measures.tool_name,
            subject=measures.signature + measures.result,
            pattern=Pattern(streak, (measures.signature,), (measures.result,)),
            message=f"{measures.tool_name} was called {streak} times with the same arguments and the same result: "
            "the call cannot bring anything new.",
        )
    if repeats >= settings.warning_threshold:
        return Decision(
            level="warning",
            detector=NAME,
            count=repeats,
            tool_name=measures.tool_name,
            subject=measures.signature,
            pattern=Pattern(repeats, (measures.signature,)),
            message=f"{measures.tool_name} was called {repeats} times with the same arguments: "
            "see whether the agent still gets anywhere.",
        )
    return None
