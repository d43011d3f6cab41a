"""Stop strings in text that arrives piece by piece."""

from __future__ import annotations

from collections.abc import Sequence


class StopStrings:
    """Passes text on up to the first stop string, without ever passing a part of it.

    The first is the one that is complete first, whatever the pieces; of two that end at the same
    character, the longer. Text that may be the beginning of a stop string waits for the next piece.
    """

    __slots__ = ("_held", "_stops", "found")

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.found = False

    def push(self, text: str) -> str:
        """The text that can go out; nothing more once `found`."""
        if self.found:
            return ""
        text = self._held + text
        ends = [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]
        if ends:
            self.found = True
            self._held = ""
            return text[: min(ends)[1]]
        cut = min((_beginning(text, stop) for stop in self._stops), default=len(text))
        self._held = text[cut:]
        return text[:cut]

    def finish(self) -> str:
        """The text that was held back, when no more comes."""
        text, self._held = self._held, ""
        return text


def _beginning(text: str, stop: str) -> int:
    """Where the longest end of `text` starts that may become `stop`; its length if none does."""
    at = max(0, len(text) - len(stop) + 1)
    while (at := text.find(stop[0], at)) >= 0:
        if stop.startswith(text[at:]):
            return at
        at += 1
    return len(text)
