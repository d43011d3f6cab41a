"""How a chat looks in the terminal: a colour per model, a legend, a summary line."""

from __future__ import annotations

import json
import re
import sys

from rich.console import Console
from rich.text import Text

from trserve.cli.chat.client import Answer, Fragment

_STYLES = ("green", "bold magenta", "bold yellow", "bold cyan", "bold red", "bold blue")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class ChatView:
    """Writes to stdout; without a terminal, or with NO_COLOR, in plain text."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, markup=False, emoji=False)

    def legend(self, models: list[str]) -> None:
        """Which colour is which model."""
        if self.console.is_terminal:
            parts = [Text(name, style_of(i)) for i, name in enumerate(models)]
            self.console.print(Text(" · ").join(parts))

    def fragment(self, fragment: Fragment) -> None:
        """A piece of the answer. A model's control characters don't reach the terminal."""
        text = _CONTROLS.sub("", fragment.text) if self.console.is_terminal else fragment.text
        self.console.print(Text(text, style_of(fragment.model)), end="", soft_wrap=True)

    def summary(self, answer: Answer) -> None:
        """The line after an answer."""
        self.console.print()
        if self.console.is_terminal:
            self.note(summary_line(answer))
        else:
            print(summary_line(answer), file=sys.stderr)  # noqa: T201 - stdout is the answer alone

    def note(self, text: str) -> None:
        """Something that isn't part of an answer."""
        self.console.print(Text(text, "dim"), soft_wrap=True)


def style_of(model: int) -> str:
    """The colour of the model with this index."""
    return _STYLES[model % len(_STYLES)]


def summary_line(answer: Answer) -> str:
    """Tokens per model, hand-offs, speed, time to the first token."""
    total = len(answer.model_per_token)
    shares = [
        f"{name} {count} ({count / total:.0%})" if total else f"{name} 0"
        for name, count in answer.tokens_per_model.items()
    ]
    ttft = "–" if answer.ttft_s is None else f"{answer.ttft_s * 1000:.0f} ms"
    parts = [
        "tokens: " + ", ".join(shares),
        f"{answer.handoffs} hand-off{'' if answer.handoffs == 1 else 's'}",
        f"{answer.tokens_per_s:.1f} tok/s",
        f"TTFT {ttft}",
    ]
    if answer.finish_reason != "stop":
        parts.append(f"ended: {answer.finish_reason}")
    return "[" + " · ".join(parts) + "]"


def answer_json(answer: Answer) -> str:
    """The answer as one JSON object on one line."""
    return json.dumps(
        {
            "text": answer.text,
            "models": answer.models,
            "tokens_per_model": answer.tokens_per_model,
            "model_per_token": answer.model_per_token,
            "handoffs": answer.handoffs,
            "tokens_per_s": round(answer.tokens_per_s, 2),
            "ttft_s": None if answer.ttft_s is None else round(answer.ttft_s, 4),
            "seconds": round(answer.seconds, 4),
            "finish_reason": answer.finish_reason,
        },
        ensure_ascii=False,
    )
