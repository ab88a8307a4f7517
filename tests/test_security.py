"""Brokers that ask for TLS, a certificate or a password: every command works with them, or says at once why not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme
from broker_tools import Stream

from loopwarden.deploy.demo.stack import WorkerProcess
from loopwarden.deploy.kafka import KafkaCluster, KafkaUnavailable
from loopwarden.deploy.kafka.security import ClusterSecurity, scram, tls
from loopwarden.schemas.configuration import TopicsConfig
from loopwarden.streams.kafka_settings import make_kafka_settings

pytestmark = pytest.mark.broker

PARTITIONS = 2

#: How long a command may take to say that it cannot work, in seconds.
REFUSED_WITHIN_S = 30.0


WITH_TLS = ["tls", "mutual-tls", "scram-over-tls"]
WITH_PASSWORD = ["scram-over-tls", "scram-over-plaintext"]
KINDS = [*WITH_TLS, "scram-over-plaintext"]


def clusters(*kinds: str) -> pytest.MarkDecorator:
    """Have a test run on these kinds of clusters, all of a kind on the same one."""
    return pytest.mark.parametrize("secured", kinds, indirect=True, scope="module")


class Secured(NamedTuple):
    """A cluster that lets in only those with the right properties."""

    kind: str
    bootstrap: str
    client: Mapping[str, str]


def make_security(kind: str, folder: Path) -> ClusterSecurity:
    """Make what the kind of cluster needs."""
    match kind:
        case "tls":
            return tls(folder)
        case "mutual-tls":
            return tls(folder, mutual=True)
        case "scram-over-tls":
            return scram(folder)
        case _:
            return scram()


@pytest.fixture(scope="module")
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A cluster of each kind in turn."""
    security = make_security(request.param, tmp_path_factory.mktemp("security"))
    try:
        with KafkaCluster(security=security.properties, scram_users=security.scram_users) as cluster:
            yield Secured(request.param, cluster.bootstrap, security.client)
    except KafkaUnavailable as error:
        if os.environ.get("LOOPWARDEN_REQUIRE_KAFKA"):
            raise
        pytest.skip(str(error))


def options(client: Mapping[str, str]) -> list[str]:
    """Properties as options, but for the password, which commands find in their environment."""
    return [part for name, value in client.items() if name != "sasl.password" for part in ("-X", f"{name}={value}")]


def loopwarden(bootstrap: str, client: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command as anybody would, with the client's properties; fails where it takes too long."""
    environment = os.environ | {"LOOPWARDEN_SASL_PASSWORD": client.get("sasl.password", "")}
    command = [sys.executable, "-m", "loopwarden.streams.cli.main", *arguments]
    command += ["--bootstrap", bootstrap, *options(client)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=REFUSED_WITHIN_S, check=False, env=environment
    )


def loop(calls: int) -> list[tuple[str | None, bytes | None]]:
    """The same call with the same result, this many times."""
    events: list[tuple[str | None, bytes | None]] = []
    for number in range(calls):
        call = {"session_id": "s", "run_id": "r", "tool_call_id": f"c{number}", "tool_name": "read", "args": {"a": 1}}
        events.append(("s", json.dumps(call | {"type": "tool_call"}).encode()))
        events.append(("s", json.dumps(call | {"type": "tool_result", "result": "same"}).encode()))
    return events


@clusters(*KINDS)
def test_topics_worker_and_tail_work(secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unique = uuid.uuid4().hex[:8]
    topics, group = TopicsConfig(prefix=f"t{unique}.", partitions=PARTITIONS), f"g{unique}"
    about_topics = ("--prefix", topics.prefix, "--partitions", str(PARTITIONS), "--group", group)
    client = make_kafka_settings({"bootstrap.servers": secured.bootstrap} | dict(secured.client), {}).client_options()
    stream = Stream(secured.bootstrap, topics, group, client_options=client)
    config = tmp_path / "worker.json5"
    config.write_text(json.dumps({"tools": {"loopDetection": {"enabled": True}}}))
    monkeypatch.setenv("LOOPWARDEN_SASL_PASSWORD", secured.client.get("sasl.password", ""))

    created = loopwarden(secured.bootstrap, secured.client, "topics", "create", *about_topics)
    assert created.returncode == 0, created.stderr
    checked = loopwarden(secured.bootstrap, secured.client, "topics", "check", *about_topics)
    assert (checked.returncode, checked.stdout) == (0, "all topics are as expected\n"), checked.stderr

    worker = WorkerProcess(secured.bootstrap, topics, config=config, group=group, more=options(secured.client))
    try:
        worker.start()
        stream.send(loop(12))
        tail = ("tail", "verdicts", "--prefix", topics.prefix, "--from-beginning", "--limit", "1", "--json")
        tailed = loopwarden(secured.bootstrap, secured.client, *tail)
        assert tailed.returncode == 0, tailed.stderr
        verdict = json.loads(tailed.stdout)
        assert (verdict["detector"], verdict["level"], verdict["session_id"]) == ("generic_repeat", "warning", "s")
        assert stream.rows(lambda rows: len(rows) == 1)
    finally:
        stopped = worker.stop()
    assert stopped == 0


COMMANDS = {
    "topics check": ("topics", "check"),
    "topics create": ("topics", "create"),
    "tail": ("tail", "verdicts"),
    "worker": ("worker", "--status-port", "0", "--log-format", "json"),
}


def assert_refused(secured: Secured, client: Mapping[str, str], command: str, *why: str) -> None:
    """The command says why it cannot work, in its last line, with exit code 2, and in time."""
    began_s = time.monotonic()
    done = loopwarden(secured.bootstrap, client, *COMMANDS[command])
    assert time.monotonic() - began_s < REFUSED_WITHIN_S
    assert done.returncode == 2, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("error: the Kafka broker does not let us in"), done.stderr
    for part in why:
        assert part in last, done.stderr
    assert "Traceback" not in done.stderr


@clusters(*WITH_PASSWORD)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_password_is_said(secured: Secured, command: str) -> None:

    assert_refused(secured, {**secured.client, "sasl.password": "wrong"}, command, "the login is refused", "sasl")


@clusters(*WITH_TLS)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_authority_that_did_not_sign_the_certificate_is_said(secured: Secured, command: str, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(other)

    assert_refused(
        secured, {**secured.client, "ssl.ca.location": str(other)}, command, "not trusted", "see ssl.ca.location"
    )


@clusters(*KINDS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_plaintext_client_is_told_that_the_broker_wants_another_protocol(secured: Secured, command: str) -> None:
    assert_refused(secured, {}, command, "over PLAINTEXT", "security.protocol")


@clusters("mutual-tls")
def test_a_client_without_a_certificate_is_told_so(secured: Secured) -> None:
    client = {name: value for name, value in secured.client.items() if name not in _CERTIFICATE}

    assert_refused(secured, client, "topics check", "over SSL")


_CERTIFICATE = ("ssl.certificate.location", "ssl.key.location")


@clusters("scram-over-plaintext")
def test_tls_to_a_broker_that_speaks_plaintext_is_said(secured: Secured) -> None:

    assert_refused(secured, {**secured.client, "security.protocol": "SASL_SSL"}, "topics check", "over SASL_SSL")
