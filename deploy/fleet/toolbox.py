"""The registry through which scripted agents call tools, and what a call comes back with.

It is where an agent product refuses calls: an unknown name and arguments that do not fit give an error with
the same text each time, which is what two of the reported loops consist of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

#: A JSON object, as arguments and results are.
JsonObject = dict[str, Any]


class ToolArgs(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """Base of every tool's parameters; agents name them in camel case, as agent products do."""


ArgsT = TypeVar("ArgsT", bound=ToolArgs)


class ToolError(Exception):
    """A tool failed in a way that its agent is told about; the text is what the agent reads."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call came back with: a result, or the text of an error."""

    result: JsonObject | None = None
    error: str | None = None

    @property
    def text(self) -> str:
        """The text that the agent reads, whatever the outcome."""
        if self.result is None:
            return self.error or ""
        return "\n".join(part["text"] for part in self.result["content"])

    @property
    def details(self) -> JsonObject:
        """The facts beside the text; empty where the call failed."""
        details: JsonObject = (self.result or {}).get("details", {})
        return details


def text_result(text: str, **details: Any) -> JsonObject:
    """Return a result in the form that agent products use: content parts for the model, details for programs."""
    return {"content": [{"type": "text", "text": text}], "details": details}


@dataclass(frozen=True, slots=True)
class Tool(Generic[ArgsT]):
    """A tool: the type that its arguments must fit, and what runs it (raises ToolError)."""

    args_type: type[ArgsT]
    run: Callable[[ArgsT], JsonObject]

    def __call__(self, args: JsonObject) -> JsonObject:
        """Run the tool; raises msgspec.ValidationError where the arguments do not fit."""
        return self.run(msgspec.convert(args, self.args_type))


class Toolbox:
    """The tools of one agent by name."""

    def __init__(self, tools: dict[str, Tool[Any]]) -> None:
        self._tools = tools

    def call(self, tool_name: str, args: JsonObject) -> Outcome:
        """Run a call and return its outcome; a failure of the tool is an outcome, not an exception."""
        tool = self._tools.get(tool_name)
        if tool is None:
            return Outcome(error=f"Tool {tool_name} not found")
        try:
            return Outcome(result=tool(args))
        except msgspec.ValidationError as error:
            return Outcome(error=f'Validation failed for tool "{tool_name}": {error}')
        except ToolError as error:
            return Outcome(error=str(error))
