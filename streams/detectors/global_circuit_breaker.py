"""Any call whatever that keeps bringing the same result, far beyond what work would need.

Why it matters: the last resort, which no switch of a single detector turns off.
Fires when: the newest finished calls with the same tool and arguments all brought one result.
Quiet when: one of them brought another result since; other calls in between do not count either way.
Blind to: loops that vary their arguments, and calls that never finish.
"""

from __future__ import annotations

from loopwarden.streams.decisions import Decision, Pattern
from loopwarden.streams.history import Measures
from loopwarden.streams.settings import Settings

NAME = "global_circuit_breaker"


def detect(measures: Measures, settings: Settings) -> Decision | None:
    """Return a critical decision where the no-progress streak reaches the breaker's threshold."""
    count = measures.no_progress
    if count < settings.global_circuit_breaker_threshold or measures.result is None:
        return None
    return Decision(
        level="critical",
        detector=NAME,
        count=count,
        tool_name=measures.tool_name,
        subject=measures.signature + measures.result,
        pattern=Pattern(count, (measures.signature,), (measures.result,)),
        message=f"{measures.tool_name} was called {count} times with the same arguments and the same result: "
        "stop the run and look at why it cannot get on.",
    )
