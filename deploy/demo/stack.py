"""What the demo and tests run on: a broker, the topics, a worker."""

from __future__ import annotations

import asyncio
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from loopwarden.deploy.processes import OwnedProcess, free_port
from loopwarden.schemas.configuration import TopicsConfig
from loopwarden.streams.kafka_settings import KafkaSettings
from loopwarden.streams.plumbing.topics import create_topics

#: How long a worker may take to be ready, in seconds: it joins its group, and reads its changelog.
READY_DEADLINE_S = 60.0

#: The shortest session timeout that brokers allow, in seconds; joining a group takes about half of it.
SESSION_TIMEOUT_S = 6


def make_topics(bootstrap: str, topics: TopicsConfig, group: str) -> None:
    """Make the topics that are missing."""
    asyncio.run(create_topics(KafkaSettings(bootstrap_servers=bootstrap), topics, group))


class WorkerProcess:
    """A worker as a process of its own, as anybody would start it."""

    def __init__(
        self,
        bootstrap: str,
        topics: TopicsConfig,
        *,
        config: Path,
        group: str = "loopwarden",
        more: Sequence[str] = (),
    ) -> None:
        self.status_port = free_port()
        command = [sys.executable, "-m", "loopwarden.streams.cli.main", "worker"]
        command += ["--bootstrap", bootstrap, "--config", str(config), "--group", group]
        command += ["--prefix", topics.prefix, "--partitions", str(topics.partitions)]
        command += ["--status-port", str(self.status_port), "--session-timeout", str(SESSION_TIMEOUT_S)]
        self.process = OwnedProcess("worker", [*command, "--log-format", "json", *more])

    def start(self) -> None:
        """Start the worker and wait until it is ready; raises ProcessFailed."""
        self.process.start(self.is_ready, READY_DEADLINE_S)

    def is_ready(self) -> bool:
        """Return whether the worker says that it is ready."""
        try:
            return self.get("/health/ready") is not None
        except OSError:
            return False

    def get(self, path: str) -> str | None:
        """Return what the worker serves under a path, None where it answers with an error; raises OSError."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.status_port}{path}", timeout=5) as response:
                return str(response.read().decode())
        except urllib.error.HTTPError:
            return None

    def metric(self, name: str) -> float:
        """Return the sum of all series of a metric."""
        text = self.get("/metrics") or ""
        lines = (line for line in text.splitlines() if line.startswith((name + "{", name + " ")))
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def stop(self) -> int | None:
        """Stop the worker in good order; return its exit code."""
        return self.process.stop()
