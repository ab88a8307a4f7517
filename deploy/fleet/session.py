"""Runs one scripted agent step by step, and records what it does as events."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec

from loopwarden.deploy.fleet.event_log import EventLog
from loopwarden.deploy.fleet.jobs import Jobs
from loopwarden.deploy.fleet.scripts import Call, Calls, Compact, ScriptedAgent, Step
from loopwarden.deploy.fleet.toolbox import Outcome, text_result
from loopwarden.deploy.fleet.tools import make_toolbox
from loopwarden.deploy.fleet.workspace import Workspace
from loopwarden.schemas.events import Compaction, RunEnded, RunStarted, ToolCall, ToolResult, Usage

#: What a runner that obeys a block answers in place of the tool.
VETO = text_result(
    "Blocked by loop detection: this call has been repeated without progress. Do something else.",
    status="blocked",
    deniedReason="tool-loop",
)

#: The runner whose agents report what their steps cost; the others leave it out, as many products do.
METERED_RUNNER = "runner-2"

_CHARS_PER_TOKEN = 4
_USD_PER_INPUT_TOKEN = 3e-6
_USD_PER_OUTPUT_TOKEN = 15e-6
_PROMPT_TOKENS = 900


class Session:
    """One agent at work in a workspace of its own."""

    def __init__(self, agent: ScriptedAgent, runner_id: str, root: Path, office_port: int, log: EventLog) -> None:
        self.agent = agent
        self.calls = 0
        self.runs = 0
        self._log = log
        self._workspace = Workspace(root, agent.session_id)
        self._jobs = Jobs(self._workspace)
        self._toolbox = make_toolbox(
            self._workspace,
            self._jobs,
            office_port,
            session_id=agent.session_id,
            agent_id=agent.agent_id,
            fresh_folders=agent.fresh_folders,
        )
        self._script = agent.script(self._workspace)
        self._outcomes: tuple[Outcome, ...] | None = None
        self._metered = runner_id == METERED_RUNNER
        self._names = {"session_id": agent.session_id, "agent_id": agent.agent_id, "runner_id": runner_id}
        self._events = 0
        self._calls_in_run = 0
        self._context_tokens = _PROMPT_TOKENS

    def step(self) -> bool:
        """Let the agent do what it does next; return whether there is more to come."""
        if self._outcomes is None:
            self._start_run()
        try:
            # None starts the generator; the stubs know no generator that has not been started.
            step = self._script.send(self._outcomes)  # type: ignore[arg-type]
        except StopIteration:
            self._log.add(RunEnded(**self._common(), status=self.agent.ends_as))
            return False
        self._outcomes = self._take(step)
        return True

    def close(self) -> None:
        """Kill what the agent left running and remove its workspace."""
        self._script.close()
        self._jobs.close()
        shutil.rmtree(self._workspace.folder)

    def _take(self, step: Step) -> tuple[Outcome, ...]:
        match step:
            case Calls(calls):
                return self._call(calls)
            case Compact(tokens_after):
                before = self._context_tokens
                self._context_tokens = tokens_after
                self._log.add(
                    Compaction(**self._common(), reason="overflow", tokens_before=before, tokens_after=tokens_after)
                )
            case _:
                self._log.add(RunEnded(**self._common(), status="completed"))
                self._start_run()
        return ()

    def _start_run(self) -> None:
        self.runs += 1
        self._events = 0
        self._calls_in_run = 0
        self._context_tokens = _PROMPT_TOKENS
        self._log.add(RunStarted(**self._common()))

    def _call(self, calls: tuple[Call, ...]) -> tuple[Outcome, ...]:
        """Announce all calls of one reply, then run them one after the other and record their results."""
        batch_id = f"reply-{self._calls_in_run + 1}" if len(calls) > 1 else None
        announced = []
        for call in calls:
            self.calls += 1
            self._calls_in_run += 1
            call_id = f"call-{self._calls_in_run:03}"
            args = msgspec.Raw(msgspec.json.encode(call.args))
            fields: dict[str, Any] = {"tool_name": call.tool_name, "tool_call_id": call_id, "args": args}
            announced.append(fields | {"batch_id": batch_id})
            self._log.add(ToolCall(**self._common(), **announced[-1]))
        return tuple(self._finish(call, fields) for call, fields in zip(calls, announced, strict=True))

    def _finish(self, call: Call, fields: dict[str, Any]) -> Outcome:
        outcome = Outcome(result=VETO) if call.refused else self._toolbox.call(call.tool_name, call.args)
        failed = outcome.error is not None
        value = msgspec.Raw(msgspec.json.encode(outcome.error if failed else outcome.result))
        usage = self._meter(len(bytes(fields["args"])), len(bytes(value)))
        event = ToolResult(**self._common(), **fields, usage=usage)
        if failed:
            event.error = value
        else:
            event.result = value
        self._log.add(event)
        return outcome

    def _meter(self, args_chars: int, outcome_chars: int) -> Usage | None:
        """Return what the step cost, estimated by its length: there is no model here that counts tokens."""
        read, written = self._context_tokens, args_chars // _CHARS_PER_TOKEN + 20
        self._context_tokens += written + outcome_chars // _CHARS_PER_TOKEN
        if not self._metered:
            return None
        cost_usd = round(read * _USD_PER_INPUT_TOKEN + written * _USD_PER_OUTPUT_TOKEN, 6)
        return Usage(input_tokens=read, output_tokens=written, cost_usd=cost_usd)

    def _common(self) -> dict[str, Any]:
        """Return the fields that every event carries; counts the event."""
        run_id = f"{self.agent.session_id}-run-{self.runs}"
        self._events += 1
        return {**self._names, "run_id": run_id, "event_id": f"{run_id}/{self._events}"}
