"""What a scripted agent is: a generator that yields what it does next and is told how it went.

A generator, because the fleet interleaves hundreds of agents: each stands still between two steps, as an
agent does that waits for its model.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Literal

from loopwarden.deploy.fleet.toolbox import JsonObject, Outcome
from loopwarden.deploy.fleet.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call; a ``refused`` one never reaches its tool, because the runner was told to block it."""

    tool_name: str
    args: JsonObject
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of one model reply: all are asked for before the first has finished."""

    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Compact:
    """The context overflowed: it is compacted, and the agent goes on with what it was doing."""

    tokens_after: int


@dataclass(frozen=True, slots=True)
class NextRun:
    """This run is over, and another begins in the same session."""


Step = Calls | Compact | NextRun
Script = Generator[Step, tuple[Outcome, ...], None]
Part = Generator[Step, tuple[Outcome, ...], Outcome]

#: Prepares the workspace, if needed, and returns the steps of an agent that works in it.
ScriptMaker = Callable[[Workspace], Script]


def use(tool_name: str, /, **args: Any) -> Part:
    """Call a tool: ``outcome = yield from use("read", path="notes.md")``."""
    outcomes = yield Calls((Call(tool_name, args),))
    return outcomes[0]


@dataclass(frozen=True, slots=True)
class ScriptedAgent:
    """One session to record. ``ends_as``: the status of its last run (``aborted``: a person had enough of it)."""

    session_id: str
    agent_id: str
    script: ScriptMaker
    ends_as: Literal["completed", "failed", "aborted"] = "completed"
    fresh_folders: bool = False
