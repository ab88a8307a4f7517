"""``loopwarden worker``: watch the events topic."""

from __future__ import annotations

import asyncio

import click
import msgspec
from aiokafka.errors import KafkaConnectionError, KafkaError

from loopwarden.schemas.configuration import TopicsConfig, WorkerConfig
from loopwarden.streams.cli.options import UNUSABLE, fail, kafka_options, unreachable
from loopwarden.streams.cli.topics import topic_options
from loopwarden.streams.configuration import Configuration
from loopwarden.streams.kafka_settings import KafkaSettings
from loopwarden.streams.plumbing.logs import configure_logs, get_logger
from loopwarden.streams.plumbing.metrics import Metrics
from loopwarden.streams.plumbing.reach import Unreachable, wait_for_broker
from loopwarden.streams.plumbing.topics import TopicsReport, check_topics, refusals
from loopwarden.streams.plumbing.web import StatusServer


@click.command()
@kafka_options
@topic_options
@click.option("--status-host", metavar="HOST", help="Address of /metrics and /health.  [default: 127.0.0.1]")
@click.option("--status-port", type=click.IntRange(0, 65535), help="Its port; 0 takes a free one.  [default: 9464]")
@click.option("--log-format", type=click.Choice(["auto", "json", "text"]), help="auto: text on a terminal, else JSON.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="[default: info]")
@click.option(
    "--session-timeout",
    type=click.IntRange(min=3),
    metavar="SECONDS",
    help="When the group takes a silent worker for dead.  [default: 45]",
)
@click.option(
    "--broker-wait",
    type=click.IntRange(min=0),
    metavar="SECONDS",
    help="For how long to try where no broker answers at the start.  [default: 60]",
)
def worker(
    configuration: Configuration,
    kafka: KafkaSettings,
    topics: TopicsConfig,
    group: str,
    status_host: str | None,
    status_port: int | None,
    log_format: str | None,
    log_level: str | None,
    session_timeout: int | None,
    broker_wait: int | None,
) -> None:
    """Watch the events topic: find loops, publish verdicts, send signals.

    Start as many workers as you like, up to the number of partitions; they share the work. State is kept in a changelog
    topic, so that a worker may be stopped or killed at any time. The topics must be there ('loopwarden topics create').
    Detection is off until a configuration says tools.loopDetection.enabled: true; only the post-compaction guard is on.
    """
    stated = {
        "status_host": status_host,
        "status_port": status_port,
        "log_format": log_format,
        "log_level": log_level,
        "session_timeout_seconds": session_timeout,
        "broker_wait_seconds": broker_wait,
        "group": group,
    }
    changes = {name: value for name, value in stated.items() if value is not None}
    config = msgspec.structs.replace(configuration.file.worker, **changes)
    configure_logs(config.log_format, config.log_level)
    log = get_logger("loopwarden.worker")
    for warning in configuration.warnings:
        log.warning("configuration", path=warning.path, problem=warning.message)
    if not any(settings.enabled for settings in (configuration.book.everybody, *configuration.book.agents.values())):
        log.warning(
            "loop detection is off for every agent; only the post-compaction guard works",
            to_turn_on="tools.loopDetection.enabled: true",
        )
    _refuse_wrong_topics(kafka, topics, config)
    _run(configuration, kafka, topics, config)


def _refuse_wrong_topics(kafka: KafkaSettings, topics: TopicsConfig, config: WorkerConfig) -> None:
    """End here where no broker answers in time, and where a topic is missing or has another number of partitions."""
    try:
        report = asyncio.run(_look_at_topics(kafka, topics, config))
    except KafkaConnectionError as error:
        fail(unreachable(kafka, error))
    except KafkaError as error:
        fail(f"the broker does not tell of its topics: {error}")
    except OSError as error:
        fail(f"cannot serve metrics on {config.status_host}:{config.status_port}: {error.strerror or error}")
    wrong = refusals(report)
    if wrong:
        fail("topics are not as they must be\n" + "\n".join(str(difference) for difference in wrong), UNUSABLE)


async def _look_at_topics(kafka: KafkaSettings, topics: TopicsConfig, config: WorkerConfig) -> TopicsReport:
    """Wait for a broker and look at its topics; meanwhile this worker is alive, and not ready."""
    log = get_logger("loopwarden.worker")

    def say(error: Unreachable) -> None:
        log.warning("waiting for a broker", reason=str(error.args[0]), wait_s=config.broker_wait_seconds)

    status = StatusServer(config.status_host, config.status_port, Metrics(), lambda: "waiting for a broker")
    await status.start()
    try:
        await wait_for_broker(kafka, config.broker_wait_seconds, say)
        return await check_topics(kafka, topics, config.group)
    finally:
        await status.stop()


def _run(configuration: Configuration, kafka: KafkaSettings, topics: TopicsConfig, config: WorkerConfig) -> None:
    # Faust takes most of a second to import; refusals above need not wait for it.
    from loopwarden.streams.processors.worker import run_worker

    run_worker(configuration, kafka, topics, config)
