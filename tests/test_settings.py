"""Settings: layers, checks, order, and what is reported."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from folding import fold_all, settings_of
from hypothesis import given
from hypothesis import strategies as st

from loopwarden.streams.detectors.compaction_loop_persisted import arm
from loopwarden.streams.settings import HISTORY_SIZE_MAX, NUMBER_MAX, AgentBlock, Settings, resolve, to_file_form

GLOBAL = "tools.loopDetection"


def one(block: dict[str, Any]) -> Settings:
    return resolve(block, {})[0].for_agent(None)


def said(block: dict[str, Any], agents: dict[str, dict[str, Any]] | None = None) -> list[str]:
    return [str(warning) for warning in resolve(block, agents or {})[1]]


@pytest.mark.parametrize(
    ("stated", "in_force"),
    [({}, None), ({"enabled": None}, None), ({"enabled": True}, True), ({"enabled": False}, False)],
)
def test_enabled_has_three_states(stated: dict[str, Any], in_force: bool | None) -> None:
    assert one(stated).enabled is in_force


def test_an_agent_overrides_field_by_field_nested_ones_too() -> None:
    book, warnings = resolve(
        {"enabled": True, "historySize": 40, "detectors": {"pingPong": False}},
        {"coder": {"warningThreshold": 5, "detectors": {"genericRepeat": False}}},
    )
    coder = book.for_agent("coder")

    assert warnings == []
    assert (coder.enabled, coder.history_size, coder.warning_threshold) == (True, 40, 5)
    assert (coder.ping_pong, coder.generic_repeat, coder.known_poll_no_progress) == (False, False, True)
    assert coder.layers["historySize"] == GLOBAL
    assert coder.layers["warningThreshold"] == "agents.list[coder]"
    assert coder.layers["detectors.pingPong"] == GLOBAL
    assert coder.layers["criticalThreshold"] == "default"
    assert book.for_agent("somebody else") == book.everybody


def test_null_is_as_good_as_not_set() -> None:
    book, _warnings = resolve({"enabled": True, "historySize": 12}, {"a": {"enabled": None, "historySize": None}})

    assert (book.for_agent("a").enabled, book.for_agent("a").history_size) == (True, 12)


@pytest.mark.parametrize("value", [0, -3, 2.5, "10", True, [], {}])
def test_what_is_not_a_positive_integer_becomes_the_default_and_is_reported(value: Any) -> None:
    assert one({"warningThreshold": value}).warning_threshold == 10
    assert f"{GLOBAL}.warningThreshold" in said({"warningThreshold": value})[0]


REPORTED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a threshold that is not above the one below": (
        {"warningThreshold": 6, "criticalThreshold": 2},
        [f"{GLOBAL}.criticalThreshold: 2 is not above warningThreshold (6); raised to 7"],
    ),
    "both that are raised, one because of the other": (
        {"enabled": False, "warningThreshold": 29},
        [
            f"{GLOBAL}.criticalThreshold: 20 is not above warningThreshold (29); raised to 30",
            f"{GLOBAL}.globalCircuitBreakerThreshold: 30 is not above criticalThreshold (30); raised to 31",
        ],
    ),
    "an unknown field, with what may be meant": (
        {"histroySize": 5},
        [f"{GLOBAL}.histroySize: unknown field; did you mean historySize?"],
    ),
    "an unknown field that is like none": ({"colour": 5}, [f"{GLOBAL}.colour: unknown field"]),
    "a field in snake case": (
        {"unknown_tool_threshold": 5},
        [f"{GLOBAL}.unknown_tool_threshold: unknown field; did you mean unknownToolThreshold?"],
    ),
    "an unknown nested field": (
        {"detectors": {"pingpong": False}},
        [f"{GLOBAL}.detectors.pingpong: unknown field; did you mean detectors.pingPong?"],
    ),
    "a nested field that is not nested": (
        {"windowSize": 5},
        [f"{GLOBAL}.windowSize: unknown field; did you mean postCompactionGuard.windowSize?"],
    ),
    "a path where a name is expected": (
        {"detectors.pingPong": False},
        [f"{GLOBAL}.detectors.pingPong: unknown field; did you mean detectors.pingPong?"],
    ),
    "a block that is none": ({"detectors": 5}, [f"{GLOBAL}.detectors: 5 is not an object; ignored"]),
    "a switch that is none": (
        {"detectors": {"pingPong": "no"}},
        [f'{GLOBAL}.detectors.pingPong: "no" is neither true nor false; the default true is used'],
    ),
    "an enabled that is none": (
        {"enabled": "true"},
        [f'{GLOBAL}.enabled: "true" is neither true nor false; it counts as the default, unset'],
    ),
    "a policy that is none": (
        {"onCritical": "explode"},
        [
            f'{GLOBAL}.onCritical: "explode" is none of block_then_kill, kill, block, observe; '
            'the default "block_then_kill" is used'
        ],
    ),
    "a policy that is a list": (
        {"onCritical": []},
        [
            f"{GLOBAL}.onCritical: [] is none of block_then_kill, kill, block, observe; "
            'the default "block_then_kill" is used'
        ],
    ),
    "a threshold that the history never reaches": (
        {"enabled": True, "unknownToolThreshold": 31},
        [f"{GLOBAL}.unknownToolThreshold: 31 is never reached with a historySize of 30"],
    ),
    "a threshold that only a ping-pong reaches": (
        {"enabled": True, "warningThreshold": 5, "criticalThreshold": 11, "historySize": 10, "unknownToolThreshold": 9},
        [
            f"{GLOBAL}.criticalThreshold: 11 is never reached by generic_repeat, known_poll_no_progress "
            "with a historySize of 10",
            f"{GLOBAL}.globalCircuitBreakerThreshold: 30 is never reached with a historySize of 10",
        ],
    ),
    "a threshold not even a ping-pong reaches": (
        {"warningThreshold": 32, "criticalThreshold": 40, "detectors": {"genericRepeat": False}, "historySize": 30},
        [
            f"{GLOBAL}.globalCircuitBreakerThreshold: 30 is not above criticalThreshold (40); raised to 41",
            f"{GLOBAL}.warningThreshold: 32 is never reached with a historySize of 30",
            f"{GLOBAL}.criticalThreshold: 40 is never reached with a historySize of 30",
            f"{GLOBAL}.globalCircuitBreakerThreshold: 41 is never reached with a historySize of 30",
        ],
    ),
    "nothing about thresholds that no detector reads": (
        {
            "warningThreshold": 12,
            "historySize": 11,
            "globalCircuitBreakerThreshold": 11,
            "criticalThreshold": 13,
            "detectors": {"genericRepeat": False, "knownPollNoProgress": False, "pingPong": False},
        },
        [
            f"{GLOBAL}.globalCircuitBreakerThreshold: 11 is not above criticalThreshold (13); raised to 14",
            f"{GLOBAL}.globalCircuitBreakerThreshold: 14 is never reached with a historySize of 11",
        ],
    ),
    "nothing, where detection is off on purpose": ({"enabled": False, "unknownToolThreshold": 31}, []),
    "nothing, where thresholds are reached exactly": (
        {"enabled": True, "unknownToolThreshold": 30, "globalCircuitBreakerThreshold": 30, "criticalThreshold": 29},
        [],
    ),
    "a history too long to hold": (
        {"historySize": 10**9},
        [f"{GLOBAL}.historySize: 1000000000 is too large; {HISTORY_SIZE_MAX} is used"],
    ),
    "a window that no number in our state could hold": (
        {"postCompactionGuard": {"windowSize": 1e30}},
        [f"{GLOBAL}.postCompactionGuard.windowSize: 1e+30 is too large; {NUMBER_MAX} is used"],
    ),
    "a number that has no end": (
        {"historySize": float("inf")},
        [f"{GLOBAL}.historySize: Infinity is not a positive integer; the default 30 is used"],
    ),
    "a number that Python does not write": (
        {"historySize": -(1 << 20_000)},
        [f"{GLOBAL}.historySize: a number of thousands of digits is not a positive integer; the default 30 is used"],
    ),
}


@pytest.mark.parametrize("name", REPORTED)
def test_what_is_reported(name: str) -> None:
    block, expected = REPORTED[name]

    assert said(block) == expected


def test_what_an_agent_inherits_is_reported_once_and_what_it_causes_where_it_is_caused() -> None:
    warnings = said({"warningThreshold": 0, "enabled": True}, {"a": {"historySize": 15}, "b": {}})

    assert warnings == [
        f"{GLOBAL}.warningThreshold: 0 is not a positive integer; the default 10 is used",
        "agents.list[a].tools.loopDetection.criticalThreshold (agent a): 20 is never reached with a historySize of 15",
        "agents.list[a].tools.loopDetection.globalCircuitBreakerThreshold (agent a): "
        "30 is never reached with a historySize of 15",
    ]


def test_what_an_agent_raises_is_reported_at_the_agent_and_counts_as_set_there() -> None:
    block = AgentBlock("coder", {"enabled": False, "warningThreshold": 40}, "agents.list[1].tools.loopDetection")
    book, warnings = resolve({}, [block])

    assert [(warning.path, warning.agent_id) for warning in warnings] == [
        ("agents.list[1].tools.loopDetection.criticalThreshold", "coder"),
        ("agents.list[1].tools.loopDetection.globalCircuitBreakerThreshold", "coder"),
    ]
    assert {field for field, layer in book.for_agent("coder").layers.items() if layer == "agents.list[coder]"} == {
        "enabled",
        "warningThreshold",
        "criticalThreshold",
        "globalCircuitBreakerThreshold",
    }


def test_what_is_raised_for_everybody_is_reported_once_however_many_agents_inherit_it() -> None:
    agents: dict[str, dict[str, Any]] = {f"agent-{number}": {"enabled": True} for number in range(20)}

    assert said({"warningThreshold": 25}, agents) == [
        f"{GLOBAL}.criticalThreshold: 20 is not above warningThreshold (25); raised to 26"
    ]


@pytest.mark.parametrize(
    ("field", "value", "default"),
    [("historySize", "7", 30), ("onCritical", "no", "block_then_kill"), ("detectors.pingPong", 0, True)],
)
def test_what_cannot_be_used_at_an_agent_is_the_default_and_not_what_everybody_has(
    field: str, value: Any, default: Any
) -> None:
    own = {"detectors": {"pingPong": value}} if "." in field else {field: value}
    settings = resolve({"historySize": 40, "onCritical": "kill", "detectors": {"pingPong": False}}, {"a": own})[
        0
    ].for_agent("a")

    assert to_file_form(settings)[field] == default
    assert settings.layers[field] == "default"


def test_the_largest_numbers_can_be_stored_and_sent() -> None:
    settings = one(dict.fromkeys(NUMBERS, 10**30) | {"postCompactionGuard": {"windowSize": 10**30}})

    assert msgspec.msgpack.encode(arm(0, settings))
    assert max(value for value in to_file_form(settings).values() if isinstance(value, int)) < 2**31


def test_layers_in_the_file_form_are_those_that_are_not_the_default() -> None:
    form = to_file_form(resolve({"enabled": True}, {"a": {"historySize": 40}})[0].for_agent("a"))

    assert form["layers"] == {"enabled": GLOBAL, "historySize": "agents.list[a]"}
    assert form["postCompactionGuard.windowSize"] == 3


def finished(tool_name: str, args: Any, count: int, **outcome: Any) -> list[dict[str, Any]]:
    """The same call, attempted and finished again and again."""
    made: list[dict[str, Any]] = []
    for _ in range(count):
        made.append({"type": "tool_call", "tool_name": tool_name, "args": args})
        made.append({"type": "tool_result", "tool_name": tool_name, "args": args, **(outcome or {"result": "same"})})
    return made


def alternating(count: int) -> list[dict[str, Any]]:
    return [event for number in range(count) for event in finished("read", {"file": number % 2}, 1)]


HELD = 6
QUIET = {"genericRepeat": False, "knownPollNoProgress": False, "pingPong": False}
#: By detector: the threshold it reads, its switch, a run that goes on and on, and the highest count it can reach.
REACHES: dict[str, tuple[str, str | None, list[dict[str, Any]], int]] = {
    "generic_repeat": ("criticalThreshold", "genericRepeat", finished("read", {}, 40), HELD),
    "known_poll_no_progress": ("criticalThreshold", "knownPollNoProgress", finished("command_status", {}, 40), HELD),
    "ping_pong": ("criticalThreshold", "pingPong", alternating(40), HELD + 1),
    "global_circuit_breaker": ("globalCircuitBreakerThreshold", None, finished("read", {}, 40), HELD),
    "unknown_tool_repeat": (
        "unknownToolThreshold",
        None,
        finished("raed", {}, 40, error="unknown tool: raed"),
        HELD,
    ),
}


@pytest.mark.parametrize("detector", REACHES)
@pytest.mark.parametrize("beyond", [0, 1])
def test_what_is_reported_as_out_of_reach_is_what_the_core_never_reaches(detector: str, beyond: int) -> None:
    field, switch, events, most = REACHES[detector]
    others = {"criticalThreshold": 4, "globalCircuitBreakerThreshold": 90, "unknownToolThreshold": 90}
    block: dict[str, Any] = {"enabled": True, "historySize": HELD, "warningThreshold": 1} | others
    block |= {field: most + beyond, "detectors": QUIET | ({switch: True} if switch else {})}
    fired = {
        decision["detector"]
        for decision in fold_all(events, settings_of(block))
        if decision["level"] == "critical" and decision["count"] >= most
    }

    assert (detector in fired) is (beyond == 0)
    assert any(f".{field}: {most + beyond} is never reached" in warning for warning in said(block)) is (beyond == 1)


def test_a_history_of_one_call_holds_no_ping_pong() -> None:
    block = {"enabled": True, "historySize": 1, "warningThreshold": 2, "detectors": QUIET | {"pingPong": True}}

    assert fold_all(alternating(20), settings_of(block)) == []
    assert f"{GLOBAL}.warningThreshold: 2 is never reached with a historySize of 1" in said(block)


NUMBERS = [
    "historySize",
    "warningThreshold",
    "criticalThreshold",
    "globalCircuitBreakerThreshold",
    "unknownToolThreshold",
]
SWITCHES = ["detectors.genericRepeat", "detectors.knownPollNoProgress", "detectors.pingPong"]
DEFAULTS: dict[str, Any] = {"enabled": None, **dict.fromkeys(SWITCHES, True)}
DEFAULTS |= {"historySize": 30, "warningThreshold": 10, "criticalThreshold": 20, "unknownToolThreshold": 10}
DEFAULTS |= {"globalCircuitBreakerThreshold": 30, "postCompactionGuard.windowSize": 3, "onCritical": "block_then_kill"}
ANYTHING = st.sampled_from([None, "7", True, False, [], {}, float("nan"), 10**40])
BLOCKS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(
            [*NUMBERS, "postCompactionGuard.windowSize"], st.integers(-5, 60) | st.floats(-3, 60) | ANYTHING
        ),
        **dict.fromkeys(["enabled", *SWITCHES], st.booleans() | ANYTHING),
        "onCritical": st.sampled_from(["kill", "block", "observe", "block_then_kill", "stop"]) | ANYTHING,
    },
)


def nested(flat: dict[str, Any]) -> dict[str, Any]:
    """A block as it stands in a file."""
    block: dict[str, Any] = {}
    for path, value in flat.items():
        outer, _dot, inner = path.rpartition(".")
        (block.setdefault(outer, {}) if outer else block)[inner] = value
    return block


def acceptable(field: str, value: Any) -> bool:
    if field == "enabled" or field in SWITCHES:
        return value is True or value is False
    if field == "onCritical":
        return isinstance(value, str) and value in ("kill", "block", "observe", "block_then_kill")
    return type(value) in (int, float) and value > 0 and value % 1 == 0


def naive(stack: list[tuple[str, dict[str, Any]]]) -> tuple[dict[str, Any], dict[str, str]]:
    """The rules restated, one after the other: values, and the layer that set each."""
    values, layers, height = dict(DEFAULTS), dict.fromkeys(DEFAULTS, "default"), dict.fromkeys(DEFAULTS, 0)
    for index, (layer, block) in enumerate(stack, start=1):
        for field, value in block.items():
            if value is not None:
                good = acceptable(field, value)
                values[field] = value if good else DEFAULTS[field]
                layers[field] = layer if good else "default"
                height[field] = index
    for field in (*NUMBERS, "postCompactionGuard.windowSize"):
        values[field] = int(min(values[field], 10_000 if field == "historySize" else 10**9))
    for lower, upper in (NUMBERS[1:3], NUMBERS[2:4]):
        if values[upper] <= values[lower]:
            values[upper] = values[lower] + 1
            height[upper] = max(height[upper], height[lower])
            layers[upper] = stack[height[upper] - 1][0]
    return values, layers


@given(BLOCKS, BLOCKS)
def test_layers_and_order_are_those_of_the_plain_rules(shared: dict[str, Any], own: dict[str, Any]) -> None:
    book, _warnings = resolve(nested(shared), {"a": nested(own)})
    stack = [(GLOBAL, shared), ("agents.list[a]", own)]

    for settings, expected in ((book.everybody, naive(stack[:1])), (book.for_agent("a"), naive(stack))):
        values = to_file_form(settings) | {"layers": settings.layers}
        assert values == expected[0] | {"layers": expected[1]}
        assert 0 < settings.warning_threshold < settings.critical_threshold < settings.global_circuit_breaker_threshold
        assert settings.lowest_threshold == min(settings.warning_threshold, settings.unknown_tool_threshold)


@given(BLOCKS)
def test_a_warning_is_there_for_every_value_that_is_not_in_force_as_stated(shared: dict[str, Any]) -> None:
    book, warnings = resolve(nested(shared), {})
    form = to_file_form(book.everybody)
    reported = {warning.path for warning in warnings}
    changed = {f"{GLOBAL}.{field}" for field, value in shared.items() if value is not None and form[field] != value}

    assert changed <= reported
