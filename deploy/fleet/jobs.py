"""The ``process`` tool: background jobs that agents start, poll, read the log of, and kill.

A job that takes hours in life must not take hours here. A job started ``paced`` reads a line from its
standard input before each piece of work, and each poll hands it one: it does as many pieces as it is polled,
however fast that is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from contextlib import suppress
from typing import Literal

from loopwarden.deploy.fleet.toolbox import JsonObject, Tool, ToolArgs, ToolError, text_result
from loopwarden.deploy.fleet.workspace import Workspace

#: How long to wait for a job to say something; only a broken script or a machine that stands still gets there.
_REACTION_MAX_S = 30.0

#: How much of the output a poll repeats in its details.
_AGGREGATED_MAX_CHARS = 1_500


class ProcessArgs(ToolArgs, frozen=True):
    """``command`` and ``paced`` belong to start, ``session_id`` (the job's name) to the other actions."""

    action: Literal["start", "poll", "log", "kill"]
    command: str | None = None
    session_id: str | None = None
    paced: bool = False


class _Job:
    """A child process with the output it has given so far."""

    def __init__(self, workspace: Workspace, command: str, *, paced: bool) -> None:
        self.paced = paced
        self.output = ""
        self.polled_chars = 0
        self._workspace = workspace
        self._news = threading.Condition()
        self._ended = False
        self.process = subprocess.Popen(  # noqa: S603 - the commands are those of our own scripts
            ["/bin/sh", "-c", command],
            cwd=workspace.folder,
            env=workspace.environment(),
            stdin=subprocess.PIPE,  # unpaced ones too: its end tells a job that the fleet is gone, however it went
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,  # a group of its own, so that kill reaches the command's children
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        while chunk := self.process.stdout.read(65_536):
            with self._news:
                self.output += self._workspace.neutral(chunk.decode(errors="replace"))
                self._news.notify_all()
        self.process.wait()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def wait_for_output(self, beyond_chars: int) -> None:
        """Wait until there is more output than this, or the job has ended."""
        with self._news:
            reacted = self._news.wait_for(lambda: self._ended or len(self.output) > beyond_chars, _REACTION_MAX_S)
        if not reacted:
            raise TimeoutError(f"a background job was silent for {_REACTION_MAX_S} s: {self.process.args!r}")

    def work_on(self) -> None:
        """Let a paced job do its next piece of work, and wait for what it says about it."""
        if not self.paced or self._ended:
            return
        assert self.process.stdin is not None
        before_chars = len(self.output)
        self.process.stdin.write(b"\n")
        self.wait_for_output(before_chars)

    def kill(self) -> None:
        """End the job and all it started; does nothing where it has ended."""
        if not self._ended:
            with suppress(ProcessLookupError):  # it may end by itself just now
                os.killpg(self.process.pid, signal.SIGKILL)
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    @property
    def state(self) -> JsonObject:
        """Status, and once it has ended exit code or the signal that ended it."""
        if not self._ended:
            return {"status": "running", "exitCode": None, "exitSignal": None}
        code = self.process.returncode
        return {
            "status": "completed" if code == 0 else "failed",
            "exitCode": code if code >= 0 else None,
            "exitSignal": signal.Signals(-code).name if code < 0 else None,
        }


class Jobs:
    """The background jobs of one agent."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._jobs: dict[str, _Job] = {}

    def tool(self) -> Tool[ProcessArgs]:
        """Return the ``process`` tool over these jobs."""
        return Tool(ProcessArgs, self._run)

    def running(self) -> int:
        """Return how many jobs have not ended."""
        return sum(job.state["status"] == "running" for job in self._jobs.values())

    def close(self) -> None:
        """Kill what still runs."""
        for job in self._jobs.values():
            job.kill()

    def _run(self, args: ProcessArgs) -> JsonObject:
        if args.action == "start":
            return self._start(args)
        job = self._jobs.get(args.session_id or "")
        if job is None:
            raise ToolError(f"No session found for {args.session_id}")
        name = args.session_id or ""
        if args.action == "poll":
            return _poll(name, job)
        if args.action == "log":
            return _log(name, job)
        job.kill()
        return text_result(f"Killed session {name}.", sessionId=name, **job.state)

    def _start(self, args: ProcessArgs) -> JsonObject:
        if not args.command:
            raise ToolError('process: action "start" needs a command')
        job = _Job(self._workspace, args.command, paced=args.paced)
        name = f"job-{len(self._jobs) + 1}"
        self._jobs[name] = job
        if not args.paced:
            job.wait_for_output(0)
        text = f"Command still running (session {name}, pid {job.process.pid})."
        return text_result(text, status="running", sessionId=name, pid=job.process.pid)


def _poll(name: str, job: _Job) -> JsonObject:
    job.work_on()
    new = job.output[job.polled_chars :].rstrip()
    job.polled_chars = len(job.output)
    state = job.state
    ending = "Process still running."
    if state["status"] != "running":
        ending = f"Process exited with code {state['exitCode']}."
    aggregated = job.output[-_AGGREGATED_MAX_CHARS:].rstrip()
    return text_result(f"{new or '(no new output)'}\n\n{ending}", sessionId=name, **state, aggregated=aggregated)


def _log(name: str, job: _Job) -> JsonObject:
    text = job.output.rstrip()
    lines = text.splitlines()
    shown = lines[-40:]
    return text_result(
        "\n".join(shown) or "(no output yet)",
        sessionId=name,
        **job.state,
        totalLines=len(lines),
        totalChars=len(text),
        truncated=len(shown) < len(lines),
    )
