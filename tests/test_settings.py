"""Settings: layers, checks, order, and what is reported."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwarden.streams.settings import HISTORY_SIZE_MAX, Settings, resolve, to_file_form

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
    "an unknown field, with what may be meant": (
        {"histroySize": 5},
        [f"{GLOBAL}.histroySize: unknown field; did you mean historySize?"],
    ),
    "an unknown nested field": (
        {"detectors": {"pingpong": False}},
        [f"{GLOBAL}.detectors.pingpong: unknown field; did you mean detectors.pingPong?"],
    ),
    "a block that is none": ({"detectors": 5}, [f"{GLOBAL}.detectors: 5 is not an object; ignored"]),
    "a switch that is none": (
        {"detectors": {"pingPong": "no"}},
        [f'{GLOBAL}.detectors.pingPong: "no" is neither true nor false; ignored'],
    ),
    "a policy that is none": (
        {"onCritical": "explode"},
        [f'{GLOBAL}.onCritical: "explode" is none of block_then_kill, kill, block, observe; ignored'],
    ),
    "a threshold that the history never reaches": (
        {"enabled": True, "unknownToolThreshold": 31},
        [f"{GLOBAL}.unknownToolThreshold: 31 is never reached with a historySize of 30"],
    ),
    "nothing, where only a ping-pong reaches it": (
        {"enabled": True, "criticalThreshold": 31, "globalCircuitBreakerThreshold": 32, "historySize": 30},
        [f"{GLOBAL}.globalCircuitBreakerThreshold: 32 is never reached with a historySize of 30"],
    ),
    "nothing, where detection is off": ({"unknownToolThreshold": 31}, []),
    "a history too long to hold": (
        {"historySize": 10**9},
        [f"{GLOBAL}.historySize: 1000000000 is more than is held; {HISTORY_SIZE_MAX} is used"],
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
        "agents.list[a].tools.loopDetection.criticalThreshold: 20 is never reached with a historySize of 15",
        "agents.list[a].tools.loopDetection.globalCircuitBreakerThreshold: "
        "30 is never reached with a historySize of 15",
    ]


NUMBERS = [
    "historySize",
    "warningThreshold",
    "criticalThreshold",
    "globalCircuitBreakerThreshold",
    "unknownToolThreshold",
]
BLOCKS = st.dictionaries(
    st.sampled_from(NUMBERS), st.one_of(st.integers(-5, 60), st.floats(-3, 60), st.sampled_from([None, "7", True]))
)


def naive(*stack: dict[str, Any]) -> dict[str, int]:
    values = {"historySize": 30, "warningThreshold": 10, "criticalThreshold": 20}
    values |= {"globalCircuitBreakerThreshold": 30, "unknownToolThreshold": 10}
    defaults = dict(values)
    for layer in stack:
        for name, value in layer.items():
            if value is not None:
                whole = not isinstance(value, (str, bool)) and value == int(value) and value > 0
                values[name] = int(value) if whole else defaults[name]
    values["criticalThreshold"] = max(values["criticalThreshold"], values["warningThreshold"] + 1)
    values["globalCircuitBreakerThreshold"] = max(
        values["globalCircuitBreakerThreshold"], values["criticalThreshold"] + 1
    )
    return values


@given(BLOCKS, BLOCKS)
def test_layers_and_order_are_those_of_the_plain_rules(shared: dict[str, Any], own: dict[str, Any]) -> None:
    settings = resolve(shared, {"a": own})[0].for_agent("a")

    assert {name: to_file_form(settings)[name] for name in NUMBERS} == naive(shared, own)
    assert settings.lowest_threshold == min(settings.warning_threshold, settings.unknown_tool_threshold)
