"""Server-sent events, as bytes come in: https://html.spec.whatwg.org/#event-stream-interpretation.

Only names and data of events are of interest: comments and ids are left out.
"""

from __future__ import annotations

from typing import NamedTuple


class Event(NamedTuple):
    """name: empty where the stream gives none."""

    name: bytes
    data: bytes


class EventSplitter:
    """Bytes, cut anywhere, to events with data. One stream each."""

    def __init__(self) -> None:
        self._rest = b""  # of a line that has not ended
        self._name = b""  # of an event that has not ended
        self._data: list[bytes] = []  # its lines

    def feed(self, received: bytes) -> list[Event]:
        """The events that `received` completes; line feeds part the lines of their data."""
        text = self._rest + received
        half = b""
        if b"\r" in text:
            if text.endswith(b"\r"):  # a \n may follow, and both are one end of a line
                text, half = text[:-1], b"\r"
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = text.split(b"\n")
        self._rest = rest + half
        events = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif line.startswith(b"event:"):
                self._name = line[6:].removeprefix(b" ")
            elif not line:
                if self._data:
                    events.append(Event(self._name, b"\n".join(self._data)))
                self._name, self._data = b"", []
        return events

    def end(self) -> list[Event]:
        """The event at the end of a stream that lacks its last empty line, as some servers do."""
        return self.feed(b"\n\n")
