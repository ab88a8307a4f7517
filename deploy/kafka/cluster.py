"""An Apache Kafka cluster (KRaft) on loopback, of one node or several, without Docker."""

from __future__ import annotations

import base64
import subprocess
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from loopwarden.deploy.kafka.artifacts import KafkaUnavailable, jars
from loopwarden.deploy.processes import OwnedProcess, ProcessFailed, answers, free_port

#: How long a node may take to answer, in seconds; several start side by side on few cores.
START_DEADLINE_S = 90.0

_HEAP = ("-Xms256m", "-Xmx512m")
_LOG_CONFIG = Path(__file__).parent / "log4j2.yaml"


class KafkaNode:
    """One node of a cluster, broker and controller in one process."""

    def __init__(self, number: int, folder: Path, classpath: str) -> None:
        self.number = number
        self.port = free_port()
        self.controller_port = free_port()
        self.folder = folder / f"node-{number}"
        self.properties = self.folder / "server.properties"
        self._command = ["java", *_HEAP, f"-Dlog4j2.configurationFile={_LOG_CONFIG}", "-cp", classpath]
        self.process = self._new_process()

    def _new_process(self) -> OwnedProcess:
        return OwnedProcess(f"kafka-{self.number}", [*self._command, "kafka.Kafka", str(self.properties)])

    def prepare(self, cluster_id: str, properties: Mapping[str, str], scram_users: Mapping[str, str]) -> None:
        """Write the node's configuration and format its storage; raises KafkaUnavailable."""
        self.folder.mkdir(parents=True)
        content = {"node.id": str(self.number), "log.dirs": str(self.folder / "data")} | dict(properties)
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in content.items()))
        command = [*self._command, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}"]
        command += ["--config", str(self.properties)]
        for user, password in scram_users.items():
            command += ["--add-scram", f"SCRAM-SHA-512=[name={user},password={password}]"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours
        if done.returncode != 0:
            raise KafkaUnavailable(
                f"the storage of node {self.number} cannot be formatted:\n{done.stdout}{done.stderr}"
            )

    def start(self) -> None:
        """Start the node and wait until it answers; raises ProcessFailed."""
        if self.process.pid is None:
            self.process = self._new_process()
        self.process.start(lambda: answers(self.port), START_DEADLINE_S)

    def stop(self) -> None:
        """Stop the node in good order; its data stays."""
        self.process.stop(grace_s=30.0)


class KafkaCluster:
    """Nodes with their data in a temporary folder; a context manager that leaves nothing behind.

    ``security`` is added to every node's properties; where it names listeners, clients connect to ``CLIENT``, whose
    protocol it maps (see ``loopwarden.deploy.kafka.security``).
    """

    def __init__(
        self, nodes: int = 1, security: Mapping[str, str] | None = None, scram_users: Mapping[str, str] | None = None
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="loopwarden-kafka-")
        classpath = f"{jars()}/*"
        self.nodes = [KafkaNode(number, Path(self._temporary.name), classpath) for number in range(1, nodes + 1)]
        self._security = dict(security or {})
        self._scram_users = dict(scram_users or {})

    @property
    def bootstrap(self) -> str:
        """The addresses that clients connect to."""
        return ",".join(f"localhost:{node.port}" for node in self.nodes)

    def start(self) -> None:
        """Format and start all nodes; raises KafkaUnavailable or ProcessFailed."""
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        try:
            for node in self.nodes:
                node.prepare(cluster_id, self._properties(node), self._scram_users)
            # A controller answers only once a majority is there, so that all must be on their way first.
            for node in self.nodes:
                node.process.start(lambda: True, START_DEADLINE_S)
            for node in self.nodes:
                node.process.wait_for(lambda node=node: answers(node.port), START_DEADLINE_S)  # type: ignore[misc]
        except BaseException:
            self.stop()
            raise

    def _properties(self, node: KafkaNode) -> dict[str, str]:
        voters = ",".join(f"{other.number}@localhost:{other.controller_port}" for other in self.nodes)
        copies = str(min(3, len(self.nodes)))
        enough = str(min(2, len(self.nodes)))
        return {
            "process.roles": "broker,controller",
            "controller.quorum.voters": voters,
            "listeners": f"CLIENT://localhost:{node.port},CONTROLLER://localhost:{node.controller_port}",
            "advertised.listeners": f"CLIENT://localhost:{node.port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,CLIENT:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "CLIENT",
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "4",
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": enough,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": enough,
        } | self._security

    def stop(self) -> None:
        """Stop all nodes and remove their data."""
        for node in self.nodes:
            node.process.stop(grace_s=2.0)  # nothing of it is kept
        self._temporary.cleanup()

    def __enter__(self) -> KafkaCluster:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


__all__ = ["KafkaCluster", "KafkaNode", "KafkaUnavailable", "ProcessFailed"]
