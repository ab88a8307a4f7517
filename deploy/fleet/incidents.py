"""Scripted agents that re-enact loops, and false alarms, which users of agent products reported in public.

Each does with real tools what the report says; how it must be judged stands in ``expectations``. Nobody stops
these agents: they were recorded as they ran when nothing watched them.
"""

from __future__ import annotations

from loopwarden.deploy.fleet.office import OFFICE_URL
from loopwarden.deploy.fleet.scripts import Call, Calls, Compact, NextRun, Script, ScriptedAgent, use
from loopwarden.deploy.fleet.workspace import Workspace

LOG_POLLS = 150  # of the 1,535 reported: ten times as many look no different
HEARTBEATS = 60  # of the hundreds reported


def exec_same(_: Workspace) -> Script:
    """One shell command again and again; only duration, process id and folder differ."""
    for _attempt in range(121):
        yield from use("exec", command="find . -name '*.pending' | wc -l | tr -d ' '")


def log_poll(_: Workspace) -> Script:
    """The log of a server that waits for input and has nothing more to say, polled without end."""
    command = "printf 'loading model\\nlistening for jobs\\n'; exec cat"
    started = yield from use("process", action="start", command=command)
    for _poll in range(LOG_POLLS):
        yield from use("process", action="log", sessionId=started.details["sessionId"])


def status_empty_args(_: Workspace) -> Script:
    """A status tool without arguments."""
    for _attempt in range(34):
        yield from use("session_status")


def missing_file(workspace: Workspace) -> Script:
    """A path that the model shortened with an ellipsis and takes for real."""
    workspace.put("reports/2025/summary.md", "# Summary\n\nAll targets met.\n")
    for _attempt in range(117):
        yield from use("read", path="reports/…/summary.md")


def validation_error(_: Workspace) -> Script:
    """A call that lacks a parameter, refused with the same text each time."""
    for _attempt in range(204):
        yield from use("write", path="report.md")


def send_loop(_: Workspace) -> Script:
    """The same message to the same person; each receipt has another id and time."""
    for _attempt in range(45):
        yield from use("message", action="send", channel="desk", to="maya", text="The report is ready.")


def two_paths(_: Workspace) -> Script:
    """The same content, now here, now there."""
    content = "# Plan\n\n1. Collect the figures\n2. Draw the chart\n3. Write the summary\n"
    for attempt in range(40):
        yield from use("write", path=("plan.md", "docs/plan.md")[attempt % 2], content=content)


def missing_tool(_: Workspace) -> Script:
    """A tool that the agent believes it has, tried with ever other arguments."""
    for page in range(24):
        yield from use("browser_open", url=f"{OFFICE_URL}/orders?page={page + 1}", wait=page % 3 == 0)


def compaction(workspace: Workspace) -> Script:
    """Fifty reads of one long file; they fill the context, it is compacted, the reading goes on."""
    lines = [f"{number:04},shelf {number % 17:02},{number * 37 % 400} pieces" for number in range(120)]
    workspace.put("inventory.csv", "\n".join(lines) + "\n")
    for attempt in range(50):
        if attempt == 16:
            yield Compact(tokens_after=2_400)
        yield from use("read", path="inventory.csv")


def obeyed_block(workspace: Workspace) -> Script:
    """A failing check; from the first critical decision on the runner refuses it, and the model keeps asking."""
    workspace.put("deploy.sh", "echo 'staging is locked by release 41'\nexit 1\n")
    for attempt in range(45):
        yield Calls((Call("exec", {"command": "sh deploy.sh --check staging"}, refused=attempt >= 20),))


def heartbeats(workspace: Workspace) -> Script:
    """A scheduled run that looks for work and finds none; each time a new run of the same session."""
    workspace.put("HEARTBEAT.md", "Look into queue/. If it holds anything, say so; otherwise end the run.\n")
    workspace.put("queue/.keep", "")
    for beat in range(HEARTBEATS):
        if beat:
            yield NextRun()
        yield from use("read", path="HEARTBEAT.md")
        yield from use("exec", command="ls queue | grep . || echo 'nothing to do'")


