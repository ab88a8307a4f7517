"""The detection settings of each agent: layered, checked, and put in order.

Layers, each field by field over the one before: built-in defaults, ``tools.loopDetection``, the agent's own
``tools.loopDetection``. Names and defaults are OpenClaw's, so that its configuration can be used as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

import msgspec

from loopwarden.streams.policy import OnCritical

#: Longest history that is taken, in calls; a run's state grows with it.
HISTORY_SIZE_MAX = 10_000

_EVENT_IDS_MIN = 16

_DEFAULT_LAYER = "default"
_GLOBAL_LAYER = "tools.loopDetection"

#: Numbers: field in the file, attribute, default.
_NUMBERS = (
    ("historySize", "history_size", 30),
    ("warningThreshold", "warning_threshold", 10),
    ("criticalThreshold", "critical_threshold", 20),
    ("globalCircuitBreakerThreshold", "global_circuit_breaker_threshold", 30),
    ("unknownToolThreshold", "unknown_tool_threshold", 10),
    ("postCompactionGuard.windowSize", "guard_window_size", 3),
)
#: Switches, in the same form.
_SWITCHES = (
    ("detectors.genericRepeat", "generic_repeat", True),
    ("detectors.knownPollNoProgress", "known_poll_no_progress", True),
    ("detectors.pingPong", "ping_pong", True),
)
_POLICIES = ("block_then_kill", "kill", "block", "observe")
_ON_CRITICAL = "onCritical"
_NESTED = ("detectors", "postCompactionGuard")
_FIELDS = ("enabled", _ON_CRITICAL, *(path for path, _name, _default in (*_NUMBERS, *_SWITCHES)))


#: Layers from the bottom up: name, path in the file, usable values by field path.
_Stack = list[tuple[str, str, dict[str, Any]]]


class ConfigWarning(NamedTuple):
    """Something in a configuration that is not as its author will have meant it; ``path`` names the field."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings in force for an agent. ``enabled`` is None where it is unset: then only the post-compaction guard
    works. ``layers`` says for each field, by its path in the file, which layer set it."""

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
    on_critical: OnCritical = "block_then_kill"
    layers: dict[str, str] = {}
    #: The smallest threshold: below it, no detector can have anything to say.
    lowest_threshold: int = 10
    #: How many event ids a run remembers: two for each call that its history holds, and never fewer than 16.
    event_ids_max: int = 60


class SettingsBook:
    """The settings of every agent; agents without a layer of their own share one."""

    def __init__(self, everybody: Settings, agents: Mapping[str, Settings]) -> None:
        self.everybody = everybody
        self.agents = dict(agents)

    def for_agent(self, agent_id: str | None) -> Settings:
        """Return the settings in force for an agent."""
        if agent_id is None:
            return self.everybody
        return self.agents.get(agent_id, self.everybody)


class AgentBlock(NamedTuple):
    """An agent's own loopDetection block; ``path`` is where it stands in the file."""

    agent_id: str
    block: Mapping[str, Any]
    path: str


def resolve(
    block: Mapping[str, Any] | None, agents: Mapping[str, Mapping[str, Any]] | list[AgentBlock]
) -> tuple[SettingsBook, list[ConfigWarning]]:
    """Return the settings of every agent, and what is to be said about how they came to be.

    ``agents`` maps agents to their own blocks. Nothing raises: what cannot be used is replaced and reported.
    """
    blocks = (
        agents
        if isinstance(agents, list)
        else [AgentBlock(agent, own, f"agents.list[{agent}].tools.loopDetection") for agent, own in agents.items()]
    )
    warnings: list[ConfigWarning] = []
    shared = _read_block(block or {}, _GLOBAL_LAYER, warnings)
    everybody = _put_in_order([(_GLOBAL_LAYER, _GLOBAL_LAYER, shared)], warnings)
    own: dict[str, Settings] = {}
    for agent in blocks:
        layer = f"agents.list[{agent.agent_id}]"
        found: list[ConfigWarning] = []
        values = _read_block(agent.block, agent.path, found)
        settings = _put_in_order([(_GLOBAL_LAYER, _GLOBAL_LAYER, shared), (layer, agent.path, values)], found)
        # What an agent merely inherits has been reported once, where it stands.
        warnings += [warning for warning in found if warning not in warnings]
        own[agent.agent_id] = settings
    return SettingsBook(everybody, own), warnings


def _read_block(block: Mapping[str, Any], path: str, warnings: list[ConfigWarning]) -> dict[str, Any]:
    """Return the usable values of a block by field path; report the others."""
    flat = _flatten(block, path, warnings)
    values: dict[str, Any] = {}
    for field, value in flat.items():
        where = f"{path}.{field}"
        if value is None:
            continue  # as good as not set
        if field == "enabled" or field in (switch for switch, _name, _default in _SWITCHES):
            if isinstance(value, bool):
                values[field] = value
            else:
                warnings.append(ConfigWarning(where, f"{_shown(value)} is neither true nor false; ignored"))
        elif field == _ON_CRITICAL:
            if value in _POLICIES:
                values[field] = value
            else:
                warnings.append(ConfigWarning(where, f"{_shown(value)} is none of {', '.join(_POLICIES)}; ignored"))
        else:
            values[field] = _number(field, value, where, warnings)
    return values


