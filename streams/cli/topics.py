"""``loopwarden topics``: make the topics, or compare them with what is expected."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Callable
from typing import Any

import click
import msgspec
from aiokafka.errors import KafkaConnectionError, KafkaError

from loopwarden.schemas.configuration import TopicsConfig
from loopwarden.streams.cli.options import UNUSABLE, fail, kafka_options, unreachable
from loopwarden.streams.configuration import Configuration
from loopwarden.streams.kafka_settings import KafkaSettings
from loopwarden.streams.plumbing.topics import check_topics, create_topics

#: Exit code of ``check`` where topics differ.
DIFFERENT = 1


def topic_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what says how the topics are to be; the command gets ``topics`` and ``group``."""

    @functools.wraps(command)
    def with_topics(
        configuration: Configuration,
        prefix: str | None,
        partitions: int | None,
        replication_factor: int | None,
        min_insync_replicas: int | None,
        group: str | None,
        **options: Any,
    ) -> Any:
        stated = {
            "prefix": prefix,
            "partitions": partitions,
            "replication_factor": replication_factor,
            "min_insync_replicas": min_insync_replicas,
        }
        changes = {name: value for name, value in stated.items() if value is not None}
        topics = msgspec.structs.replace(configuration.file.topics, **changes)
        return command(
            configuration=configuration, topics=topics, group=group or configuration.file.worker.group, **options
        )

    count = click.IntRange(min=1)
    decorated: Callable[..., Any] = with_topics
    for option in (
        click.option("--group", metavar="NAME", help="Consumer group of the workers.  [default: loopwarden]"),
        click.option("--min-insync-replicas", type=count, help="Copies that must have a record.  [default: 1]"),
        click.option("--replication-factor", type=count, help="Copies of each record.  [default: 1]"),
        click.option("--partitions", type=count, help="Partitions of each topic that is keyed.  [default: 12]"),
        click.option("--prefix", metavar="TEXT", help="What topic names begin with.  [default: loopwarden.]"),
    ):
        decorated = option(decorated)
    return decorated


@click.group()
def topics() -> None:
    """Make the topics, or compare them with what is expected."""


@topics.command()
@kafka_options
@topic_options
def create(configuration: Configuration, kafka: KafkaSettings, topics: TopicsConfig, group: str) -> None:
    """Make the topics that are missing; those that are there are left alone.

    Their number of partitions bounds the number of workers, and cannot be changed later without moving keys.
    """
    if topics.min_insync_replicas > topics.replication_factor:
        fail(
            f"{topics.min_insync_replicas} copies must have a record (--min-insync-replicas), but there are to be only "
            f"{topics.replication_factor} (--replication-factor): such topics would take no records"
        )
    try:
        made, there = asyncio.run(create_topics(kafka, topics, group))
    except KafkaConnectionError as error:
        fail(unreachable(kafka, error))
    except KafkaError as error:
        fail(f"the broker refuses to make topics: {error}")
    for name in made:
        click.echo(f"made     {name}")
    for name in there:
        click.echo(f"present  {name}")


@topics.command()
@kafka_options
@topic_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line and difference.")
def check(configuration: Configuration, kafka: KafkaSettings, topics: TopicsConfig, group: str, as_json: bool) -> None:
    """Say how the topics differ from what is expected, and how to mend it.

    Exit code 0: as expected; 1: they differ; 2: no broker answers.
    """
    try:
        report = asyncio.run(check_topics(kafka, topics, group))
    except KafkaConnectionError as error:
        fail(unreachable(kafka, error))
    except KafkaError as error:
        fail(f"the broker does not tell of its topics: {error}", UNUSABLE)
    for difference in report.differences:
        click.echo(msgspec.json.encode(difference._asdict()).decode() if as_json else str(difference))
    for note in report.notes:
        click.echo(f"note: {note}", err=True)
    if report.differences:
        sys.exit(DIFFERENT)
    if not as_json:
        click.echo("all topics are as expected")
