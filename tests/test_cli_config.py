"""``loopwarden config check``: what it prints, for people and for scripts, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import json5
import pytest
from click.testing import CliRunner, Result

from loopwarden.streams.cli.config import config


@pytest.fixture
def check(tmp_path: Path) -> Any:
    """A function that writes a file and checks it."""

    def run(content: str | dict[str, Any], *options: str) -> Result:
        file = tmp_path / "c.json5"
        file.write_text(content if isinstance(content, str) else json5.dumps(content), encoding="utf-8")
        return CliRunner().invoke(config, ["check", *options, str(file)])

    return run


def rows(output: str) -> dict[str, dict[str, list[str]]]:
    """What is printed, by agent and setting: value and layer."""
    tables: dict[str, dict[str, list[str]]] = {}
    for paragraph in output.split("\n\n"):
        title, *lines = [line.rstrip() for line in paragraph.strip().splitlines()]
        if lines and lines[0].split() == ["setting", "value", "set", "by"]:
            value, layer = lines[0].index("value"), lines[0].index("set by")
            tables[title] = {
                line[:value].rstrip(): [line[value:layer].rstrip(), line[layer:].rstrip()] for line in lines[1:]
            }
    return tables


MIXED = {
    "gateway": {"port": 1},
    "tools": {"loopDetection": {"enabled": True, "warningThreshold": 25}},
    "agents": {
        "list": [
            {"id": "main"},
            {"id": "coder", "tools": {"loopDetection": {"historySize": 60, "detectors": {"pingPong": False}}}},
            {"id": "batch", "tools": {"loopDetection": {"enabled": False, "onCritical": "observe"}}},
        ]
    },
}


def test_each_agent_is_shown_and_then_all_others_with_what_set_each_value(check: Any) -> None:
    shown = rows(check(MIXED).stdout)

    assert list(shown) == ["main", "coder", "batch", "every other agent"]
    assert shown["main"] == shown["every other agent"]
    assert shown["coder"] == shown["main"] | {
        "historySize": ["60", "agents.list[coder]"],
        "detectors.pingPong": ["false", "agents.list[coder]"],
    }
    assert shown["batch"] == shown["main"] | {
        "enabled": ["false (guard off too)", "agents.list[batch]"],
        "onCritical": ["observe", "agents.list[batch]"],
    }
    assert shown["main"] == {
        "enabled": ["true", "tools.loopDetection"],
        "historySize": ["30", "default"],
        "warningThreshold": ["25", "tools.loopDetection"],
        "criticalThreshold": ["26", "tools.loopDetection"],
        "globalCircuitBreakerThreshold": ["30", "default"],
        "unknownToolThreshold": ["10", "default"],
        "postCompactionGuard.windowSize": ["3", "default"],
        "detectors.genericRepeat": ["true", "default"],
        "detectors.knownPollNoProgress": ["true", "default"],
        "detectors.pingPong": ["true", "default"],
        "onCritical": ["block_then_kill", "default"],
    }


def test_scripts_get_the_same_as_people(check: Any) -> None:
    told = json.loads(check(MIXED, "--json").stdout)
    shown = rows(check(MIXED).stdout)

    assert [agent["agent"] for agent in told["agents"]] == list(shown)
    for agent in told["agents"]:
        table = shown[agent["agent"]]
        assert agent["layers"] == {path: layer for path, (_value, layer) in table.items()}
        for path, (value, _layer) in table.items():
            assert value.split()[0] == (agent[path] if isinstance(agent[path], str) else json.dumps(agent[path]))
    assert told["warnings"] == [
        {
            "path": "tools.loopDetection.criticalThreshold",
            "message": "20 is not above warningThreshold (25); raised to 26",
            "agent_id": None,
        }
    ]


def test_an_empty_file_shows_the_defaults_and_warns_of_nothing(check: Any) -> None:
    result = check("{}", "--strict")

    assert result.exit_code == 0
    assert rows(result.stdout)["every other agent"]["enabled"] == ["unset (post-compaction guard only)", "default"]
    assert result.stdout.endswith("nothing to warn of\n")


def test_brackets_and_odd_letters_are_printed_as_they_are(check: Any) -> None:
    block = {"onCritical": "[bold]x[/bold]", "[red]": 1, "\ud800": 1, "historySize": 40}
    result = check({"agents": {"list": [{"id": "[/i] :smile: ä", "tools": {"loopDetection": block}}]}})
    lines = result.stdout.splitlines()

    assert result.exit_code == 0
    assert lines[0].rstrip() == "[/i] :smile: ä"
    assert rows(result.stdout)["[/i] :smile: ä"]["historySize"] == ["40", "agents.list[[/i] :smile: ä]"]
    assert [line.split(" (agent")[0] for line in lines if line.startswith("warning: ")] == [
        "warning: agents.list[0].tools.loopDetection.[red]",
        "warning: agents.list[0].tools.loopDetection.\\ud800",
        "warning: agents.list[0].tools.loopDetection.onCritical",
    ]
    assert '"[bold]x[/bold]" is none of' in result.stdout


def test_warnings_are_one_line_each_however_long(check: Any) -> None:
    result = check({"tools": {"loopDetection": {"x" * 300: 1, "historySize": "y" * 300}}})

    assert len([line for line in result.stdout.splitlines() if line.startswith("warning: ")]) == 2
    assert f"tools.loopDetection.{'x' * 300}: unknown field" in result.stdout


def test_a_long_name_takes_one_line_in_a_table(check: Any) -> None:
    agent = "agent with a long name " * 10 + "."
    shown = rows(check({"agents": {"list": [{"id": agent, "tools": {"loopDetection": {"historySize": 40}}}]}}).stdout)

    assert shown[agent]["historySize"] == ["40", f"agents.list[{agent}]"]


def test_nothing_is_coloured_where_nobody_looks(check: Any) -> None:
    assert "\x1b" not in check(MIXED).stdout


#: By what is in the file: exit code without ``--strict``, and with it.
ENDS: dict[str, tuple[str, int, int]] = {
    "nothing to warn of": ("{tools: {loopDetection: {enabled: true}}}", 0, 0),
    "something to warn of": ("{tools: {loopDetection: {enabld: true}}}", 0, 1),
    "a mistake in writing": ("{tools: }", 2, 2),
    "a value of ours that is none": ("{worker: {statusPort: -1}}", 2, 2),
    "a Kafka property that is none": ("{kafka: {'bootstrap.server': 'a:1'}}", 2, 2),
    "a Kafka value that is none": ("{kafka: {'security.protocol': 'TLS'}}", 2, 2),
    "Kafka settings that are completed elsewhere": ("{kafka: {'security.protocol': 'SASL_SSL'}}", 0, 0),
}


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_the_exit_code_says_whether_a_file_can_be_used(check: Any, name: str, options: list[str]) -> None:
    content, lenient, strict = ENDS[name]

    assert check(content, *options).exit_code == lenient
    assert check(content, "--strict", *options).exit_code == strict


def test_what_is_wrong_goes_to_standard_error_with_file_and_place(check: Any, tmp_path: Path) -> None:
    written = check("{\n  tools: }")
    kafka = check("{kafka: {'bootstrap.server': 'a:1'}}")

    assert (written.stdout, kafka.stdout) == ("", "")
    assert written.stderr == f'error: {tmp_path}/c.json5:2:10: Unexpected "}}"; a value is expected\n'
    assert kafka.stderr.startswith(
        f"error: {tmp_path}/c.json5: kafka: bootstrap.server: not supported; did you mean bootstrap.servers?"
    )


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(config, ["check", str(tmp_path / "none")])

    assert result.exit_code == 2
    assert result.stderr == f"error: {tmp_path}/none: No such file or directory\n"


def test_the_help_says_what_the_exit_codes_mean() -> None:
    result = CliRunner().invoke(config, ["check", "--help"])

    assert result.exit_code == 0
    assert "Exit code 0: usable" in result.stdout
