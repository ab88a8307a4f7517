"""Signals: commands to runners, and the acknowledgements they answer with."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from loopwarden.schemas.fields import about

SignalAction = Literal["block", "kill"]
AckStatus = Literal["applied", "already_ended", "unknown_run", "refused"]


class Signal(msgspec.Struct, kw_only=True, omit_defaults=True, frozen=True):
    """The standing state of a run: none < block < kill.

    ``signal_id`` is derived from the verdict and the action, so that a repeated signal is recognised; ``reason`` is
    the detector; times are RFC 3339 in UTC. A runner must not apply a signal after ``expires_at``.
    """

    signal_id: Annotated[str, about("Derived from the verdict and the action, so that a repeat is recognised.")]
    verdict_id: Annotated[str, about("The verdict behind it.")]
    action: Annotated[SignalAction, about("What the runner is to do.")]
    session_id: Annotated[str, about("The session of the run.")]
    run_id: Annotated[str | None, about("The run; without one, the session's events that name none.")] = None
    agent_id: Annotated[str | None, about("The agent, where events name one.")] = None
    runner_id: Annotated[str | None, about("The runner that is to act, where events name one.")] = None
    reason: Annotated[str, about("The detector that decided.")]
    message: Annotated[str, about("One sentence that a person can act on.")]
    issued_at: Annotated[str, about("Timestamp of the record that caused it, RFC 3339 in UTC.")]
    expires_at: Annotated[str, about("Not to be applied after this time, RFC 3339 in UTC.")]
    signature: Annotated[str | None, about("Proof of who sent it, where signals are signed.")] = None


class SignalAck(msgspec.Struct, kw_only=True, omit_defaults=True, frozen=True):
    """What a runner did about a signal."""

    signal_id: Annotated[str, about("The signal that is answered.")]
    runner_id: Annotated[str, about("The runner that answers.")]
    status: Annotated[AckStatus, about("What it did.")]
    time: Annotated[str, about("When, RFC 3339.")]
