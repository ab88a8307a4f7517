"""What one partition has delivered and what of it is done: where it goes on, and what may be committed.

Faust's own book-keeping counts single offsets and trusts every acknowledgement. Of a stream's messages it also
acknowledges those whose processing failed or was cancelled, and its compiled iterator does so past the consumer's own
method. A chunk counts here when it was acknowledged and not given up, and only behind chunks that count as well.
"""

from __future__ import annotations

from collections import deque
from typing import Any


class Ledger:
    """The chunks of one partition, as messages of Faust's, from delivery to commit."""

    __slots__ = ("_delivered", "looked_at", "next_offset", "seek_due")

    def __init__(self) -> None:
        self._delivered: deque[Any] = deque()
        #: The offset after the last record delivered, None where nothing is known of the partition yet.
        self.next_offset: int | None = None
        #: Whether the client stands elsewhere than at ``next_offset`` and has to be sent there before it fetches.
        self.seek_due = False
        #: The generation, and the offset from which on no record was found in it; None before anybody looked.
        self.looked_at: tuple[int, int] | None = None

    def restart(self, offset: int) -> None:
        """Forget what was delivered, and go on at an offset; what is still being processed counts no more."""
        self._delivered.clear()
        self.next_offset = offset
        self.seek_due = True

    def deliver(self, message: Any, *, to_commit: bool) -> None:
        """Note a chunk that is being delivered, and whether it will be committed once it is done."""
        if to_commit:
            self._delivered.append(message)
        self.next_offset = message.value.last_offset + 1

    def holds(self, message: Any) -> bool:
        """Return whether a message still counts, and no message before it was given up."""
        for delivered in self._delivered:
            if is_given_up(delivered):
                return False
            if delivered is message:
                return True
        return False

    def take_committable(self) -> int | None:
        """Forget the chunks that are done, in order; return the offset after the last of them, None where none is."""
        offset = None
        while self._delivered:
            first = self._delivered[0]
            if not first.acked or is_given_up(first):
                break
            offset = first.value.last_offset + 1
            self._delivered.popleft()
        return offset

    def give_up_unfinished(self) -> int:
        """Give up every chunk that is not acknowledged; return how many there were."""
        unfinished = [message for message in self._delivered if not message.acked]
        for message in unfinished:
            give_up(message)
        return len(unfinished)

    def go_back(self) -> bool:
        """Where a chunk was given up, go on with it again; return whether there was one."""
        for message in self._delivered:
            if is_given_up(message):
                self.restart(message.value.first_offset)
                return True
        return False


def give_up(message: Any) -> None:
    """Mark a chunk as not processed; an acknowledgement of it no longer means anything."""
    message.generation_id = None


def is_given_up(message: Any) -> bool:
    """Return whether a chunk was given up."""
    return message.generation_id is None
