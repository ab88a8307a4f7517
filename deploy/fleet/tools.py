"""All tools of a scripted agent in one place; every one of them does what it says."""

from __future__ import annotations

from loopwarden.deploy.fleet.files import file_tools
from loopwarden.deploy.fleet.jobs import Jobs
from loopwarden.deploy.fleet.network import network_tools
from loopwarden.deploy.fleet.shell import exec_tool
from loopwarden.deploy.fleet.toolbox import JsonObject, Tool, ToolArgs, Toolbox, text_result
from loopwarden.deploy.fleet.workspace import Workspace


class _NoArgs(ToolArgs, frozen=True):
    """For a tool without parameters."""


def make_toolbox(
    workspace: Workspace, jobs: Jobs, office_port: int, *, session_id: str, agent_id: str, fresh_folders: bool
) -> Toolbox:
    """Return the tools of one agent; the caller closes ``jobs`` when the agent is done."""

    def session_status(_: _NoArgs) -> JsonObject:
        running = jobs.running()
        text = f"Session {session_id}: agent {agent_id}, scripted model, {running} background jobs running."
        return text_result(text, sessionId=session_id, agent=agent_id, model="scripted", runningJobs=running)

    return Toolbox(
        {
            "exec": exec_tool(workspace, fresh_folders=fresh_folders),
            "process": jobs.tool(),
            "session_status": Tool(_NoArgs, session_status),
            **file_tools(workspace),
            **network_tools(office_port),
        }
    )
