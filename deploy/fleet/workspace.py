"""The folder in which one scripted agent works, and how its place on the machine stays out of the recording.

Tools touch real files, so what they print holds real paths. Every text and value that is recorded goes
through ``neutral``, which puts ``/workspace`` where the temporary folder of the fleet stood: the same prefix
everywhere, so that two texts are equal in the recording exactly when they were equal on the machine (within
one fleet).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

#: What stands in the recording in place of the fleet's temporary folder.
NEUTRAL_ROOT = "/workspace"


class Workspace:
    """A folder of its own for one session, under the fleet's temporary folder ``root``."""

    def __init__(self, root: Path, name: str) -> None:
        self._root = str(root)
        self.folder = root / name
        self.folder.mkdir(parents=True)

    def put(self, path: str, text: str) -> None:
        """Write a file that the agent will find; folders on the way are made."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def resolve(self, path: str) -> Path:
        """Return the real place of a path that an agent named.

        Raises PermissionError where it lies outside of the workspace.
        """
        target = Path(os.path.normpath(self.folder / path))
        if not target.is_relative_to(self.folder):
            raise PermissionError(1, "Operation not permitted")
        return target

    def neutral(self, value: Any) -> Any:
        """Return a text, or a JSON value with all texts in it, without the machine's path."""
        if isinstance(value, str):
            return value.replace(self._root, NEUTRAL_ROOT)
        if isinstance(value, list):
            return [self.neutral(item) for item in value]
        if isinstance(value, dict):
            return {name: self.neutral(item) for name, item in value.items()}
        return value

    def environment(self) -> dict[str, str]:
        """Return the environment of child processes: nothing of the user's, and output alike on every machine."""
        return {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.defpath]),
            "HOME": str(self.folder),
            "LC_ALL": "C",
            "TZ": "UTC",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
