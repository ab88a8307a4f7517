"""``python -m loopwarden.deploy.fleet``: run the fleet, write the recording that the demonstration plays.

Recorded, because a demonstration has to show the same on every machine and start at once; from a fleet with
real tools, because made-up results would show only what their author thought of.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from loopwarden.deploy.fleet.event_log import EventLog
from loopwarden.deploy.fleet.expectations import expectation_of
from loopwarden.deploy.fleet.fleet import DEFAULT_RUNS, DEFAULT_SEED, INCIDENT_RUNS, make_fleet, play_fleet
from loopwarden.deploy.fleet.session import Session

_COLUMNS = (
    TextColumn("[progress.description]{task.description}"),
    BarColumn(),
    MofNCompleteColumn(),
    TextColumn("runs, {task.fields[events]} events"),
    TimeElapsedColumn(),
)


@click.command()
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("deploy/demo/fleet.jsonl.gz"),
    show_default=True,
    help="Where the recording goes; an existing one is replaced.",
)
@click.option(
    "--runs",
    type=click.IntRange(min=INCIDENT_RUNS),
    default=DEFAULT_RUNS,
    show_default=True,
    help=f"Runs in all; the reported incidents make {INCIDENT_RUNS} of them, healthy agents the rest.",
)
@click.option("--seed", type=int, default=DEFAULT_SEED, show_default=True, help="Which healthy agents are drawn.")
@click.option(
    "--thinking-ms",
    type=click.IntRange(0, 10_000),
    default=220,
    show_default=True,
    help="How long an agent thinks between two steps, on average; 0 records as fast as it goes.",
)
def main(output: Path, runs: int, seed: int, thinking_ms: int) -> None:
    """Run a fleet of scripted agents with real tools and record their events."""
    console = Console()
    started = time.monotonic()
    sessions: list[tuple[str, int, int]] = []
    with (
        tempfile.TemporaryDirectory(prefix="fleet-") as folder,
        Progress(*_COLUMNS, console=console) as progress,
    ):
        root = Path(folder).resolve()  # as child processes see it, links followed
        log = EventLog(root)
        bar = progress.add_task("Agents at work", total=runs, events=0)

        def on_session_end(session: Session) -> None:
            sessions.append((session.agent.session_id, session.runs, session.calls))
            progress.update(bar, advance=session.runs, events=len(log.lines))

        agents = make_fleet(runs, seed)
        play_fleet(agents, root, log, thinking_s=thinking_ms / 1000, seed=seed, on_session_end=on_session_end)
    size_bytes = log.write(output)
    console.print(_closing_table(sessions))
    console.print(
        f"[bold]{len(log.lines):,}[/bold] events of {runs} runs written to [bold]{output}[/bold] "
        f"({size_bytes / 1000:,.0f} kB) in {time.monotonic() - started:.0f} s.",
        highlight=False,
        soft_wrap=True,
    )


def _closing_table(sessions: list[tuple[str, int, int]]) -> Table:
    """Return what was recorded: a row an incident with what it must come to, one for all healthy agents."""
    runs: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for session_id, session_runs, session_calls in sorted(sessions):
        expectation = expectation_of(session_id)
        name = expectation.incident if expectation else "healthy agents"
        runs[name] += session_runs
        calls[name] += session_calls
    standings = {entry.incident: entry.standing for entry in map(expectation_of, (s[0] for s in sessions)) if entry}
    table = Table(title="Recorded fleet", title_justify="left")
    table.add_column("agents")
    table.add_column("runs", justify="right")
    table.add_column("calls", justify="right")
    table.add_column("runs must end up")
    for name in sorted(runs, key=lambda name: (name not in standings, name)):
        standing = standings.get(name, "none")
        table.add_row(name, f"{runs[name]:,}", f"{calls[name]:,}", "left alone" if standing == "none" else standing)
    return table
