"""Signals: commands to runners, and the acknowledgements they answer with."""

from __future__ import annotations

from typing import Literal

import msgspec

SignalAction = Literal["block", "kill"]
AckStatus = Literal["applied", "already_ended", "unknown_run", "refused"]


class Signal(msgspec.Struct, kw_only=True, omit_defaults=True, frozen=True):
    """The standing state of a run: none < block < kill.

    ``signal_id`` is derived from the verdict and the action, so that a repeated signal is recognised; ``reason`` is
    the detector; times are RFC 3339 in UTC. A runner must not apply a signal after ``expires_at``.
    """

    signal_id: str
    verdict_id: str
    action: SignalAction
    session_id: str
    run_id: str | None = None
    agent_id: str | None = None
    runner_id: str | None = None
    reason: str
    message: str
    issued_at: str
    expires_at: str
    signature: str | None = None


class SignalAck(msgspec.Struct, kw_only=True, omit_defaults=True, frozen=True):
    """What a runner did about a signal."""

    signal_id: str
    runner_id: str
    status: AckStatus
    time: str
