"""The file tools: ``read``, ``write``, ``edit``, and ``editor``, one tool that does both reading and editing.

Failures carry the operating system's own error in the form that agents of Node-based products see.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any, Literal

from loopwarden.deploy.fleet.toolbox import JsonObject, Tool, ToolArgs, ToolError, text_result
from loopwarden.deploy.fleet.workspace import Workspace


class ReadArgs(ToolArgs, frozen=True):
    """``offset`` and ``limit`` are in lines, the first line being 1."""

    path: str
    offset: int = 1
    limit: int = 400


class WriteArgs(ToolArgs, frozen=True):
    """The whole new content of a file."""

    path: str
    content: str


class EditArgs(ToolArgs, frozen=True):
    """``old_text`` must stand in the file exactly once."""

    path: str
    old_text: str
    new_text: str


class EditorArgs(ToolArgs, frozen=True):
    """``old_text`` and ``new_text`` belong to replace."""

    command: Literal["view", "replace"]
    path: str
    old_text: str = ""
    new_text: str = ""


class _Files:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def read(self, args: ReadArgs) -> JsonObject:
        content = _or_tool_error(args.path, "open", lambda: self._content(args.path))
        lines = content.splitlines()
        shown = lines[args.offset - 1 :][: args.limit]
        return text_result("\n".join(shown), path=args.path, totalLines=len(lines), shownLines=len(shown))

    def write(self, args: WriteArgs) -> JsonObject:
        size = _or_tool_error(args.path, "open", lambda: self._store(args.path, args.content))
        return text_result(f"Successfully wrote {size} bytes to {args.path}", path=args.path, bytes=size)

    def edit(self, args: EditArgs) -> JsonObject:
        content = _or_tool_error(args.path, "open", lambda: self._content(args.path))
        found = content.count(args.old_text)
        if found != 1:
            problem = "Could not find the exact text" if not found else f"Found the text {found} times, not once,"
            raise ToolError(f"{problem} in {args.path}. The old text must match exactly.")
        line = content[: content.index(args.old_text)].count("\n") + 1
        self._store(args.path, content.replace(args.old_text, args.new_text))
        return text_result(f"Successfully replaced text in {args.path}.", path=args.path, firstChangedLine=line)

    def editor(self, args: EditorArgs) -> JsonObject:
        if args.command == "view":
            return self.read(ReadArgs(args.path))
        return self.edit(EditArgs(args.path, args.old_text, args.new_text))

    def _content(self, path: str) -> str:
        return self._workspace.resolve(path).read_text(encoding="utf-8")

    def _store(self, path: str, content: str) -> int:
        target = self._workspace.resolve(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")
        return len(content.encode())


def _or_tool_error(path: str, system_call: str, action: Callable[[], Any]) -> Any:
    try:
        return action()
    except OSError as error:
        number = error.errno or errno.EIO
        reason = os.strerror(number).lower()
        raise ToolError(f"{errno.errorcode[number]}: {reason}, {system_call} '{path}'") from None


def file_tools(workspace: Workspace) -> dict[str, Tool[Any]]:
    """Return the file tools over this workspace by name."""
    files = _Files(workspace)
    return {
        "read": Tool(ReadArgs, files.read),
        "write": Tool(WriteArgs, files.write),
        "edit": Tool(EditArgs, files.edit),
        "editor": Tool(EditorArgs, files.editor),
    }
