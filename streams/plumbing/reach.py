"""Whether a broker can be reached, and why not; and waiting for one.

aiokafka says only that it could not bootstrap: the reason (a wrong password, an authority that is not trusted) goes to
its log, and a person, or a worker that decides whether to wait, needs it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any

from aiokafka.conn import create_conn
from aiokafka.errors import (
    AuthenticationFailedError,
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.metadata import MetadataRequest
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from loopwarden.streams.kafka_settings import KafkaSettings

#: How long one server may take to answer, in seconds; below a person's patience, above a busy broker's.
ANSWER_DEADLINE_S = 10.0

#: For how long a broker that refuses us is tried again, in seconds: while it starts or stops it may close connections,
#: and may not know its users yet.
REFUSED_PATIENCE_S = 10.0

#: How often is said that a broker is still being waited for, in seconds.
SAY_EVERY_S = 60.0

_RETRY_WAIT_MAX_S = 10.0

_WRONG_CREDENTIALS = (
    AuthenticationFailedError,
    IllegalSaslStateError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)


class Unreachable(KafkaConnectionError):
    """No server answers as it should; the message says what each one did."""


class Refused(Unreachable):
    """A server answers, and does not let us in: it, or our settings, have to be changed."""


async def reach(kafka: KafkaSettings) -> None:
    """Connect and log in to any of the servers, and ask it something.

    Raises Refused where one of them answers but does not let us in, Unreachable where none answers.
    """
    attempts = [asyncio.ensure_future(_attempt(kafka, server)) for server in kafka.servers]
    failures: list[Unreachable] = []
    try:
        for finished in asyncio.as_completed(attempts):
            failure = await finished
            if failure is None:
                return
            failures.append(failure)
    finally:
        for attempt in attempts:
            attempt.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)
    told = "; ".join(sorted(str(failure.args[0]) for failure in failures))
    raise Refused(told) if any(isinstance(failure, Refused) for failure in failures) else Unreachable(told)


async def _attempt(kafka: KafkaSettings, server: str) -> Unreachable | None:
    """Return why a server cannot be used, None where it can."""
    host, _colon, port = server.rpartition(":")
    options: dict[str, Any] = kafka.client_options()
    del options["bootstrap_servers"]
    try:
        async with asyncio.timeout(ANSWER_DEADLINE_S):
            connection = await create_conn(host.strip("[]"), int(port), **options)
            try:
                # A broker that wants a login answers which versions it speaks to anybody, but nothing else.
                await connection.send(MetadataRequest([]))
            finally:
                connection.close()
    except TimeoutError:
        return Unreachable(f"{server}: no answer within {ANSWER_DEADLINE_S:.0f} s")
    except ssl.SSLCertVerificationError as error:
        return Refused(f"{server}: its certificate is not trusted: {error.verify_message}; see ssl.ca.location")
    except ssl.SSLError as error:
        return Refused(f"{server}: no TLS connection: {error.reason or error}")
    except _WRONG_CREDENTIALS as error:
        return Refused(f"{server}: the login is refused: {_text(error)}; see the sasl properties")
    except KafkaConnectionError:
        return Refused(f"{server}: it closes the connection, as one that wants another security.protocol does")
    except (ConnectionResetError, BrokenPipeError):
        return Refused(f"{server}: it resets the connection, as one that wants another security.protocol does")
    except OSError as error:
        return Unreachable(f"{server}: {_system_text(error)}")
    except (KafkaError, ValueError) as error:
        return Refused(f"{server}: {_text(error)}")
    return None


def _text(error: Exception) -> str:
    told = [str(part) for part in error.args if part]
    return told[0] if told else type(error).__name__


def _system_text(error: OSError) -> str:
    """Return what the system says of an error; asyncio puts words of its own into it."""
    if error.errno is None or isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    return os.strerror(error.errno)


class _Patience:
    """When to stop trying: after the whole wait, or once a broker has refused us for a while."""

    def __init__(self, wait_s: float) -> None:
        self._until_s = time.monotonic() + wait_s
        self._wait_s = wait_s
        self._refused_since_s: float | None = None

    def __call__(self, attempt: RetryCallState) -> bool:
        now_s = time.monotonic()
        refused = attempt.outcome is not None and isinstance(attempt.outcome.exception(), Refused)
        if not refused:
            self._refused_since_s = None
        elif self._refused_since_s is None:
            self._refused_since_s = now_s
        patience_s = min(REFUSED_PATIENCE_S, self._wait_s)
        return now_s >= self._until_s or (refused and now_s - (self._refused_since_s or now_s) >= patience_s)


async def wait_for_broker(kafka: KafkaSettings, wait_s: float, say: Callable[[Unreachable], None]) -> None:
    """Return once a broker can be used; ``say`` is called at the first failure and once a minute from then on.

    Raises Unreachable after ``wait_s`` seconds, and Refused after ten where a broker answers and does not let us in.
    """
    said_at_s = float("-inf")

    def say_now_and_then(attempt: RetryCallState) -> None:
        nonlocal said_at_s
        error = None if attempt.outcome is None else attempt.outcome.exception()
        if isinstance(error, Unreachable) and time.monotonic() - said_at_s >= SAY_EVERY_S:
            said_at_s = time.monotonic()
            say(error)

    trying = AsyncRetrying(
        retry=retry_if_exception_type(Unreachable),
        stop=_Patience(wait_s),
        wait=wait_random_exponential(multiplier=0.2, max=_RETRY_WAIT_MAX_S),
        before_sleep=say_now_and_then,
        reraise=True,
    )
    await trying(reach, kafka)
