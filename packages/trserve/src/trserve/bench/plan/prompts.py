"""Prompts from a file: JSON lines with `prompt` or `messages`, or plain lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from trsched.errors import ConfigError

Prompt = str | list[dict[str, Any]]
"""A text, or the messages of a chat."""


class _Line(msgspec.Struct):
    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None


def read_prompts(path: Path, field: str) -> list[Prompt]:
    """At least one; empty lines are left out. JSON lines if the first begins with `{`.

    Raises ConfigError naming `field`.
    """
    try:
        lines = [line for line in path.read_text("utf-8-sig").split("\n") if line.strip()]
    except OSError as error:
        raise ConfigError(field, f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(field, f"{path} is no UTF-8 text: {error}") from error
    if not lines:
        raise ConfigError(field, f"{path} has no prompts")
    if not lines[0].lstrip().startswith("{"):
        return list(lines)
    return [_prompt(line, f"{path}, prompt {i}", field) for i, line in enumerate(lines, start=1)]


def _prompt(line: str, where: str, field: str) -> Prompt:
    try:
        read = msgspec.json.decode(line, type=_Line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(field, f"{where}: {error}") from error
    if (read.prompt is None) == (not read.messages):
        raise ConfigError(field, f"{where}: expected either `prompt` or `messages`")
    return read.prompt if read.prompt is not None else read.messages or []
