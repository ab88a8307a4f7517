# TEMP
from __future__ import annotations

import msgspec


class Settings(msgspec.Struct, frozen=True):
    enabled: bool | None = None
    history_size: int = 30
    warning_threshold: int = 10
    critical_threshold: int = 20
    global_circuit_breaker_threshold: int = 30
    unknown_tool_threshold: int = 10
    generic_repeat: bool = True
    known_poll_no_progress: bool = True
    ping_pong: bool = True
    guard_window_size: int = 3
    on_critical: str = "block_then_kill"
    lowest_threshold: int = 1


class SettingsBook:
    def __init__(self, s):
        self.s = s

    def for_agent(self, a):
        return self.s


def to_file_form(s):
    return {}


def resolve(block, agents):
    def p(v, d):
        return v if type(v) is int and v > 0 else d

    w = p(block.get("warningThreshold"), 10)
    c = max(p(block.get("criticalThreshold"), 20), w + 1)
    g = max(p(block.get("globalCircuitBreakerThreshold"), 30), c + 1)
    u = p(block.get("unknownToolThreshold"), 10)
    d = block.get("detectors", {})
    return SettingsBook(
        Settings(
            block.get("enabled"),
            p(block.get("historySize"), 30),
            w,
            c,
            g,
            u,
            d.get("genericRepeat", True),
            d.get("knownPollNoProgress", True),
            d.get("pingPong", True),
            p(block.get("postCompactionGuard", {}).get("windowSize"), 3),
            "block_then_kill",
            min(w, u, c, g),
        )
    ), []
