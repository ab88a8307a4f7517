"""The configuration file of a worker: JSON5, with the blocks of an OpenClaw file and a few of our own.

``tools.loopDetection`` and ``agents.list[]`` are read as OpenClaw does, and other blocks of OpenClaw's are ignored, so
that one file can serve both.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

Positive = Annotated[int, msgspec.Meta(ge=1)]
NonNegative = Annotated[int, msgspec.Meta(ge=0)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class TopicsConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """The topics: what their names begin with, how many partitions, how many copies."""

    prefix: str = "loopwarden."
    partitions: Positive = 12
    replication_factor: Positive = 1
    min_insync_replicas: Positive = 1


class WorkerConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """The worker: its consumer group, how long runs are held, what it serves over HTTP, and its logs.

    Times are in seconds, sizes in bytes. Port 0 takes any free port. ``brokerWaitSeconds`` is how long a worker that
    finds no broker at its start tries again before it gives up. With an ``instanceId`` (Kafka's group.instance.id,
    one of its own for each worker) a worker that comes back in time gets its partitions without a rebalance of the
    others.
    """

    group: str = "loopwarden"
    idle_run_seconds: Positive = 86_400
    ended_run_grace_seconds: Positive = 300
    signal_ttl_seconds: Positive = 86_400
    max_event_bytes: Positive = 524_288
    live_runs_max: Positive = 2_000
    session_timeout_seconds: Positive = 45
    instance_id: str | None = None
    broker_wait_seconds: NonNegative = 60
    status_host: str = "127.0.0.1"
    status_port: Port = 9464
    log_format: Literal["auto", "json", "text"] = "auto"
    log_level: Literal["debug", "info", "warning", "error"] = "info"


class ConfigurationFile(msgspec.Struct, rename="camel", frozen=True):
    """A configuration file as it stands; ``kafka`` holds properties by the names Kafka's clients give them."""

    tools: dict[str, Any] = {}
    agents: dict[str, Any] = {}
    kafka: dict[str, str | int | bool] = {}
    topics: TopicsConfig = TopicsConfig()
    worker: WorkerConfig = WorkerConfig()
