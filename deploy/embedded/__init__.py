"""An embedded Kafka-compatible broker, for the demo and for tests."""

from loopwarden.deploy.embedded.broker import BrokerError, EmbeddedBroker

__all__ = ["BrokerError", "EmbeddedBroker"]
