"""The generated schemas are current, true to the types, and their examples can be used as they are."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwarden.schemas import examples, generate
from loopwarden.schemas.configuration import ConfigurationFile
from loopwarden.schemas.events import EVENT_TYPES, Event
from loopwarden.schemas.generate import FOLDER, generated, schemas
from loopwarden.schemas.signals import Signal, SignalAck
from loopwarden.schemas.verdicts import Verdict
from loopwarden.streams.configuration import parse_configuration
from loopwarden.streams.ingest import Refusal, read_event
from loopwarden.streams.partition import PartitionRuns
from loopwarden.streams.settings import resolve

README = Path(__file__).parents[1] / "README.md"
SCHEMAS = schemas()
VALIDATORS = {name: jsonschema.Draft202012Validator(schema) for name, schema in SCHEMAS.items()}
SHOWN: list[tuple[str, Any, dict[str, Any]]] = [
    *((name, Event, example) for name, shown in examples.EVENTS.items() for example in shown),
    *(("event", Event, example) for shown in examples.EVENTS.values() for example in shown),
    ("verdict", Verdict, examples.VERDICT),
    ("signal", Signal, examples.SIGNAL),
    ("signal_ack", SignalAck, examples.SIGNAL_ACK),
    ("configuration", ConfigurationFile, examples.CONFIGURATION),
]


class Record(NamedTuple):
    value: bytes
    offset: int
    timestamp: int
    headers: tuple[tuple[str, bytes], ...] = ()


def is_valid(name: str, value: Any) -> bool:
    return bool(VALIDATORS[name].is_valid(value))


def is_taken(value: Any) -> bool:
    return not isinstance(read_event(json.dumps(value).encode()), Refusal)


def milliseconds(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)


# Generated files


def test_every_generated_file_is_current_and_none_is_left_over() -> None:
    found = {file.name: file.read_text(encoding="utf-8") for file in FOLDER.iterdir()}

    assert found == generated()


@pytest.mark.parametrize("name", generated())
def test_generated_files_are_sorted_and_end_with_a_new_line(name: str) -> None:
    text = generated()[name]

    assert json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n" == text


def test_check_names_the_files_that_differ_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "FOLDER", tmp_path)
    monkeypatch.setattr("sys.argv", ["generate"])
    written = generate.main()
    (tmp_path / "signal.schema.json").write_text("{}\n")
    (tmp_path / "verdict.schema.json").unlink()
    capsys.readouterr()
    monkeypatch.setattr("sys.argv", ["generate", "--check"])
    checked = generate.main()

    assert (written, checked) == (0, 1)
    assert re.findall(r"^stale (\S+)$", capsys.readouterr().out, re.M) == ["verdict.schema.json", "signal.schema.json"]
    assert (tmp_path / "signal.schema.json").read_text() == "{}\n"


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_a_schema_with_a_title_and_a_description(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])

    assert SCHEMAS[name]["title"] == name
    assert SCHEMAS[name]["description"]
    assert SCHEMAS[name]["$id"].endswith(f":{name}")


@pytest.mark.parametrize("name", [name for name in SCHEMAS if name != "configuration"])
def test_every_field_says_what_it_means(name: str) -> None:
    silent = [
        f"{definition}.{field}"
        for definition, schema in SCHEMAS[name]["$defs"].items()
        for field, described in schema["properties"].items()
        if field != "type" and not described.get("description")
    ]

    assert silent == []


# Examples


@pytest.mark.parametrize(("name", "kind", "example"), SHOWN)
def test_every_example_is_valid_and_survives_its_type(name: str, kind: Any, example: dict[str, Any]) -> None:
    again = json.loads(msgspec.json.encode(msgspec.json.decode(json.dumps(example), type=kind)))

    assert is_valid(name, example)
    # A configuration comes back with its defaults, everything else just as it was.
    assert again == example or (kind is ConfigurationFile and _holds(again, example))


def _holds(whole: Any, part: Any) -> bool:
    if not isinstance(part, dict):
        return bool(whole == part)
    return isinstance(whole, dict) and all(name in whole and _holds(whole[name], part[name]) for name in part)


def test_there_is_an_example_of_every_type_of_event() -> None:
    assert sorted(examples.EVENTS) == sorted(EVENT_TYPES)
    assert all({example["type"] for example in shown} == {name} for name, shown in examples.EVENTS.items())


def test_the_core_says_exactly_what_the_examples_of_verdict_and_signal_show() -> None:
    evidence = examples.VERDICT["evidence"]
    issued_ms = milliseconds(examples.SIGNAL["issued_at"])
    call = examples.EVENTS["tool_call"][0] | {"time": examples.VERDICT["time"]}
    result = examples.EVENTS["tool_result"][0]
    step = (evidence["last_offset"] - evidence["first_offset"]) // examples.VERDICT["count"]
    records = []
    for number in range(examples.VERDICT["count"] + 1):
        for behind, event in enumerate((call, result)):
            value = event | {"tool_call_id": f"call-{number}", "event_id": f"{event['event_id']}-{number}"}
            offset = evidence["first_offset"] + number * step + behind
            records.append(Record(json.dumps(value).encode(), offset, issued_ms))
    book, _warnings = resolve({"enabled": True}, {})
    outcome = PartitionRuns(evidence["topic"], evidence["partition"], book, None, lambda _key: None).fold(
        records, issued_ms
    )
    verdicts = [json.loads(msgspec.json.encode(verdict)) for verdict, _time in outcome.verdicts]
    signals = [json.loads(msgspec.json.encode(signal)) for signal, _time in outcome.signals]

    assert verdicts[-1] == examples.VERDICT
    assert signals == [examples.SIGNAL]
    assert all(is_valid("verdict", verdict) for verdict in verdicts)


def test_the_examples_of_configuration_raise_no_warnings() -> None:
    assert parse_configuration(json.dumps(examples.CONFIGURATION), "example").warnings == []
    assert resolve(examples.CONFIG_LAYER, {})[1] == []


def test_the_events_that_the_readme_shows_are_valid() -> None:
    shown = [json.loads(line) for line in README.read_text(encoding="utf-8").splitlines() if line.startswith('{"type"')]

    assert {event["type"] for event in shown} == set(EVENT_TYPES)
    assert [event for event in shown if not is_valid("event", event)] == []


# What the schema says, and what the worker takes

# Numbers that are whole but written as fractions are left out: see the test of them below.
JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: not number.is_integer())
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=6,
)


def values_of(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return values that a schema of an event describes, as one who has only the schema would make them."""
    if "$ref" in schema:
        return values_of(SCHEMAS["event"]["$defs"][schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema:
        return st.one_of([values_of(choice) for choice in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    simple: dict[str, st.SearchStrategy[Any]] = {
        "null": st.none(),
        "boolean": st.booleans(),
        "integer": st.integers(schema.get("minimum"), schema.get("maximum")),
        "number": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**63),
        "string": st.text(
            st.characters(exclude_categories=["Cs"]),
            min_size=schema.get("minLength", 0),
            max_size=min(schema.get("maxLength", 40), 40),
        ),
    }
    if schema.get("type") != "object":
        return simple[schema["type"]] if "type" in schema else JSON_VALUES
    fields = {name: values_of(field) for name, field in schema["properties"].items()}
    required = {name: fields.pop(name) for name in schema["required"]}
    unknown = st.dictionaries(st.sampled_from(["later", "x", ""]), JSON_VALUES, max_size=1)
    return st.builds(lambda known, more: known | more, st.fixed_dictionaries(required, optional=fields), unknown)


EVENTS = values_of(SCHEMAS["event"])


@settings(deadline=None)  # validating takes milliseconds, but not on a busy machine
@given(EVENTS)
def test_every_event_that_the_schema_describes_is_read(event: dict[str, Any]) -> None:
    read = read_event(json.dumps(event).encode())

    assert is_valid("event", event)
    assert not isinstance(read, Refusal), read
    again = json.loads(msgspec.json.encode(read))
    assert (again["type"], again["session_id"]) == (event["type"], event["session_id"])


@settings(deadline=None)  # as above
@given(EVENTS, st.data())
def test_an_event_with_one_field_changed_or_gone_is_read_if_and_only_if_it_is_still_valid(
    event: dict[str, Any], data: st.DataObject
) -> None:
    definition = next(
        known
        for known in SCHEMAS["event"]["$defs"].values()
        if known["properties"].get("type", {}).get("enum") == [event["type"]]
    )
    field = data.draw(st.sampled_from(sorted(definition["properties"])))
    if data.draw(st.booleans()):
        changed = event | {field: data.draw(JSON_VALUES)}
    else:
        changed = {name: value for name, value in event.items() if name != field}

    assert is_valid("event", changed) == is_taken(changed)


USABLE = {"type": "tool_call", "session_id": "s", "tool_name": "read"}
RESULT = USABLE | {"type": "tool_result", "result": "x"}
GOOD: dict[str, dict[str, Any]] = {
    "the least that a call may say": USABLE,
    "an unknown field": USABLE | {"later": [1]},
    "any arguments": USABLE | {"args": [None, {"a": "b"}, 1.5]},
    "arguments that are null": USABLE | {"args": None},
    "a name of 512 characters beyond 16 bits": USABLE | {"tool_name": "😀" * 512},
    "a result with usage": RESULT | {"usage": {"cost_usd": 0.1}},
    "the largest sequence": USABLE | {"sequence": 2**63 - 1},
}
BROKEN: dict[str, Any] = {
    "nothing": {},
    "a list": [USABLE],
    "no session": {"type": "tool_call", "tool_name": "read"},
    "an empty session": USABLE | {"session_id": ""},
    "a null session": USABLE | {"session_id": None},
    "a number as session": USABLE | {"session_id": 7},
    "a session without end": USABLE | {"session_id": "x" * 513},
    "no tool": {"type": "tool_call", "session_id": "s"},
    "a null tool": USABLE | {"tool_name": None},
    "no type": {"session_id": "s", "tool_name": "read"},
    "an unknown type": USABLE | {"type": "tool_progress"},
    "a text as sequence": USABLE | {"sequence": "1"},
    "a sequence beyond 64 bits": USABLE | {"sequence": 2**63},
    "a switch as sequence": USABLE | {"sequence": True},
    "a tool name without end": USABLE | {"tool_name": "x" * 513},
    "a text as switch": {"type": "compaction", "session_id": "s", "retrying": "yes"},
    "a null where a default stands": {"type": "compaction", "session_id": "s", "retrying": None},
    "usage that is a list": RESULT | {"usage": []},
    "usage with a cost in words": RESULT | {"usage": {"cost_usd": "much"}},
}


@pytest.mark.parametrize("name", GOOD)
def test_schema_and_worker_both_take(name: str) -> None:
    assert (is_valid("event", GOOD[name]), is_taken(GOOD[name])) == (True, True)


@pytest.mark.parametrize("name", BROKEN)
def test_schema_and_worker_both_refuse(name: str) -> None:
    assert (is_valid("event", BROKEN[name]), is_taken(BROKEN[name])) == (False, False)


def test_a_whole_number_written_as_a_fraction_is_refused_though_no_schema_can_say_so() -> None:
    fraction = USABLE | {"sequence": 1.0}  # to JSON Schema 1.0 is an integer

    assert (is_valid("event", fraction), is_taken(fraction)) == (True, False)
