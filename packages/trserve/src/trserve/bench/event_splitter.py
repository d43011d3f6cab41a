"""Server-sent events, as bytes come in: https://html.spec.whatwg.org/#event-stream-interpretation.

Only the data of events is of interest: comments, names and ids are left out.
"""

from __future__ import annotations


class EventSplitter:
    """Bytes, cut anywhere, to the data of each event. One stream each."""

    def __init__(self) -> None:
        self._rest = b""  # of a line that has not ended
        self._data: list[bytes] = []  # of an event that has not ended

    def feed(self, received: bytes) -> list[bytes]:
        """The data of the events that `received` completes; line feeds part its lines."""
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
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        return events

    def end(self) -> list[bytes]:
        """The event at the end of a stream that lacks its last empty line, as some servers do."""
        return self.feed(b"\n\n")
