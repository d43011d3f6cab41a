"""Server-sent events on their way through: cut at events' ends, otherwise byte by byte the same.

A client never gets half an event, so that a stream that breaks can still end with an error event.
"""

from __future__ import annotations

import re

MOST_HELD_BYTES = 8 << 20

_COMPLETION_TOKENS = re.compile(rb'"completion_tokens"\s*:\s*(\d{1,9})')
_PROMPT_TOKENS = re.compile(rb'"prompt_tokens"\s*:\s*(\d{1,9})')
_ERROR = re.compile(rb'"error": ?\{')
_OF_THE_SERVER = re.compile(
    rb'"type": ?"\w*(?:[Ss]erver|[Uu]navailable|[Ii]nternal)|"code": ?5\d\d'
)
_STARTS = (b"data", b"event", b"id", b"retry", b":", b"\n", b"\r\n", b"\xef\xbb\xbf")
_DONE = re.compile(rb"(?:^|\n)data: ?\[DONE\]\s*$")
_TAIL = 64


class NotEventsError(Exception):
    """An instance called it an event stream, and it is none."""


class EventBlocks:
    """One stream.

    events: of data, so far; about one token each.
    done: [DONE] has come.
    server_failed: an error event has come that does not blame the request.
    """

    __slots__ = ("_failed", "_finished", "_held", "_usage", "done", "events", "server_failed")

    def __init__(self) -> None:
        self._held = b""
        self._usage = b""
        self._failed = False
        self.server_failed = False
        self.done = False
        self._finished = False
        self.events = 0

    def push(self, data: bytes) -> bytes:
        """Take what came; the whole events of it and of what was held back.

        Raises NotEventsError at what cannot be an event stream.
        """
        held = self._held + data if self._held else data
        if not self.events and not held.startswith(_STARTS) and len(held) >= _TAIL:
            raise NotEventsError("no event stream")
        end = _end_of_events(held)
        if end == 0:
            if len(held) > MOST_HELD_BYTES:
                raise NotEventsError(f"an event of more than {MOST_HELD_BYTES} bytes")
            self._held = held
            return b""
        block, self._held = (held, b"") if end == len(held) else (held[:end], held[end:])
        self._note(block)
        return block

    def rest(self) -> bytes | None:
        """At the end of the instance's answer: what is left of it; None if it ended too soon.

        The end is [DONE] or an error event. Servers that leave out [DONE] have said why a choice
        ended, and those that leave out the blank line after it are understood by clients, too.
        """
        held = self._held
        complete = (
            self.done or self._failed or _DONE.search(held) or (self._finished and not held.strip())
        )
        return held if complete else None

    @property
    def usage(self) -> tuple[int, int] | None:
        """Tokens of prompt and answer as the instance counted them; None where it didn't say."""
        answer = _COMPLETION_TOKENS.findall(self._usage)
        prompt = _PROMPT_TOKENS.findall(self._usage)
        return (int(prompt[-1]) if prompt else 0, int(answer[-1])) if answer else None

    def _note(self, block: bytes) -> None:
        self.events += block.count(b"data:")
        if b'"finish_reason":"' in block or b'"finish_reason": "' in block:
            self._finished = True
        if b'"error"' in block and (error := _ERROR.search(block)):
            self._failed = True
            self.server_failed = _OF_THE_SERVER.search(block, error.end()) is not None
        if _DONE.search(block[-_TAIL:]):
            self.done = True
        if b'"completion_tokens"' in block:
            self._usage = block


def _end_of_events(data: bytes) -> int:
    """The index after the last blank line; 0 if there is none."""
    if data.endswith(b"\n\n"):
        return len(data)
    lines, crlf = data.rfind(b"\n\n"), data.rfind(b"\r\n\r\n")
    return max(lines + 2 if lines >= 0 else 0, crlf + 4 if crlf >= 0 else 0)
