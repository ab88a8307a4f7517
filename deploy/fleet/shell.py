"""The ``exec`` tool: runs a shell command to its end, in the agent's workspace."""

from __future__ import annotations

import os
import signal
import subprocess
import time

from loopwarden.deploy.fleet.toolbox import JsonObject, Tool, ToolArgs, text_result
from loopwarden.deploy.fleet.workspace import Workspace


class ExecArgs(ToolArgs, frozen=True):
    """``timeout_ms`` (``timeoutMs`` to agents) is when the command and its children are killed."""

    command: str
    timeout_ms: int = 20_000


def exec_tool(workspace: Workspace, *, fresh_folders: bool) -> Tool[ExecArgs]:
    """Return the tool; with ``fresh_folders`` each command runs in a new folder, as in sandboxed products."""
    calls = 0

    def run(args: ExecArgs) -> JsonObject:
        nonlocal calls
        calls += 1
        folder = workspace.folder / f"sandbox-{calls:03}" if fresh_folders else workspace.folder
        folder.mkdir(exist_ok=True)
        started = time.monotonic()
        process = subprocess.Popen(  # noqa: S603 - the commands are those of our own scripts
            ["/bin/sh", "-c", args.command],
            cwd=folder,
            env=workspace.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a group of its own, so that a time-out reaches the command's children
        )
        timed_out = False
        try:
            output, _ = process.communicate(timeout=args.timeout_ms / 1000)
        except subprocess.TimeoutExpired:
            timed_out = True
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
        text = workspace.neutral(output.decode(errors="replace")).rstrip()
        note = f"\n(command timed out after {args.timeout_ms} ms)" if timed_out else ""
        return text_result(
            (text + note).strip() or "(no output)",
            status="completed" if process.returncode == 0 else "failed",
            exitCode=process.returncode if process.returncode >= 0 else None,
            durationMs=round((time.monotonic() - started) * 1000),
            pid=process.pid,
            cwd=workspace.neutral(str(folder)),
            timedOut=timed_out,
            aggregated=text,
        )

    return Tool(ExecArgs, run)
