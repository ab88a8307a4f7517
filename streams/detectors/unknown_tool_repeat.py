"""A tool that does not exist is called again and again.

Why it matters: the agent cannot succeed, and often varies the arguments, so that no call repeats exactly.
Fires when: the newest calls in a row are this tool and all failed as the same unavailable tool.
Quiet when: any other call, or any other outcome, comes in between; the count starts anew.
Blind to: errors whose wording does not say that the tool is unknown, not found or not available.
"""

from __future__ import annotations

from loopwarden.streams.decisions import Decision, Pattern
from loopwarden.streams.history import Measures
from loopwarden.streams.settings import Settings

NAME = "unknown_tool_repeat"


def detect(measures: Measures, settings: Settings) -> Decision | None:
    """Return a critical decision where the unknown streak reaches its threshold."""
    count = measures.unknown
    if count < settings.unknown_tool_threshold or measures.unavailable is None:
        return None
    return Decision(
        level="critical",
        detector=NAME,
        count=count,
        tool_name=measures.tool_name,
        subject=measures.unavailable.encode(),
        pattern=Pattern(calls=count),
        message=f"{measures.tool_name} does not exist here, yet it was called {count} times in a row: "
        "make the tool available or take it out of the agent's instructions.",
    )
