"""Puts a worker together from its configuration, and runs it until it is told to stop."""

from __future__ import annotations

import sys
from functools import partial

import faust

from loopwarden.schemas.configuration import TopicsConfig, WorkerConfig
from loopwarden.schemas.topics import topic_names
from loopwarden.streams.configuration import Configuration, limits_of
from loopwarden.streams.kafka_settings import KafkaSettings
from loopwarden.streams.plumbing.logs import get_logger
from loopwarden.streams.plumbing.metrics import Metrics
from loopwarden.streams.plumbing.reach import reach
from loopwarden.streams.plumbing.web import StatusServer
from loopwarden.streams.processors.app import WatchApp, make_app

log = get_logger("loopwarden.worker")

#: How long a request may take, in seconds; Faust wants it no shorter than the session timeout.
_REQUEST_TIMEOUT_S = 90

#: A member that is silent for this share of the session timeout still has time for another sign of life.
_HEARTBEATS_PER_SESSION = 5


def run_worker(configuration: Configuration, kafka: KafkaSettings, topics: TopicsConfig, config: WorkerConfig) -> None:
    """Run a worker until SIGTERM or SIGINT; ends the process, with code 0 where that was in good order."""
    metrics = Metrics()
    app = make_app(
        topics=topic_names(topics.prefix, config.group),
        partitions=topics.partitions,
        book=configuration.book,
        limits=limits_of(config),
        metrics=metrics,
        faust_options=kafka.faust_options() | group_options(config),
        producer_options=kafka.client_options(),
        reach=partial(reach, kafka),
    )
    status = StatusServer(config.status_host, config.status_port, metrics, app.why_not_ready)

    @app.on_start_hook
    async def serve_status() -> None:
        try:
            await status.start()
        except OSError as error:
            log.error("cannot serve metrics", host=status.host, port=status.port, error=str(error))
            raise
        log.info("serving metrics and health", host=status.host, port=status.port)

    @app.on_stop_hook
    async def stop_status() -> None:
        await status.stop()

    _run(app)


def _run(app: WatchApp) -> None:
    # Faust's own logging set-up would undo ours, and its console output is for Faust's users.
    worker = faust.Worker(app, loglevel=None, override_logging=False, redirect_stdouts=False, quiet=True)
    worker.spinner = None
    try:
        worker.execute_from_commandline()
    except SystemExit as done:
        sys.exit(done.code)


def group_options(config: WorkerConfig) -> dict[str, object]:
    """Return how the worker is a member of its consumer group, as Faust's options; times in seconds."""
    session_s = config.session_timeout_seconds
    return {
        "id": config.group,
        "broker_session_timeout": float(session_s),
        "broker_heartbeat_interval": session_s / _HEARTBEATS_PER_SESSION,
        "broker_rebalance_timeout": float(max(10, session_s)),
        "broker_request_timeout": float(max(_REQUEST_TIMEOUT_S, session_s)),
        "broker_commit_interval": 1.0,
        "consumer_group_instance_id": config.instance_id,
    }
