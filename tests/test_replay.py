"""Replay: recorded events through the core, from the command line."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from folding import load_vectors
from hypothesis import given
from hypothesis import strategies as st

from loopwarden.deploy.demo.player import RECORDING
from loopwarden.streams.cli.main import main
from loopwarden.streams.recordings import Line
from loopwarden.streams.replay import Replay
from loopwarden.streams.settings import resolve

SHARED = Path(os.environ.get("LOOPWARDEN_SHARED", str(Path(__file__).parents[2] / "shared"))) / "data" / "events"


def run(*arguments: str, given: bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["replay", *arguments], input=given)


def rows(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def loop(calls: int) -> list[bytes]:
    common = {"session_id": "s", "run_id": "r", "tool_name": "read", "args": {"path": "/a"}}
    lines = []
    for number in range(calls):
        call = common | {"tool_call_id": f"c{number}"}
        lines.append(json.dumps(call | {"type": "tool_call"}).encode())
        lines.append(json.dumps(call | {"type": "tool_result", "result": "same"}).encode())
    return lines


@pytest.fixture
def stuck(tmp_path: Path) -> Path:
    file = tmp_path / "stuck.jsonl"
    file.write_bytes(b"\n".join(loop(21)) + b"\n")
    return file


def test_decisions_name_file_and_line(stuck: Path) -> None:
    result = run("--output", "decisions", str(stuck))

    assert result.exit_code == 0
    assert rows(result)[0] == {
        "file": str(stuck),
        "line": 21,
        "run_id": "r",
        "session_id": "s",
        "level": "warning",
        "detector": "generic_repeat",
        "count": 10,
        "tool_name": "read",
        "paired_tool_name": None,
    }
    assert rows(result)[-1]["level"] == "critical"


def test_verdicts_and_signals_have_the_fields_of_the_contract(stuck: Path) -> None:
    verdicts = rows(run("--output", "verdicts", str(stuck)))
    signals = rows(run("--output", "signals", str(stuck)))

    assert [(verdict["level"], verdict["count"]) for verdict in verdicts] == [("warning", 10), ("critical", 20)]
    assert [signal["action"] for signal in signals] == ["block"]
    assert signals[0]["verdict_id"] == verdicts[1]["verdict_id"]


@pytest.mark.parametrize(
    ("fail_on", "calls", "code"), [("warning", 9, 0), ("warning", 11, 1), ("critical", 11, 0), ("critical", 21, 1)]
)
def test_fail_on_asks_about_a_level(tmp_path: Path, fail_on: str, calls: int, code: int) -> None:
    file = tmp_path / "log.jsonl"
    file.write_bytes(b"\n".join(loop(calls)))

    assert run("--fail-on", fail_on, str(file)).exit_code == code


def test_bad_lines_are_reported_with_their_place_and_the_rest_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    lines = loop(20)
    file.write_bytes(b"\n".join([b"hello", b"", *lines, b'{"type":"run_started"}', lines[0][:-5]]))
    result = run(str(file))

    assert result.exit_code == 0
    assert [line.split(": ")[:2] for line in result.stderr.splitlines()] == [
        [f"{file}:1", "not_json"],
        [f"{file}:43", "no_session"],
        [f"{file}:44", "not_json"],
    ]
    assert "3 bad lines" in result.stdout


def test_only_so_many_bad_lines_are_printed(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_bytes(b"bad\n" * 50 + loop(1)[0])

    assert len(run(str(file)).stderr.splitlines()) == 21
    assert "and 30 more bad lines" in run(str(file)).stderr
    assert len(run("--verbose", str(file)).stderr.splitlines()) == 50
    assert run("--quiet", str(file)).stderr == ""


def test_packed_files_folders_and_standard_input_are_read(tmp_path: Path, stuck: Path) -> None:
    packed = tmp_path / "packed" / "stuck.jsonl.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(stuck.read_bytes()))
    plain = [row | {"file": ""} for row in rows(run("--output", "decisions", str(stuck)))]

    for arguments, content in (
        ([str(packed)], None),
        ([str(packed.parent)], None),
        (["-"], stuck.read_bytes()),
        (["-"], packed.read_bytes()),
    ):
        found = rows(run("--output", "decisions", *arguments, given=content))
        assert [row | {"file": ""} for row in found] == plain


def test_a_packed_file_that_breaks_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl.gz"
    file.write_bytes(gzip.compress(b"\n".join(loop(500)))[:-200])
    result = run("--output", "decisions", str(file))

    assert result.exit_code == 2
    assert str(file) in result.stderr


UNUSABLE = {"nothing": b"", "no event": b"hello\nworld\n"}


@pytest.mark.parametrize("name", UNUSABLE)
def test_input_with_no_event_in_it_is_unusable(tmp_path: Path, name: str) -> None:
    file = tmp_path / "log.jsonl"
    file.write_bytes(UNUSABLE[name])

    assert run(str(file)).exit_code == 2
    assert run(str(tmp_path / "none")).exit_code == 2


def test_a_configuration_rules_where_it_is_given(tmp_path: Path, stuck: Path) -> None:
    config = tmp_path / "config.json5"
    config.write_text("{tools: {loopDetection: {enabled: false}}}")

    assert rows(run("--config", str(config), "--output", "decisions", str(stuck))) == []
    config.write_text("{tools: ")
    assert run("--config", str(config), str(stuck)).exit_code == 2


@pytest.mark.parametrize("vector", load_vectors()[::4], ids=lambda vector: str(vector["name"]))
def test_a_vector_as_a_file_gives_the_vectors_decisions(tmp_path: Path, vector: dict[str, Any]) -> None:
    config, file = tmp_path / "config.json5", tmp_path / "log.jsonl"
    config.write_text(json.dumps({"tools": {"loopDetection": vector["config"]}}))
    file.write_text("\n".join(json.dumps({"session_id": "s"} | event) for event in vector["events"]))
    found = rows(run("--config", str(config), "--output", "decisions", str(file)))

    told = ("level", "detector", "count", "tool_name", "paired_tool_name")
    assert [{"at": row["line"] - 1} | {name: row[name] for name in told if row[name] is not None} for row in found] == (
        vector["expect"]
    )


@given(st.integers(0, 60))
def test_a_log_cut_in_two_says_the_same_as_one(cut: int) -> None:
    lines = [Line("log", number, text) for number, text in enumerate(loop(30), start=1)]
    book = resolve({"enabled": True}, {})[0]
    whole, parted = Replay(book), Replay(book)
    one = [verdict for part in whole.fold(lines) for verdict in part.verdicts]
    two = [verdict for piece in (lines[:cut], lines[cut:]) for part in parted.fold(piece) for verdict in part.verdicts]

    assert two == one


def test_the_summary_names_the_runs_that_are_stuck() -> None:
    result = run(str(RECORDING))

    assert result.exit_code == 0
    assert "300 runs, 13025 events" in result.stdout
    assert "1 warned, 0 blocked, 10 killed" in result.stdout


@pytest.fixture
def recorded_sessions() -> Path:
    """Recorded sessions of real agents, which are not part of the project; there is nothing to test without them."""
    if not SHARED.is_dir():
        assert not os.environ.get("LOOPWARDEN_REQUIRE_SHARED"), f"{SHARED} is required"
        pytest.skip(f"no recorded sessions in {SHARED} (see LOOPWARDEN_SHARED)")
    return SHARED


def test_no_recorded_session_of_a_real_agent_gives_a_decision(recorded_sessions: Path) -> None:
    result = run("--output", "decisions", str(recorded_sessions))

    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_tight_thresholds_warn_of_recorded_sessions_and_block_none(recorded_sessions: Path, tmp_path: Path) -> None:
    config = tmp_path / "tight.json5"
    tight = {"enabled": True, "warningThreshold": 3, "criticalThreshold": 5, "globalCircuitBreakerThreshold": 8}
    config.write_text(json.dumps({"tools": {"loopDetection": tight}}))
    found = rows(run("--config", str(config), "--output", "decisions", str(recorded_sessions)))

    assert {row["level"] for row in found} == {"warning"}
