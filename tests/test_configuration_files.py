"""Configuration files: what may stand in them, and what is said, with file and place, where they cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import json5
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwarden.streams.configuration import Configuration, ConfigurationError, load_configuration, parse_configuration


def refusal(text: str) -> str:
    with pytest.raises(ConfigurationError) as raised:
        parse_configuration(text, "c")
    return str(raised.value)


MISTAKES: dict[str, tuple[str, str]] = {
    "a comma that is missing in an object": ("{a: 1 b: 2}", 'c:1:7: Unexpected "b"; , or } is expected'),
    "a comma that is missing in an array": ("{a: [1 2]}", 'c:1:8: Unexpected "2"; , or ] is expected'),
    "a comma that is missing on a later line": ("{\n  a: 1\n  b: 2\n}", 'c:3:3: Unexpected "b"; , or } is expected'),
    "a comma too many": ("{a: 1,, b: 2}", 'c:1:7: Unexpected ","; a key or } is expected'),
    "a comma before everything": ("{\n,a: 1}", 'c:2:1: Unexpected ","; a key or } is expected'),
    "a colon that is missing": ('{"a" 1}', 'c:1:6: Unexpected "1"; : is expected'),
    "a colon too many, on the second line": ("{a: 1,\r\n b:: 2}", 'c:2:4: Unexpected ":"; a value is expected'),
    "a value that is missing": ("{a: }", 'c:1:5: Unexpected "}"; a value is expected'),
    "a brace too many": ("{a: 1}}", 'c:1:7: Unexpected "}"; the end of the file is expected'),
    "a brace that is missing": ("{a: {b: 1}", "c:1:11: Unexpected end of input; , or } is expected"),
    "a bracket that is missing": ("{a: [1,", "c:1:8: Unexpected end of input; a value or ] is expected"),
    "a quote that is missing": ("{a: 'x\n}", "c:1:7: the line ends within a string; a closing quote is expected"),
    "a quote that is missing at the end": (
        '{a: "x,',
        "c:1:8: the text ends within a string; a closing quote is expected",
    ),
    "a comment that does not end": ("{a: 1} /* b", "c:1:12: Unexpected end of input"),
    "a word that is none": ("{a:\n  tru}", 'c:2:6: Unexpected "}"'),
    "nothing but a comment": ("// nothing\n", "c:2:1: Unexpected end of input; a value is expected"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_shown_with_its_line_and_column_and_what_is_expected_there(name: str) -> None:
    text, expected = MISTAKES[name]

    assert refusal(text) == expected


def test_a_mistake_far_down_a_long_file_is_still_found() -> None:
    text = "{\n" + "".join(f"  key{number}: {number},\n" for number in range(2000)) + "  a: 1 b: 2\n}"

    assert refusal(text) == 'c:2002:8: Unexpected "b"'


@given(st.text(alphabet="{}[]:,\"'ab1-. \n\r\t/*\\u2028\ufeff;", max_size=30))
def test_any_text_is_either_used_or_refused_by_name(text: str) -> None:
    try:
        configuration = parse_configuration(text, "c")
    except ConfigurationError as error:
        assert str(error).startswith("c:")
    else:
        assert isinstance(configuration, Configuration)


REFUSED: dict[str, tuple[str, str]] = {
    "an array": ("[]", "c: the file holds no object; { … } is expected"),
    "a number": ("5", "c: the file holds no object; { … } is expected"),
    "a port that is too large": (
        "{worker: {statusPort: 70000}}",
        "c: worker.statusPort: Expected `int` <= 65535, not 70000",
    ),
    "a port that is text": ("{worker: {statusPort: 'x'}}", 'c: worker.statusPort: Expected `int`, not "x"'),
    "a port without end": ("{worker: {statusPort: Infinity}}", "c: worker.statusPort: Expected `int`, not Infinity"),
    "a format that is none": (
        "{worker: {logFormat: 'xml'}}",
        'c: worker.logFormat: one of auto, json, text is expected, not "xml"',
    ),
    "no partitions": ("{topics: {partitions: 0}}", "c: topics.partitions: Expected `int` >= 1, not 0"),
    "partitions by name": ("{topics: {partitions: [1]}}", "c: topics.partitions: Expected `int`, not an array"),
    "a block that is none": ("{worker: 5}", "c: worker: Expected `object`, not 5"),
    "a prefix that Kafka refuses": (
        "{topics: {prefix: 'a b'}}",
        "c: topics.prefix: \"a b\" cannot name a topic; 0 to 200 letters, digits, '.', '_' and '-' are expected",
    ),
    "a group without a name": (
        "{worker: {group: ''}}",
        "c: worker.group: \"\" cannot name a topic; 1 to 200 letters, digits, '.', '_' and '-' are expected",
    ),
    "a Kafka property that is no text, without its value": (
        "{kafka: {'sasl.password': ['secret']}}",
        "c: kafka.sasl.password: text, a whole number or a boolean is expected",
    ),
    "an agent that is none": ("{agents: {list: [5]}}", "c: agents.list[0]: an object is expected, not 5"),
    "an agent's block that is none": (
        "{agents: {list: [{}, {id: 'a', tools: {loopDetection: []}}]}}",
        "c: agents.list[1].tools.loopDetection: an object is expected, not an array",
    ),
    "an agent's tools that are none": (
        "{agents: {list: [{id: 'a', tools: true}]}}",
        "c: agents.list[0].tools: an object is expected, not true",
    ),
    "a list that is none": ("{agents: {list: {}}}", "c: agents.list: an array is expected, not an object"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_value_that_cannot_be_used_is_named_by_its_path_with_what_is_expected(name: str) -> None:
    text, expected = REFUSED[name]

    assert refusal(text) == expected


def test_a_misspelt_field_of_ours_is_refused_with_what_may_be_meant() -> None:
    message = refusal("{worker: {statsPort: 1}}")

    assert message.startswith("c: worker: Object contains unknown field `statsPort`; did you mean statusPort?")


def test_a_secret_does_not_show_in_a_refusal() -> None:
    for kafka in ("{'sasl.password': {a: 'hunter2'}}", "{'sasl.password': [ 'hunter2' ]}", "['hunter2']", "'hunter2'"):
        assert "hunter2" not in refusal(f"{{kafka: {kafka}}}")


WARNED: dict[str, tuple[str, list[str]]] = {
    "nothing of other blocks": ("{gateway: {prot: 1}, tools: {profil: 'x'}, agents: {defaults: {x: 1}, lists: 2}}", []),
    "nothing of an agent's other tools": ("{agents: {list: [{id: 'a', tools: {deny: ['x']}, modl: 'x'}]}}", []),
    "nothing of blocks that are null": ("{tools: {loopDetection: null}, agents: {list: null}}", []),
    "a misspelt field at an agent, by its index and the agent": (
        "{agents: {list: [{id: 'a'}, {id: 'b', tools: {loopDetection: {historySise: 5}}}]}}",
        [
            "agents.list[1].tools.loopDetection.historySise (agent b): unknown field; did you mean historySize?",
        ],
    ),
    "agents without an id": (
        "{agents: {list: [{}, {id: ''}, {id: 5}]}}",
        [f"agents.list[{index}].id: an agent without an id cannot be told apart; ignored" for index in range(3)],
    ),
    "copies that let no write succeed": (
        "{topics: {minInsyncReplicas: 2}}",
        ["topics.minInsyncReplicas: 2 is more than replicationFactor (1); brokers would refuse every write"],
    ),
}


@pytest.mark.parametrize("name", WARNED)
def test_what_is_warned_of(name: str) -> None:
    text, expected = WARNED[name]

    assert [str(warning) for warning in parse_configuration(text, "c").warnings] == expected


def test_of_two_entries_for_an_agent_the_first_counts_as_in_openclaw() -> None:
    agents = [
        {"id": "a", "tools": {"loopDetection": {"historySize": 40}}},
        {"id": "a", "tools": {"loopDetection": {"historySize": 50}}},
    ]
    configuration = parse_configuration(json5.dumps({"agents": {"list": agents}}), "c")

    assert configuration.book.for_agent("a").history_size == 40
    assert [str(warning) for warning in configuration.warnings] == [
        "agents.list[1].id (agent a): a is listed before; the first entry counts, this one is ignored"
    ]


def test_all_that_json5_allows_may_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "c.json5"
    file.write_bytes(
        b"\xef\xbb\xbf// a byte order mark before, Windows line ends\r\n"
        b"{ /* and\r\n more */ tools: { 'loopDetection': { \"enabled\": true, historySize: 3.2e1, }, },\r\n"
        b"worker: { group: 'a\\\r\nb', statusPort: +0x3e8, }, }\r\n"
    )
    configuration = load_configuration(file)

    assert configuration.warnings == []
    assert configuration.book.everybody.history_size == 32
    assert (configuration.file.worker.group, configuration.file.worker.status_port) == ("ab", 1000)


def test_what_is_not_in_a_file_has_its_default(tmp_path: Path) -> None:
    file = tmp_path / "c.json5"
    file.write_text("{}")

    assert load_configuration(file).file == load_configuration(None).file
    assert load_configuration(file).book.everybody == load_configuration(None).book.everybody


@pytest.mark.parametrize("opening", ["[", "{a:"])
@pytest.mark.parametrize("depth", [10, 300, 20_000])
def test_nesting_of_any_depth_is_refused_and_not_a_crash(opening: str, depth: int) -> None:
    assert refusal(opening * depth).startswith("c:")


def test_values_of_any_type_in_a_block_are_reported_and_not_a_crash() -> None:
    values: list[Any] = [None, True, -1, 1.5, 1e300, "x", [], {}, [[1]], "\ud800", "ä" * 100]
    fields = ("enabled", "historySize", "detectors", "postCompactionGuard", "onCritical", "unheard")
    for value in values:
        for field in fields:
            text = json5.dumps({"tools": {"loopDetection": {field: value}}})
            for warning in parse_configuration(text, "c").warnings:
                assert warning.path.startswith(f"tools.loopDetection.{field}") or "Threshold" in warning.path
                assert len(warning.message) < 200
