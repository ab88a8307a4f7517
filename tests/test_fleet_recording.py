"""The recorded fleet is what it says: whole, in the form of the contract, free of its machine, and real.

Real means that running the scripted agents again gives the same calls with the same outcomes.
"""

from __future__ import annotations

import gzip
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from msgspec import UNSET

from loopwarden.deploy.fleet.event_log import EventLog, LeakError
from loopwarden.deploy.fleet.expectations import EXPECTATIONS, HEALTHY_PREFIX, Expectation
from loopwarden.deploy.fleet.fleet import DEFAULT_RUNS, DEFAULT_SEED, make_fleet, play_fleet
from loopwarden.deploy.fleet.jobs import Jobs
from loopwarden.deploy.fleet.scripts import Script, ScriptedAgent, use
from loopwarden.deploy.fleet.toolbox import Outcome
from loopwarden.deploy.fleet.tools import make_toolbox
from loopwarden.deploy.fleet.workspace import Workspace
from loopwarden.schemas.events import Compaction, Event, RunEnded, RunStarted, ToolCall, ToolResult
from loopwarden.streams.fingerprint import canonical, parse
from loopwarden.streams.outcomes import failed_result, successful_result
from loopwarden.streams.tools import kind_of_call

RECORDING = Path(__file__).parent.parent / "deploy" / "demo" / "fleet.jsonl.gz"

SIZE_MAX_BYTES = 2_000_000

#: Where a recording machine keeps its own things, and what secrets tend to look like.
FOREIGN = re.compile(
    rb"/tmp/|/root|/home|/Users/|/private/|/var/|/usr/|/opt/|/work/|BEGIN [A-Z ]*PRIVATE KEY|AKIA[0-9A-Z]{16}"
    rb"|\bsk-[A-Za-z0-9]{16}|\bgh[pousr]_[A-Za-z0-9]{20}|127\.0\.0\.1|localhost"
)

REPORTED_INCIDENTS = {
    *("exec-same", "log-poll", "status-empty-args", "missing-file", "validation-error", "send-loop"),
    *("two-paths", "missing-tool", "compaction", "obeyed-block", "heartbeats", "progress-poll"),
    *("batch-work", "edit-test", "two-runs"),
}


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    return gzip.decompress(RECORDING.read_bytes()).splitlines()


@pytest.fixture(scope="module")
def events(lines: list[bytes]) -> list[Event]:
    decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
    return [decoder.decode(line) for line in lines]


@pytest.fixture(scope="module")
def runs(events: list[Event]) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        assert event.run_id is not None
        found[event.run_id].append(event)
    return found


def test_the_recording_is_a_fleet_of_a_few_hundred_runs_in_at_most_two_megabytes(
    events: list[Event], runs: dict[str, list[Event]]
) -> None:
    size_bytes = RECORDING.stat().st_size

    assert size_bytes <= SIZE_MAX_BYTES
    assert len(runs) == DEFAULT_RUNS
    assert 10_000 <= len(events) <= 20_000


def test_the_file_carries_neither_a_name_nor_a_time_of_its_own() -> None:
    header = RECORDING.read_bytes()[:10]

    assert header[4:8] == b"\0\0\0\0"
    assert not header[3] & 0x08


def test_nothing_in_the_recording_tells_of_the_machine_or_looks_like_a_secret(lines: list[bytes]) -> None:
    foreign = [line[:300] for line in lines if FOREIGN.search(line)]

    assert foreign == []


def test_every_event_names_its_session_run_agent_and_runner_and_has_an_id_of_its_own(events: list[Event]) -> None:
    ids = Counter(event.event_id for event in events)

    assert all(event.session_id and event.agent_id and event.runner_id for event in events)
    assert [event_id for event_id, times in ids.items() if times > 1 or event_id is None] == []


def test_the_recording_is_in_the_order_of_its_times(events: list[Event]) -> None:
    times = [event.time or "" for event in events]

    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time) for time in times)
    assert times == sorted(times)


def test_many_runs_are_under_way_at_the_same_time(events: list[Event]) -> None:
    under_way = most = 0
    for event in events:
        under_way += isinstance(event, RunStarted) - isinstance(event, RunEnded)
        most = max(most, under_way)

    assert most >= 20


def test_every_run_starts_once_ends_once_and_answers_each_call_after_it_was_made(
    runs: dict[str, list[Event]],
) -> None:
    for run_id, run in runs.items():
        open_calls: dict[str | None, ToolCall] = {}
        call_ids: list[str | None] = []
        for event in run:
            if isinstance(event, ToolCall):
                open_calls[event.tool_call_id] = event
                call_ids.append(event.tool_call_id)
            elif isinstance(event, ToolResult):
                call = open_calls.pop(event.tool_call_id)
                assert (event.tool_name, raw(event.args)) == (call.tool_name, raw(call.args)), run_id
                assert (event.result is UNSET) != (event.error is UNSET), run_id

        assert [type(event) for event in (run[0], run[-1])] == [RunStarted, RunEnded], run_id
        assert not any(isinstance(event, RunStarted | RunEnded) for event in run[1:-1]), run_id
        assert open_calls == {}, run_id
        assert len(call_ids) == len(set(call_ids)) > 0, run_id


def test_every_reported_incident_is_in_the_table_of_expectations() -> None:
    assert {expectation.incident for expectation in EXPECTATIONS} == REPORTED_INCIDENTS


