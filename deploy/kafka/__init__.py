"""Apache Kafka without Docker: its jars from Maven, its nodes as processes of ours."""

from loopwarden.deploy.kafka.artifacts import KafkaUnavailable
from loopwarden.deploy.kafka.cluster import KafkaCluster

__all__ = ["KafkaCluster", "KafkaUnavailable"]