def _flatten(block: Mapping[str, Any], path: str, warnings: list[ConfigWarning]) -> dict[str, Any]:
    """Return the fields of a block by path, nested ones included; report fields that are not known."""
    flat: dict[str, Any] = {}
    for name, value in block.items():
        if name in _NESTED:
            if isinstance(value, Mapping):
                flat.update({f"{name}.{inner}": item for inner, item in value.items()})
            elif value is not None:
                warnings.append(ConfigWarning(f"{path}.{name}", f"{_shown(value)} is not an object; ignored"))
        else:
            flat[name] = value
    for field in [field for field in flat if field not in _FIELDS]:
        del flat[field]
        close = get_close_matches(field, _FIELDS, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        warnings.append(ConfigWarning(f"{path}.{field}", f"unknown field{hint}"))
    return flat


def _number(field: str, value: Any, where: str, warnings: list[ConfigWarning]) -> int:
    default = next(default for path, _name, default in _NUMBERS if path == field)
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    if not isinstance(whole, int) or isinstance(whole, bool) or whole <= 0:
        warnings.append(
            ConfigWarning(where, f"{_shown(value)} is not a positive integer; the default {default} is used")
        )
        return default
    if field == "historySize" and whole > HISTORY_SIZE_MAX:
        warnings.append(ConfigWarning(where, f"{whole} is more than is held; {HISTORY_SIZE_MAX} is used"))
        return HISTORY_SIZE_MAX
    return whole


def _put_in_order(stack: _Stack, warnings: list[ConfigWarning]) -> Settings:
    """Return the settings that a stack of layers (name, path, values) makes, thresholds raised where they must be."""
    values: dict[str, Any] = {path: default for path, _name, default in (*_NUMBERS, *_SWITCHES)}
    values |= {"enabled": None, _ON_CRITICAL: "block_then_kill"}
    layers = dict.fromkeys(values, _DEFAULT_LAYER)
    for layer, _path, own in stack:
        values |= own
        layers |= dict.fromkeys(own, layer)
    _raise(values, "criticalThreshold", "warningThreshold", stack, warnings)
    _raise(values, "globalCircuitBreakerThreshold", "criticalThreshold", stack, warnings)
    _report_unreachable(values, stack, warnings)
    numbers = {name: values[path] for path, name, _default in _NUMBERS}
    switches = {name: values[path] for path, name, _default in _SWITCHES}
    return Settings(
        enabled=values["enabled"],
        on_critical=values[_ON_CRITICAL],
        layers=layers,
        lowest_threshold=min(values["warningThreshold"], values["unknownToolThreshold"]),
        event_ids_max=max(_EVENT_IDS_MIN, 2 * values["historySize"]),
        **numbers,
        **switches,
    )


def _place(stack: _Stack, field: str, other: str) -> str:
    """Return the path of a field in the topmost layer that sets it, or sets the other one that it conflicts with."""
    for _layer, path, own in reversed(stack):
        if field in own or other in own:
            return f"{path}.{field}"
    return f"{stack[0][1]}.{field}"


def _raise(values: dict[str, Any], field: str, below: str, stack: _Stack, warnings: list[ConfigWarning]) -> None:
    """Make a threshold at least one more than the one below it."""
    least = values[below] + 1
    if values[field] < least:
        message = f"{values[field]} is not above {below} ({values[below]}); raised to {least}"
        warnings.append(ConfigWarning(_place(stack, field, below), message))
        values[field] = least


def _report_unreachable(values: dict[str, Any], stack: _Stack, warnings: list[ConfigWarning]) -> None:
    """Report thresholds that a history of this size never reaches. An alternation counts the attempted call too."""
    if not values["enabled"]:
        return
    held = values["historySize"]
    for field in ("warningThreshold", "criticalThreshold", "globalCircuitBreakerThreshold", "unknownToolThreshold"):
        threshold = values[field]
        by_ping_pong = field in ("warningThreshold", "criticalThreshold") and values["detectors.pingPong"]
        if threshold > held and not (by_ping_pong and threshold == held + 1):
            message = f"{threshold} is never reached with a historySize of {held}"
            warnings.append(ConfigWarning(_place(stack, field, "historySize"), message))


def _shown(value: Any) -> str:
    """Return a value as it may be shown in a warning: as JSON, and not at length."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 40 else text[:37] + "..."


def to_file_form(settings: Settings) -> dict[str, Any]:
    """Return settings with the names of the file, and the layers that set them, as a verdict carries them."""
    values: dict[str, Any] = {"enabled": settings.enabled}
    values |= {path: getattr(settings, name) for path, name, _default in (*_NUMBERS, *_SWITCHES)}
    values[_ON_CRITICAL] = settings.on_critical
    values["layers"] = {path: layer for path, layer in settings.layers.items() if layer != _DEFAULT_LAYER}
    return values
