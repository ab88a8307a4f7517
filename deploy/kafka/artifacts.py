"""Apache Kafka's jars: fetched once by Maven, kept in the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

_POM = Path(__file__).parent / "pom.xml"

#: How often a fetch is tried; registries have bad minutes.
_ATTEMPTS = 3

#: The oldest Java that runs Kafka 4's broker.
JAVA_VERSION_MIN = 17


class KafkaUnavailable(Exception):
    """Java or Maven is missing, or the jars cannot be fetched; the message says what to do."""


def jars() -> Path:
    """Return the folder that holds the jars, fetched if need be; raises KafkaUnavailable."""
    _check_java()
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = cache / "loopwarden" / f"kafka-{hashlib.sha256(_POM.read_bytes()).hexdigest()[:12]}"
    if (folder / ".complete").exists():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailable("Maven is missing: install it (Debian: apt-get install maven) to fetch Apache Kafka")
    shutil.rmtree(folder, ignore_errors=True)
    command = [maven, "-B", "-q", "-f", str(_POM), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    retrying = Retrying(
        retry=retry_if_exception_type(subprocess.CalledProcessError),
        stop=stop_after_attempt(_ATTEMPTS),
        wait=wait_exponential(),
        reraise=True,
    )
    try:
        retrying(subprocess.run, command, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        raise KafkaUnavailable(f"Maven cannot fetch Apache Kafka:\n{error.stdout}{error.stderr}") from None
    (folder / ".complete").touch()
    return folder


def _check_java() -> None:
    java = shutil.which("java")
    if java is None:
        raise KafkaUnavailable(f"Java is missing: install Java {JAVA_VERSION_MIN} or newer to run Apache Kafka")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    version = told.partition('version "')[2].partition(".")[0].strip('"')
    if version.isdigit() and int(version) < JAVA_VERSION_MIN:
        raise KafkaUnavailable(f"Java {version} is too old: Apache Kafka needs Java {JAVA_VERSION_MIN} or newer")
