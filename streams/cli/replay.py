"""``loopwarden replay``: look for loops in recorded events, without a broker."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from loopwarden.streams.cli.options import UNUSABLE, config_option, fail
from loopwarden.streams.configuration import Configuration
from loopwarden.streams.recordings import Line, UnreadableFile, list_files, read_lines, total_bytes
from loopwarden.streams.replay import BadLine, Replay, Replayed, gravity
from loopwarden.streams.settings import resolve

#: Exit code where loops were found that ``--fail-on`` asks about.
LOOPS_FOUND = 1

#: How many bad lines are printed unless all are asked for.
BAD_LINES_SHOWN = 20

#: How many runs the summary names.
WORST_RUNS_SHOWN = 10

#: Input below this many bytes is read before a progress bar could be seen.
_PROGRESS_FROM_BYTES = 5_000_000


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@config_option
@click.option(
    "--output",
    type=click.Choice(["summary", "verdicts", "decisions", "signals"]),
    default="summary",
    show_default=True,
    help="What goes to standard output; all but the summary are JSON lines.",
)
@click.option(
    "--fail-on", type=click.Choice(["warning", "critical"]), help="Exit code 1 for loops of this level or worse."
)
@click.option("--verbose", is_flag=True, help=f"Print every bad line, not only the first {BAD_LINES_SHOWN}.")
@click.option("--quiet", is_flag=True, help="Print no progress and no bad lines.")
def replay(
    files: tuple[str, ...], configuration: Configuration, output: str, fail_on: str | None, verbose: bool, quiet: bool
) -> None:
    """Look for loops in recorded events.

    FILE is a file of events, one JSON object a line, packed with gzip or not; a folder of such files; or - for standard
    input. Several files are read as one log, in the order given. Without --config, loop detection is on with its
    default thresholds.

    Exit code 0; 1 where --fail-on finds loops; 2 where the input cannot be used.
    """
    book = configuration.book
    if click.get_current_context().params.get("config_path") is None:
        # Whoever replays wants to find loops; unset would leave only the post-compaction guard.
        book = resolve({"enabled": True}, {})[0]
    if not quiet:
        for warning in configuration.warnings:
            click.echo(f"warning: {warning}", err=True)
    session = Replay(book)
    reporter = _BadLines(quiet, verbose)
    try:
        names = list_files(list(files))
        for replayed in session.fold(_all_lines(names, show_progress=not quiet)):
            _write(replayed, output)
            reporter.report(replayed.bad_lines)
    except UnreadableFile as error:
        # What came before the fault has been folded and written already.
        reporter.close()
        fail(str(error))
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has enough
        sys.exit(0)
    reporter.close()
    if session.lines == 0 or not session.events:
        fail(f"no event in {', '.join(files)}", UNUSABLE)
    if output == "summary":
        _print_summary(session)
    sys.exit(_exit_code(session, fail_on))


def _exit_code(session: Replay, fail_on: str | None) -> int:
    levels = {level for _detector, level in session.loops}
    if (fail_on == "warning" and levels) or (fail_on == "critical" and "critical" in levels):
        return LOOPS_FOUND
    return 0


def _all_lines(names: list[str], show_progress: bool) -> Iterator[Line]:
    """Yield the lines of all files, with a progress bar on a terminal where there is much to read."""
    size = total_bytes(names)
    wanted = show_progress and sys.stderr.isatty() and (size is None or size >= _PROGRESS_FROM_BYTES)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not wanted) as progress:
        task = progress.add_task("reading", total=size)
        for name in names:
            progress.update(task, description=name)
            yield from read_lines(name, lambda count: progress.update(task, advance=count))


def _write(replayed: Replayed, output: str) -> None:
    if output == "summary":
        return
    for item in getattr(replayed, output):
        sys.stdout.write(msgspec.json.encode(item).decode() + "\n")


class _BadLines:
    """Prints bad lines as they come, up to a number."""

    def __init__(self, quiet: bool, verbose: bool) -> None:
        self._left = 0 if quiet else (2**62 if verbose else BAD_LINES_SHOWN)
        self._hidden = 0
        self._quiet = quiet

    def report(self, bad_lines: list[BadLine]) -> None:
        for line, refusal in bad_lines:
            if self._left > 0:
                self._left -= 1
                click.echo(f"{line.file}:{line.number}: {refusal.reason}: {refusal.detail}", err=True)
            else:
                self._hidden += 1

    def close(self) -> None:
        if self._hidden and not self._quiet:
            click.echo(f"and {self._hidden} more bad lines (--verbose prints all)", err=True)


def _print_summary(session: Replay) -> None:
    console = Console(highlight=False)
    counts = ", ".join(f"{number} {name}" for name, number in sorted(session.events.items()))
    console.print(f"{len(session.seen)} runs, {sum(session.events.values())} events ({counts})")
    if session.bad_lines:
        console.print(f"{session.bad_lines} bad lines were left out")
    if session.unknown_types:
        console.print(f"{session.unknown_types} events of unknown types were skipped")
    if session.runs.engine.counts.incomparable_results:
        number = session.runs.engine.counts.incomparable_results
        console.print(f"{number} results could not be compared: our own vetoes, or sent without content or hash")
    if not session.loops:
        console.print("no loops found")
        return
    console.print(_loops_table(session))
    console.print(_worst_table(session))


def _loops_table(session: Replay) -> Table:
    table = Table(title="loops, by detector", title_justify="left")
    table.add_column("detector")
    for heading in ("warnings", "critical"):
        table.add_column(heading, justify="right")
    for detector in sorted({detector for detector, _level in session.loops}):
        counts = (session.loops[(detector, level)] for level in ("warning", "critical"))
        table.add_row(detector, *(str(count) for count in counts))
    return table


def _worst_table(session: Replay) -> Table:
    standings = list(session.standing.values())
    counts = ", ".join(f"{standings.count(name)} {name}" for name in ("warned", "blocked", "killed"))
    table = Table(title=f"runs: {counts}; the worst", title_justify="left")
    for heading in ("session", "run", "detector", "tool"):
        table.add_column(heading, overflow="fold")
    table.add_column("count", justify="right")
    table.add_column("standing")
    ranked = sorted(session.worst.items(), key=lambda item: gravity(item[1]), reverse=True)
    for key, worst in ranked[:WORST_RUNS_SHOWN]:
        tools = worst.tool_name + (f" / {worst.paired_tool_name}" if worst.paired_tool_name else "")
        table.add_row(key[0], key[1] or "", worst.detector, tools, str(worst.count), session.standing[key])
    return table
