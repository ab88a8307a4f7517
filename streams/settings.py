"""The detection settings of each agent: layered, checked, and put in order.

Layers, each field by field over the one before: built-in defaults, ``tools.loopDetection``, the agent's own
``tools.loopDetection``. Names and defaults are OpenClaw's, so that its configuration can be used as it is. A null is as
good as a missing field, ``enabled`` included: the layer below counts. A value that cannot be used becomes the default,
whatever the layer below says, so that one rule holds for every type.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple, get_args

import msgspec

from loopwarden.streams.policy import OnCritical

#: Longest history that is taken, in calls; a run's state grows with it.
HISTORY_SIZE_MAX = 10_000
#: Largest other number that is taken: it and what is raised above it fit the 32 bits that other languages read.
NUMBER_MAX = 1_000_000_000

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
#: Which switch turns on which of the detectors that read warningThreshold and criticalThreshold.
_COUNTING = (
    ("detectors.genericRepeat", "generic_repeat"),
    ("detectors.knownPollNoProgress", "known_poll_no_progress"),
    ("detectors.pingPong", "ping_pong"),
)
_POLICIES: tuple[str, ...] = get_args(OnCritical)
_ENABLED, _ON_CRITICAL = "enabled", "onCritical"
_NESTED = ("detectors", "postCompactionGuard")
_DEFAULTS: dict[str, Any] = {
    _ENABLED: None,
    **{path: default for path, _name, default in (*_NUMBERS, *_SWITCHES)},
    _ON_CRITICAL: _POLICIES[0],
}
_BOOLEANS = frozenset({_ENABLED, *(path for path, _name, _default in _SWITCHES)})
#: What a misspelt field may mean: fields by their path and by its last part, in lower case.
_MEANT = {path.rpartition(".")[2].lower(): path for path in _DEFAULTS} | {path.lower(): path for path in _DEFAULTS}


class ConfigWarning(NamedTuple):
    """Something in a configuration that is not as its author will have meant it; ``path`` names the field, ``agent_id``
    the agent whose layer it is in."""

    path: str
    message: str
    agent_id: str | None = None

    def __str__(self) -> str:
        whose = "" if self.agent_id is None else f" (agent {self.agent_id})"
        return f"{self.path}{whose}: {self.message}"


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


class _Layer(NamedTuple):
    """One layer: its name, where it stands in the file, whose it is, its values by field path, and which of those stand
    in for values that could not be used."""

    name: str
    path: str
    agent_id: str | None
    values: dict[str, Any]
    replaced: set[str]

    def warning(self, field: str, message: str) -> ConfigWarning:
        return ConfigWarning(f"{self.path}.{field}", message, self.agent_id)


def resolve(
    block: Mapping[str, Any] | None, agents: Mapping[str, Mapping[str, Any]] | list[AgentBlock]
) -> tuple[SettingsBook, list[ConfigWarning]]:
    """Return the settings of every agent, and what is to be said about how they came to be.

    ``agents`` maps agents to their own blocks. Nothing raises: what cannot be used is replaced and reported, once,
    where it stands, however many agents inherit it.
    """
    blocks = (
        agents
        if isinstance(agents, list)
        else [AgentBlock(agent, own, f"agents.list[{agent}].tools.loopDetection") for agent, own in agents.items()]
    )
    warnings: list[ConfigWarning] = []
    shared = _read(block or {}, _GLOBAL_LAYER, _GLOBAL_LAYER, None, warnings)
    everybody = _put_in_order([shared], warnings)
    book: dict[str, Settings] = {}
    for agent in blocks:
        own = _read(agent.block, f"agents.list[{agent.agent_id}]", agent.path, agent.agent_id, warnings)
        book[agent.agent_id] = _put_in_order([shared, own], warnings)
    return SettingsBook(everybody, book), list(dict.fromkeys(warnings))


def _read(
    block: Mapping[str, Any], name: str, path: str, agent_id: str | None, warnings: list[ConfigWarning]
) -> _Layer:
    """Return the layer that a block makes; report what is not known or cannot be used."""
    layer = _Layer(name, path, agent_id, {}, set())
    for field, value in _flatten(block, layer, warnings).items():
        if value is None:
            continue
        usable, problem = _usable(field, value)
        layer.values[field] = usable
        if problem:
            warnings.append(layer.warning(field, problem))
            if usable == _DEFAULTS[field]:
                layer.replaced.add(field)
    return layer


def _flatten(block: Mapping[str, Any], layer: _Layer, warnings: list[ConfigWarning]) -> dict[str, Any]:
    """Return the fields of a block by path, nested ones included; report fields that are not known."""
    found: list[tuple[str, Any, bool]] = []
    for name, value in block.items():
        if name not in _NESTED:
            found.append((name, value, name in _DEFAULTS and "." not in name))
        elif isinstance(value, Mapping):
            found += [(f"{name}.{inner}", item, f"{name}.{inner}" in _DEFAULTS) for inner, item in value.items()]
        elif value is not None:
            warnings.append(layer.warning(name, f"{_shown(value)} is not an object; ignored"))
    for field, _value, known in found:
        if not known:
            close = get_close_matches(field.replace("_", "").lower(), _MEANT, n=1)
            hint = f"; did you mean {_MEANT[close[0]]}?" if close else ""
            warnings.append(layer.warning(field, f"unknown field{hint}"))
    return {field: value for field, value, known in found if known}


def _usable(field: str, value: Any) -> tuple[Any, str | None]:
    """Return the value that a field gets, and what is to be said where that is not the one stated."""
    default = _DEFAULTS[field]
    instead = "it counts as the default, unset" if default is None else f"the default {_shown(default)} is used"
    if field in _BOOLEANS:
        if isinstance(value, bool):
            return value, None
        return default, f"{_shown(value)} is neither true nor false; {instead}"
    if field == _ON_CRITICAL:
        if value in _POLICIES:
            return value, None
        return default, f"{_shown(value)} is none of {', '.join(_POLICIES)}; {instead}"
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    if not isinstance(whole, int) or isinstance(whole, bool) or whole <= 0:
        return default, f"{_shown(value)} is not a positive integer; {instead}"
    most = HISTORY_SIZE_MAX if field == "historySize" else NUMBER_MAX
    if whole > most:
        return most, f"{_shown(value)} is too large; {most} is used"
    return whole, None


class _Merged:
    """Layers put on each other: values by field path, and for each the index of the layer that it comes from.

    The index is -1 where no layer has the field.
    """

    def __init__(self, stack: list[_Layer]) -> None:
        self.stack = stack
        self.values = dict(_DEFAULTS)
        self.layers = dict.fromkeys(_DEFAULTS, _DEFAULT_LAYER)
        self._origins = dict.fromkeys(_DEFAULTS, -1)
        for index, layer in enumerate(stack):
            self.values |= layer.values
            self._origins |= dict.fromkeys(layer.values, index)
            self.layers |= {field: self._name(layer, field) for field in layer.values}

    @staticmethod
    def _name(layer: _Layer, field: str) -> str:
        return _DEFAULT_LAYER if field in layer.replaced else layer.name

    def cause(self, field: str, other: str) -> _Layer:
        """Return the layer that makes two fields conflict: the topmost that has either."""
        return self.stack[max(self._origins[field], self._origins[other], 0)]

    def raise_above(self, field: str, below: str, warnings: list[ConfigWarning]) -> None:
        """Make a threshold at least one more than the one below it; it then counts as set by the conflict's cause."""
        floor, stated = self.values[below], self.values[field]
        if stated > floor:
            return
        cause = self.cause(field, below)
        warnings.append(cause.warning(field, f"{stated} is not above {below} ({floor}); raised to {floor + 1}"))
        self.values[field] = floor + 1
        self.layers[field] = cause.name
        self._origins[field] = max(self._origins[field], self._origins[below])


