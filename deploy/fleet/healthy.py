"""Scripted agents that do ordinary mixed work and finish it; a loop detector has to leave them alone.

Each is a few tasks one after the other, drawn with a seed of its own, so that a few hundred of them differ
while the same seed gives the same agent again. They also do what careless detectors take for loops: read many
files with one tool, poll a job, run the same tests between edits, try again while a service is busy, and
stumble now and then.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from loopwarden.deploy.fleet import chores, engineering
from loopwarden.deploy.fleet.scripts import Script, ScriptedAgent
from loopwarden.deploy.fleet.workspace import Workspace

Task = Callable[[Workspace, random.Random], Script]

#: What each kind of agent may be asked to do.
TASKS_BY_AGENT: dict[str, tuple[Task, ...]] = {
    "coder": (
        engineering.mend_a_project,
        engineering.explore_a_tree,
        engineering.rename_a_setting,
        engineering.wait_for_a_job,
    ),
    "researcher": (
        chores.report_on_orders,
        chores.look_up_customers,
        engineering.explore_a_tree,
        chores.keep_notes,
    ),
    "operations": (
        engineering.wait_for_a_job,
        chores.fetch_a_busy_export,
        engineering.sift_a_log,
        chores.tell_people,
    ),
    "assistant": (
        chores.tell_people,
        chores.keep_notes,
        chores.look_up_customers,
        chores.fetch_a_busy_export,
    ),
    "writer": (
        chores.keep_notes,
        engineering.explore_a_tree,
        chores.report_on_orders,
        engineering.rename_a_setting,
    ),
}


def healthy_agent(number: int, seed: int) -> ScriptedAgent:
    """Return the healthy agent of this number; the same number and seed give the same agent."""
    draw = random.Random(f"{seed}/{number}")  # noqa: S311 - variety, not secrecy
    kind = draw.choice(sorted(TASKS_BY_AGENT))
    offered = TASKS_BY_AGENT[kind]
    tasks = draw.sample(offered, k=draw.randrange(2, len(offered)))
    script_seed = draw.random()

    def script(workspace: Workspace) -> Script:
        variety = random.Random(script_seed)  # noqa: S311 - variety, not secrecy
        for task in tasks:
            yield from task(workspace, variety)

    return ScriptedAgent(f"healthy-{number:04}", kind, script)
