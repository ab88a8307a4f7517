"""``loopwarden rebuild``: recompute states and verdicts from the events, and compare or put right."""

from __future__ import annotations

import asyncio
import sys

import click
import msgspec
from aiokafka.errors import KafkaConnectionError, KafkaError
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from loopwarden.schemas.configuration import TopicsConfig
from loopwarden.schemas.topics import topic_names
from loopwarden.streams.cli.options import fail, kafka_options, unreachable
from loopwarden.streams.cli.topics import topic_options
from loopwarden.streams.configuration import Configuration, limits_of
from loopwarden.streams.kafka_settings import KafkaSettings
from loopwarden.streams.plumbing.rebuild import PartitionReport, Rebuild, total
from loopwarden.streams.plumbing.topics import admin_client

#: Exit code where what is stored or published is not what follows from the events.
DIFFERENT = 1


@click.command()
@kafka_options
@topic_options
@click.option("--partition", "only", type=click.IntRange(min=0), multiple=True, help="Only this one; may be repeated.")
@click.option("--from-offset", type=click.IntRange(min=0), help="Begin here instead of with the earliest event.")
@click.option("--write", is_flag=True, help="Publish what is missing, store states as rebuilt; stop all workers first.")
@click.option("--force", is_flag=True, help="Write even though the group still lists workers.")
@click.option("--json", "as_json", is_flag=True, help="The numbers as one JSON object.")
def rebuild(
    configuration: Configuration,
    kafka: KafkaSettings,
    topics: TopicsConfig,
    group: str,
    only: tuple[int, ...],
    from_offset: int | None,
    write: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Recompute all states and verdicts from the events topic, and compare them with what is there.

    Give the workers' configuration, since other thresholds make other verdicts. With --from-offset, runs that began
    before it count less, so that only verdicts are compared. Verdicts and signals keep their ids, so publishing them
    again does no harm.

    Exit code 0: all as it must be (or put right with --write); 1: not so; 2: no broker answers, or workers are running.
    """
    names = topic_names(topics.prefix, group)
    work = Rebuild(kafka, names, configuration.book, limits_of(configuration.file.worker))
    try:
        if write and not force and asyncio.run(_members(kafka, group)):
            fail(f"workers of the group {group} are running; stop them before --write (--force if they are not)")
        reports = asyncio.run(_rebuild(work, only or tuple(range(topics.partitions)), from_offset))
        if write:
            for report in reports:
                asyncio.run(work.put_right(report))
    except KafkaConnectionError as error:
        fail(unreachable(kafka, error))
    except KafkaError as error:
        fail(f"the broker refuses: {error}")
    numbers = total(reports)
    if as_json:
        click.echo(msgspec.json.encode(numbers).decode())
    else:
        for name, number in numbers.items():
            click.echo(f"{number:>12,}  {name.replace('_', ' ')}")
    if not write and not all(report.is_right for report in reports):
        sys.exit(DIFFERENT)


async def _rebuild(work: Rebuild, partitions: tuple[int, ...], from_offset: int | None) -> list[PartitionReport]:
    reports = []
    columns = (
        SpinnerColumn(),
        TextColumn("{task.completed:,.0f} events of partition {task.fields[number]}"),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("rebuilding", total=None, number=0)
        for number in partitions:
            progress.update(task, number=number)
            report = await work.partition(number, from_offset, lambda count: progress.advance(task, count))
            if from_offset is not None:
                # States of runs that began earlier cannot be right; only what they led to is compared.
                report = report._replace(missing_rows=[], different_rows=[], extra_rows=[])
            reports.append(report)
    return reports


async def _members(kafka: KafkaSettings, group: str) -> int:
    """Return how many workers the group has."""
    async with admin_client(kafka) as admin:
        described = await admin.describe_consumer_groups([group])
    return sum(len(entry[5]) for response in described for entry in response.groups)
