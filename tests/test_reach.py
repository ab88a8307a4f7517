"""Waiting for a broker: how long, what is said, and what ends it early."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from socket import create_server

import pytest

from loopwarden.deploy.processes import free_port
from loopwarden.streams.kafka_settings import KafkaSettings
from loopwarden.streams.plumbing import reach as module
from loopwarden.streams.plumbing.reach import Refused, Unreachable, reach, wait_for_broker


@contextmanager
def server(*, hangs_up: bool) -> Iterator[KafkaSettings]:
    """Something that listens and is no broker: it hangs up on whoever calls, or never says a word."""
    with create_server(("127.0.0.1", 0)) as listener:
        calls = []

        def answer() -> None:
            while True:
                try:
                    call, _address = listener.accept()
                except OSError:
                    return
                if hangs_up:
                    call.recv(1)
                    call.close()
                calls.append(call)

        threading.Thread(target=answer, daemon=True).start()
        yield KafkaSettings(bootstrap_servers=f"127.0.0.1:{listener.getsockname()[1]}")
        listener.shutdown(2)
        for call in calls:
            call.close()


def test_every_server_is_named_with_what_it_did() -> None:
    ports = [free_port(), free_port()]
    kafka = KafkaSettings(bootstrap_servers=",".join(f"127.0.0.1:{port}" for port in ports))

    with pytest.raises(Unreachable) as failure:
        asyncio.run(reach(kafka))

    assert not isinstance(failure.value, Refused)
    assert failure.value.args[0].count("Connection refused") == 2
    assert all(f"127.0.0.1:{port}: " in failure.value.args[0] for port in ports)


def test_a_server_that_never_answers_does_not_hold_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_DEADLINE_S", 0.5)
    with server(hangs_up=False) as kafka:
        began_s = time.monotonic()
        with pytest.raises(Unreachable, match="no answer within"):
            asyncio.run(reach(kafka))

        assert time.monotonic() - began_s < 5


def test_waiting_ends_early_where_a_server_hangs_up_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REFUSED_PATIENCE_S", 0.5)
    with server(hangs_up=True) as kafka:
        began_s = time.monotonic()
        with pytest.raises(Refused, match="closes the connection"):
            asyncio.run(wait_for_broker(kafka, 60, lambda error: None))

        assert 0.5 <= time.monotonic() - began_s < 10


def test_waiting_says_so_once_and_ends_after_its_time() -> None:
    said: list[Unreachable] = []
    kafka = KafkaSettings(bootstrap_servers=f"127.0.0.1:{free_port()}")
    began_s = time.monotonic()
    with pytest.raises(Unreachable):
        asyncio.run(wait_for_broker(kafka, 1.0, said.append))

    assert 1.0 <= time.monotonic() - began_s < 10
    assert len(said) == 1