def _put_in_order(stack: list[_Layer], warnings: list[ConfigWarning]) -> Settings:
    """Return the settings that layers make, from the bottom up, thresholds raised where they must be."""
    merged = _Merged(stack)
    merged.raise_above("criticalThreshold", "warningThreshold", warnings)
    merged.raise_above("globalCircuitBreakerThreshold", "criticalThreshold", warnings)
    values = merged.values
    if values[_ENABLED] is not False:  # where detection is switched off on purpose, no threshold is in force
        _report_unreachable(merged, warnings)
    return Settings(
        enabled=values[_ENABLED],
        on_critical=values[_ON_CRITICAL],
        layers=merged.layers,
        lowest_threshold=min(values["warningThreshold"], values["unknownToolThreshold"]),
        event_ids_max=max(_EVENT_IDS_MIN, 2 * values["historySize"]),
        **{name: values[path] for path, name, _default in (*_NUMBERS, *_SWITCHES)},
    )


def _report_unreachable(merged: _Merged, warnings: list[ConfigWarning]) -> None:
    """Report thresholds that a history of this size never reaches, by the detectors that read them.

    A call is evaluated before it is held, so repeats and streaks count what is held and no more; an alternation counts
    the attempted call too, and needs at least two calls before it.
    """
    held = merged.values["historySize"]
    most = {"generic_repeat": held, "known_poll_no_progress": held, "ping_pong": held + 1 if held > 1 else 0}
    counting = {detector: most[detector] for switch, detector in _COUNTING if merged.values[switch]}
    for field, reached in (
        ("warningThreshold", counting),
        ("criticalThreshold", counting),
        ("globalCircuitBreakerThreshold", {"global_circuit_breaker": held}),
        ("unknownToolThreshold", {"unknown_tool_repeat": held}),
    ):
        threshold = merged.values[field]
        never = [detector for detector, count in reached.items() if count < threshold]
        if never:
            by = "" if len(never) == len(reached) else f" by {', '.join(never)}"
            message = f"{threshold} is never reached{by} with a historySize of {held}"
            warnings.append(merged.cause(field, "historySize").warning(field, message))


def _shown(value: Any) -> str:
    """Return a value as it may be shown in a warning: as JSON, and not at length."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except ValueError:
        text = "a number of thousands of digits"  # Python refuses to write it in decimal
    return text if len(text) <= 40 else text[:37] + "..."


def to_file_form(settings: Settings) -> dict[str, Any]:
    """Return settings with the names of the file, and the layers that set them, as a verdict carries them."""
    values: dict[str, Any] = {_ENABLED: settings.enabled}
    values |= {path: getattr(settings, name) for path, name, _default in (*_NUMBERS, *_SWITCHES)}
    values[_ON_CRITICAL] = settings.on_critical
    values["layers"] = {path: layer for path, layer in settings.layers.items() if layer != _DEFAULT_LAYER}
    return values
