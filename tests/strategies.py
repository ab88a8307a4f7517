"""Random histories for property tests: few tools, arguments and results, so that loops of all sorts come up."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

ARGS = [None, {}, {"p": 1}, {"p": 1.0}, {"p": "1"}, {"action": "poll", "s": 1}, {"action": "send", "to": "x"}]
TOOLS = ["read", "exec", "process", "message", "command_status", "telegram"]
RESULTS: list[dict[str, Any]] = [
    {"result": "same"},
    {"result": "other"},
    {"result": None},
    {"result": {"content": [{"type": "text", "text": " t "}], "details": {"status": "running", "tail": "x"}}},
    {
        "result": {
            "content": [{"type": "text", "text": "t"}],
            "details": {"status": "completed", "exitCode": 0},
        }
    },
    {"result": {"details": {"messageId": "m1", "ok": True}}},
    {"result": {"details": {"messageId": "m2", "ok": True}}},
    {"result": {"details": {"status": "blocked", "deniedReason": "tool-loop"}}},
    {"error": "same"},
    {"error": {"code": 1}},
    {"error": "Unknown tool: Read"},
    {"error": "tool 'exec' not found"},
    {"result_hash": "aa"},
    {"result_hash": "bb", "unknown_tool": "Nope"},
    {},
]
IDS = [None, None, "c1", "c2", "c3"]


@st.composite
def steps(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return the few events of one step of an agent."""
    tool = draw(st.sampled_from(TOOLS[: draw(st.integers(1, len(TOOLS)))]))
    call: dict[str, Any] = {"type": "tool_call", "tool_name": tool}
    if draw(st.integers(0, 5)) == 0:
        call["args_hash"] = draw(st.sampled_from(["h1", "h2"]))
    elif draw(st.booleans()):
        call["args"] = draw(st.sampled_from(ARGS))
    call_id = draw(st.sampled_from(IDS))
    if call_id is not None:
        call["tool_call_id"] = call_id
    if draw(st.integers(0, 9)) == 0:
        call["known_poll"] = draw(st.booleans())
    result = {"type": "tool_result", "tool_name": tool} | draw(st.sampled_from(RESULTS))
    if draw(st.booleans()):
        result |= {name: call[name] for name in ("args", "args_hash") if name in call}
    if call_id is not None and draw(st.integers(0, 9)) > 0:
        result["tool_call_id"] = call_id
    shape = draw(st.integers(0, 11))
    if shape == 0:
        return [call]
    if shape == 1:
        return [result]
    if shape == 2:
        return [{"type": "compaction", "retrying": draw(st.booleans())}, call, result]
    return [call, result]


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return the events of a run: a few different steps, repeated in blocks, some results out of order."""
    vocabulary = draw(st.lists(steps(), min_size=1, max_size=4))
    order = draw(st.lists(st.integers(0, len(vocabulary) - 1), min_size=1, max_size=60))
    events = [event for index in order for event in vocabulary[index]]
    swaps = draw(st.lists(st.integers(0, max(0, len(events) - 4)), max_size=6))
    for at in swaps:
        other = min(at + 3, len(events) - 1)
        events[at], events[other] = events[other], events[at]
    return events


def _threshold() -> st.SearchStrategy[Any]:
    return st.one_of(st.integers(1, 8), st.sampled_from([0, -1, 2.5, "3"]))


@st.composite
def blocks(draw: st.DrawFn) -> dict[str, Any]:
    """Return a loopDetection block with every threshold and window drawn, some of them invalid."""
    block: dict[str, Any] = {}
    if draw(st.integers(0, 9)) > 1:
        block["enabled"] = draw(st.sampled_from([True, True, True, True, None, False]))
    names = ["warningThreshold", "criticalThreshold", "globalCircuitBreakerThreshold", "unknownToolThreshold"]
    for name in names:
        if draw(st.integers(0, 9)) > 0:
            block[name] = draw(_threshold())
    if draw(st.booleans()):
        block["historySize"] = draw(st.one_of(st.integers(1, 14), st.sampled_from([0, 1.5])))
    switches = ["genericRepeat", "knownPollNoProgress", "pingPong"]
    block["detectors"] = {name: draw(st.integers(0, 4)) > 0 for name in switches}
    block["postCompactionGuard"] = {"windowSize": draw(st.integers(0, 4))}
    return block
