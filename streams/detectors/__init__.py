"""The detectors, in the order in which they are asked; the first that speaks decides.

A detector is a module with a ``NAME`` and a function ``detect(measures, settings)``; it reads and keeps nothing. To
add one: a file here, a line in the order below, a vector file in the tests.
"""

from __future__ import annotations

from loopwarden.streams.detectors import (
    compaction_loop_persisted,
    generic_repeat,
    global_circuit_breaker,
    known_poll_no_progress,
    ping_pong,
    unknown_tool_repeat,
)

#: Asked about a call that is attempted. The order is meaning: a tool that does not exist outranks the breaker.
CALL_DETECTORS = (
    unknown_tool_repeat,
    global_circuit_breaker,
    known_poll_no_progress,
    ping_pong,
    generic_repeat,
)

#: Names of all detectors, as they stand in verdicts and on metrics.
DETECTOR_NAMES = (*(detector.NAME for detector in CALL_DETECTORS), compaction_loop_persisted.NAME)
