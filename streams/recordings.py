"""Reads recorded events: files of JSON lines, packed or not, folders of them, or standard input."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

#: Endings of the files that are read in a folder.
ENDINGS = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")

#: Longest line that is held, in bytes; what is longer is refused as too large anyway.
LINE_BYTES_MAX = 8 * 1024 * 1024

_CHUNK_BYTES = 1024 * 1024


class Line(NamedTuple):
    """A line of a recording, numbered from 1."""

    file: str
    number: int
    text: bytes


class UnreadableFile(Exception):
    """A file that cannot be opened, or breaks off."""


def list_files(names: list[str]) -> list[str]:
    """Return the files behind names: folders are searched, ``-`` is standard input; raises UnreadableFile."""
    files: list[str] = []
    for name in names:
        path = Path(name)
        if name != "-" and path.is_dir():
            found = sorted(str(file) for file in path.rglob("*") if file.name.endswith(ENDINGS) and file.is_file())
            if not found:
                raise UnreadableFile(f"{name}: no file in it ends in {', '.join(ENDINGS)}")
            files += found
        elif name == "-" or path.exists():
            files.append(name)
        else:
            raise UnreadableFile(f"{name}: no such file or folder")
    return files


def total_bytes(files: list[str]) -> int | None:
    """Return how many bytes the files have on disk, None where that cannot be known."""
    if "-" in files:
        return None
    return sum(Path(file).stat().st_size for file in files)


def read_lines(file: str, on_progress: Callable[[int], None] = lambda _bytes: None) -> Iterator[Line]:
    """Yield the lines of a file that hold something; ``on_progress`` gets the bytes read from disk since last time.

    Raises UnreadableFile where the file cannot be read on; the lines before that have been yielded.
    """
    try:
        with _open(file) as raw:
            is_packed = raw.peek(2)[:2] == b"\x1f\x8b"
            # Closed with the file below it.
            source: IO[bytes] = gzip.GzipFile(fileobj=raw) if is_packed else raw  # type: ignore[assignment]
            told = 0
            for number, text in enumerate(_lines(source), start=1):
                if number % 1000 == 0 and raw.seekable():
                    position = raw.tell()
                    on_progress(position - told)
                    told = position
                if text.strip():
                    yield Line(file, number, text.rstrip(b"\r\n"))
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableFile(f"{file}: {error}") from None


def _open(file: str) -> io.BufferedReader:
    source = sys.stdin.buffer if file == "-" else Path(file).open("rb")  # noqa: SIM115 - closed by read_lines
    return source if isinstance(source, io.BufferedReader) else io.BufferedReader(source)  # type: ignore[arg-type]


def _lines(source: IO[bytes]) -> Iterator[bytes]:
    """Yield lines, the excess of overlong ones dropped."""
    while text := source.readline(LINE_BYTES_MAX):
        if not text.endswith(b"\n") and len(text) == LINE_BYTES_MAX:
            while (rest := source.readline(_CHUNK_BYTES)) and not rest.endswith(b"\n"):
                pass
        yield text
