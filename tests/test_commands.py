"""The commands that talk to a broker, as somebody types them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from broker_tools import Stream, at_least, wait_until
from click.testing import CliRunner, Result
from conftest import StartWorker

from loopwarden.deploy.demo.player import read_recording
from loopwarden.deploy.processes import free_port
from loopwarden.streams.cli.main import main

pytestmark = pytest.mark.broker

COMMAND = [sys.executable, "-m", "loopwarden.streams.cli.main"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def where(stream: Stream, *, prefix: str | None = None, partitions: int | None = None) -> list[str]:
    return [
        *("--bootstrap", stream.bootstrap, "--group", stream.group),
        *("--prefix", prefix or stream.topics.prefix, "--partitions", str(partitions or stream.topics.partitions)),
    ]


def test_topics_are_made_once_and_are_then_as_expected(stream: Stream) -> None:
    options = where(stream, prefix=f"new-{stream.group}.")
    missing = run("topics", "check", *options)
    made = run("topics", "create", *options)
    again = run("topics", "create", *options)
    present = run("topics", "check", *options)

    assert missing.exit_code == 1
    assert missing.stdout.count("is missing") == 7
    assert "to mend it: loopwarden topics create" in missing.stdout
    assert [line.split()[0] for line in made.stdout.splitlines()] == ["made"] * 7
    assert [line.split()[0] for line in again.stdout.splitlines()] == ["present"] * 7
    assert (present.exit_code, present.stdout) == (0, "all topics are as expected\n")


def test_check_says_in_json_what_differs_and_how_to_mend_it(stream: Stream) -> None:
    result = run("topics", "check", "--json", *where(stream, partitions=9))
    found = [json.loads(line) for line in result.stdout.splitlines()]

    assert result.exit_code == 1
    assert {row["message"] for row in found} == {"has 4 partitions where 9 are expected"}
    assert all("set topics.partitions to 4" in row["mend"] for row in found)


def test_a_worker_refuses_topics_that_are_not_as_they_must_be(stream: Stream) -> None:
    check = run("topics", "check", *where(stream, partitions=9))
    worker = subprocess.run(
        [*COMMAND, "worker", "--status-port", "0", *where(stream, partitions=9)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert worker.returncode == 2
    assert all(line in worker.stderr for line in check.stdout.splitlines() if line.startswith("error"))


def test_a_broker_that_does_not_answer_is_named() -> None:
    address = f"127.0.0.1:{free_port()}"
    worker = ["worker", "--broker-wait", "1", "--status-port", "0"]
    for command in (["topics", "check"], ["topics", "create"], ["tail"], worker):
        done = subprocess.run(
            [*COMMAND, *command, "--bootstrap", address], capture_output=True, text=True, timeout=30, check=False
        )

        assert done.returncode == 2, command
        assert f"no Kafka broker answers on {address}" in done.stderr


def test_tail_shows_what_was_said_for_people_and_for_scripts(stream: Stream, start_worker: StartWorker) -> None:
    start_worker()
    call = {"session_id": "s", "run_id": "r", "type": "compaction"}
    result = {"session_id": "s", "run_id": "r", "type": "tool_result", "tool_name": "read", "args": {}, "result": "x"}
    stream.send([("s", json.dumps(fields).encode()) for fields in (call, result, result, result)] + [("s", b"bad")])
    stream.verdicts(at_least(1))
    wait_until(lambda: bool(stream.read(stream.names.dead_letters, lambda records: len(records) == 1)), "it is there")
    options = ["--bootstrap", stream.bootstrap, "--prefix", stream.topics.prefix, "--from-beginning", "--limit", "1"]

    assert "compaction_loop_persisted      3  s r" in run("tail", *options).stdout
    assert "kill     compaction_loop_persisted     >>  s r" in run("tail", "signals", *options).stdout
    assert "not_json" in run("tail", "dead-letters", *options).stdout
    assert "compaction   s r" in run("tail", "events", *options).stdout
    assert json.loads(run("tail", "--json", *options).stdout)["detector"] == "compaction_loop_persisted"
    letter = json.loads(run("tail", "dead-letters", "--json", *options).stdout)
    assert (letter["reason"], letter["size_bytes"]) == ("not_json", 3)


def test_tail_of_a_topic_that_is_not_there_says_so(stream: Stream) -> None:
    result = run("tail", "--bootstrap", stream.bootstrap, "--prefix", "nobody.")

    assert result.exit_code == 2
    assert "there is no topic nobody.verdicts" in result.stderr


def test_config_check_shows_values_layers_and_warnings(tmp_path: Path) -> None:
    file = tmp_path / "config.json5"
    file.write_text('{tools: {loopDetection: {enabled: true, warningThreshold: 0}}, agents: {list: [{id: "a"}]}}')
    shown = run("config", "check", str(file))
    told = msgspec.json.decode(run("config", "check", "--json", str(file)).stdout)

    assert shown.exit_code == 0
    assert "warning: tools.loopDetection.warningThreshold: 0 is not a positive integer" in shown.stdout
    assert [agent["agent"] for agent in told["agents"]] == ["a", "every other agent"]
    assert told["agents"][0]["layers"]["enabled"] == "tools.loopDetection"
    assert run("config", "check", "--strict", str(file)).exit_code == 1
    assert run("config", "check", str(tmp_path / "none")).exit_code == 2


def test_rebuild_says_what_is_not_as_the_events_have_it_and_puts_it_right(
    stream: Stream, start_worker: StartWorker, tmp_path: Path
) -> None:
    config = tmp_path / "on.json5"
    config.write_text("{tools: {loopDetection: {enabled: true}}}")
    recording = read_recording()[:6000]
    worker = start_worker()
    stream.send([(played.session_id, played.value) for played in recording])
    wait_until(lambda: worker.metric("loopwarden_events_total") == len(recording), "all events are folded")
    options = [*where(stream), "--config", str(config), "--json"]
    running = run("rebuild", "--write", *options)
    wait_until(lambda: run("rebuild", *options).exit_code == 0, "all is as it must be")
    assert worker.stop() == 0
    rows = stream.rows(lambda rows: len(rows) > 10)
    stream.write_rows([(key, b"spoilt") for key in list(rows)[:7]])
    wrong = run("rebuild", *options)
    other = run("rebuild", *where(stream), "--json")
    mended = run("rebuild", "--write", "--force", *options)  # the embedded broker goes on listing who has left

    assert running.exit_code == 2
    assert "are running" in running.stderr
    assert (wrong.exit_code, json.loads(wrong.stdout)["different_rows"]) == (1, 7)
    assert json.loads(other.stdout)["verdicts"] < json.loads(wrong.stdout)["verdicts"]
    assert mended.exit_code == 0
    assert run("rebuild", *options).exit_code == 0
    assert stream.rows(lambda found: found == rows) == rows


def children_of(pid: int) -> list[int]:
    """The processes that name this one as their parent."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def test_the_demo_shows_loops_and_signals_and_ends_with_a_table() -> None:
    done = subprocess.run(
        [*COMMAND, "demo", "--speed", "max"], capture_output=True, text=True, timeout=120, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "critical unknown_tool_repeat           10  incident-missing-tool" in done.stdout
    table = dict(
        (part.strip() for part in line.strip("│").split("│"))
        for line in done.stdout.splitlines()
        if line.count("│") == 3
    )
    assert (table["runs seen"], table["events"]) == ("300", "13025")
    assert table["runs sent a block signal"] == "9"
    assert table["runs sent a kill signal"] == "10"


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_interrupted_leaves_no_process_behind(stop: signal.Signals, tmp_path: Path) -> None:
    output = tmp_path / "output"
    with output.open("wb") as sink:
        demo = subprocess.Popen([*COMMAND, "demo", "--keep"], stdout=sink, stderr=sink)
    children: list[int] = []
    try:
        wait_until(lambda: "worker ready" in output.read_text(), "the worker is ready")
        children = children_of(demo.pid)
        demo.send_signal(stop)
        code = demo.wait(30)
    finally:
        demo.kill()

    assert len(children) == 2
    assert code == 130
    assert not [pid for pid in children if os.path.exists(f"/proc/{pid}")]  # noqa: PTH110 - /proc, not a file