def progress_poll(workspace: Workspace) -> Script:
    """A long job, polled until it is done; every poll finds more output."""
    for number in range(59):
        workspace.put(f"pages/{number:02}.txt", "word " * (40 + number * 7 % 90))
    command = (
        "for page in pages/*.txt; do read -r go; words=$(($(wc -w < $page))); total=$((total + words)); "
        'echo "$page: $words words, $total in all"; done; read -r go'
    )
    started = yield from use("process", action="start", command=command, paced=True)
    status = "running"
    while status == "running":
        polled = yield from use("process", action="poll", sessionId=started.details["sessionId"])
        status = polled.details["status"]


def batch_work(workspace: Workspace) -> Script:
    """Forty files, each looked at and edited, with one tool throughout."""
    paths = [f"articles/{number:02}.md" for number in range(1, 41)]
    for number, path in enumerate(paths, start=1):
        workspace.put(path, f"# Article {number}\n\nstatus: draft\nwords: {number * 113 % 900}\n")
    for path in paths:
        yield from use("editor", command="view", path=path)
        edit = {"oldText": "status: draft", "newText": "status: reviewed"}
        yield from use("editor", command="replace", path=path, **edit)


def edit_test(workspace: Workspace) -> Script:
    """Fifteen rounds of editing a constant and running the same tests, each time with another outcome."""
    workspace.put("shipping.py", "BASE = 2\n\n\ndef cost_cents(kilograms):\n    return BASE * 100 + kilograms * 35\n")
    workspace.put(
        "test_shipping.py",
        "import unittest\n\nfrom shipping import cost_cents\n\n\nclass ShippingTest(unittest.TestCase):\n"
        "    def test_a_parcel_of_four_kilograms(self):\n        self.assertEqual(1840, cost_cents(4))\n",
    )
    for base in range(2, 17):
        old, new = f"BASE = {base}\n", f"BASE = {base + 1}\n"
        yield from use("edit", path="shipping.py", oldText=old, newText=new)
        yield from use("exec", command="python -m unittest -q")


def two_runs(_: Workspace) -> Script:
    """Six equal look-ups; a second agent in a session of its own does the same at the same time."""
    for _attempt in range(6):
        yield from use("fetch", url=f"{OFFICE_URL}/orders?page=3")


INCIDENT_AGENTS = (
    ScriptedAgent("incident-exec-same", "operations", exec_same, "aborted", fresh_folders=True),
    ScriptedAgent("incident-log-poll", "operations", log_poll, "aborted"),
    ScriptedAgent("incident-status-empty-args", "assistant", status_empty_args, "aborted"),
    ScriptedAgent("incident-missing-file", "researcher", missing_file, "failed"),
    ScriptedAgent("incident-validation-error", "writer", validation_error, "failed"),
    ScriptedAgent("incident-send-loop", "assistant", send_loop, "aborted"),
    ScriptedAgent("incident-two-paths", "writer", two_paths, "aborted"),
    ScriptedAgent("incident-missing-tool", "researcher", missing_tool, "failed"),
    ScriptedAgent("incident-compaction", "researcher", compaction, "aborted"),
    ScriptedAgent("incident-obeyed-block", "operations", obeyed_block, "aborted"),
    ScriptedAgent("incident-heartbeats", "operations", heartbeats),
    ScriptedAgent("incident-progress-poll", "operations", progress_poll),
    ScriptedAgent("incident-batch-work", "writer", batch_work),
    ScriptedAgent("incident-edit-test", "coder", edit_test),
    ScriptedAgent("incident-two-runs-a", "researcher", two_runs),
    ScriptedAgent("incident-two-runs-b", "researcher", two_runs),
)