@pytest.mark.parametrize("expectation", EXPECTATIONS, ids=lambda entry: entry.incident)
def test_an_incident_is_recorded_under_its_ids_with_its_number_of_calls(
    events: list[Event], expectation: Expectation
) -> None:
    mine = [event for event in events if event.session_id in expectation.session_ids]
    calls = Counter(event.session_id for event in mine if isinstance(event, ToolCall))
    compactions = [event for event in mine if isinstance(event, Compaction)]

    assert {event.run_id for event in mine} == set(expectation.run_ids)
    assert calls == dict.fromkeys(expectation.session_ids, expectation.calls)
    assert [event.retrying for event in compactions] == [True] * (expectation.incident == "compaction")


def test_all_other_sessions_are_those_of_healthy_agents(events: list[Event]) -> None:
    incidents = {session_id for expectation in EXPECTATIONS for session_id in expectation.session_ids}
    others = {event.session_id or "" for event in events} - incidents

    assert len(others) >= 200
    assert [session_id for session_id in others if not session_id.startswith(HEALTHY_PREFIX)] == []


def raw(value: msgspec.Raw | msgspec.UnsetType) -> bytes:
    assert isinstance(value, msgspec.Raw)
    return bytes(value)


def _shape(events: Iterable[Event]) -> list[tuple[object, ...]]:
    """Return what must be the same whenever a session is recorded: fingerprints instead of values."""
    shape: list[tuple[object, ...]] = []
    for event in events:
        if not isinstance(event, ToolCall | ToolResult):
            shape.append((type(event).__name__, event.run_id))
            continue
        args = parse(raw(event.args))
        outcome: object = None
        if isinstance(event, ToolResult) and isinstance(event.error, msgspec.Raw):
            outcome = failed_result(event.error)
        elif (
            isinstance(event, ToolResult) and isinstance(event.result, msgspec.Raw) and args.get("action") != "start"
        ):  # that one tells the process id
            outcome = successful_result(event.result, kind_of_call(event.tool_name, args))
        shape.append((type(event).__name__, event.tool_name, event.tool_call_id, canonical(args), outcome))
    return shape


def _record(agents: list[ScriptedAgent], root: Path) -> list[Event]:
    log = EventLog(root)
    play_fleet(agents, root, log, thinking_s=0)
    decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
    return [decoder.decode(line) for line in log.lines]


def test_running_agents_again_gives_the_calls_and_outcomes_of_the_recording(
    events: list[Event], tmp_path: Path
) -> None:
    wanted = {
        *("incident-exec-same", "incident-send-loop", "incident-progress-poll", "incident-obeyed-block"),
        *("incident-compaction", "incident-heartbeats", "healthy-0003"),
    }
    agents = [agent for agent in make_fleet(DEFAULT_RUNS, DEFAULT_SEED) if agent.session_id in wanted]
    again = _record(agents, tmp_path)

    assert {agent.session_id for agent in agents} == wanted
    for session_id in sorted(wanted):
        recorded = _shape(event for event in events if event.session_id == session_id)
        assert _shape(event for event in again if event.session_id == session_id) == recorded, session_id


def test_what_differs_each_time_does_differ_in_the_recorded_loops(events: list[Event]) -> None:
    """Otherwise the recording could not tell a detector that ignores it from one that was never tempted."""
    commands = [_details(event) for event in events if _is_result_of(event, "incident-exec-same")]
    receipts = [_details(event) for event in events if _is_result_of(event, "incident-send-loop")]

    assert len({details["pid"] for details in commands}) > 100
    assert len({details["cwd"] for details in commands}) == len(commands)
    assert len({details["messageId"] for details in receipts}) == len(receipts)


def _is_result_of(event: Event, session_id: str) -> bool:
    return isinstance(event, ToolResult) and event.session_id == session_id


def _details(event: Event) -> dict[str, object]:
    assert isinstance(event, ToolResult)
    details: dict[str, object] = msgspec.json.decode(event.result)["details"]
    return details


def test_an_agent_cannot_reach_outside_of_its_workspace(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "session")
    (tmp_path / "secret.txt").write_text("not for agents")
    names = {"session_id": "session", "agent_id": "agent"}
    toolbox = make_toolbox(workspace, Jobs(workspace), office_port=0, fresh_folders=False, **names)
    outcome = toolbox.call("read", {"path": "../secret.txt"})

    assert outcome == Outcome(error="EPERM: operation not permitted, open '../secret.txt'")


def test_a_job_that_an_agent_left_running_does_not_outlive_its_session(tmp_path: Path) -> None:
    pids: list[int] = []

    def script(_: Workspace) -> Script:
        started = yield from use("process", action="start", command="echo started; exec cat")
        pids.append(started.details["pid"])

    _record([ScriptedAgent("leaves-a-job", "agent", script)], tmp_path)

    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_a_broken_script_stops_the_fleet_and_leaves_no_workspace(tmp_path: Path) -> None:
    def script(_: Workspace) -> Script:
        yield from use("session_status")
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        _record([ScriptedAgent("broken", "agent", script)], tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_an_event_that_names_the_temporary_folder_is_refused(tmp_path: Path) -> None:
    log = EventLog(tmp_path)
    with pytest.raises(LeakError, match="event 1 holds a path of this machine"):
        log.add(RunEnded(session_id="session", event_id="1", status=f"died in {tmp_path}"))
