"""Processes of ours: started with their output in a file, and stopped by whoever started them, whatever comes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

_PR_SET_PDEATHSIG = 1
_LOG_TAIL_LINES = 15
_POLL_S = 0.05


class ProcessFailed(Exception):
    """A process ended that should run, or does not come up; the message holds the end of its output."""


class OwnedProcess:
    """A child process in a session of its own, which the kernel ends should its parent die without stopping it."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._command = list(command)
        self._environment = os.environ | dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None
        handle, path = tempfile.mkstemp(prefix=f"loopwarden-{name}-", suffix=".log")
        os.close(handle)
        self.log = Path(path)

    @property
    def pid(self) -> int | None:
        """The process id, None where it was not started or has been stopped."""
        return None if self._process is None else self._process.pid

    def start(self, is_up: Callable[[], bool], deadline_s: float) -> None:
        """Start, and wait until ``is_up`` says so; raises ProcessFailed, with the process stopped."""
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the commands are ours
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C on the terminal goes to the whole foreground group; ours are stopped in order instead.
                start_new_session=True,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
                env=self._environment,
            )
        try:
            self.wait_for(is_up, deadline_s)
        except BaseException:
            self.stop()
            raise

    def wait_for(self, holds: Callable[[], bool], deadline_s: float) -> None:
        """Wait until a condition holds; raises ProcessFailed where the process ends first, or time is up."""

        def checked() -> bool:
            self.check_alive()
            return holds()

        waiting = Retrying(
            retry=retry_if_result(lambda held: not held), stop=stop_after_delay(deadline_s), wait=wait_fixed(_POLL_S)
        )
        try:
            waiting(checked)
        except RetryError:
            raise ProcessFailed(f"{self.name} is not up after {deadline_s:.0f} s:\n{self.log_tail()}") from None

    def check_alive(self) -> None:
        """Raise ProcessFailed where the process has ended."""
        if self._process is not None and self._process.poll() is not None:
            raise ProcessFailed(f"{self.name} ended with code {self._process.returncode}:\n{self.log_tail()}")

    def log_tail(self) -> str:
        """Return the last lines of the process's output."""
        if not self.log.exists():
            return "(no output)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:])

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self, grace_s: float = 10.0) -> int | None:
        """Ask the process to end, and kill it if it does not; return its exit code, None where none was running."""
        process, self._process = self._process, None
        if process is None:
            return None
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(grace_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        with contextlib.suppress(OSError):
            self.log.unlink()
        return process.returncode


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    """Return whether something listens on a port of 127.0.0.1."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
