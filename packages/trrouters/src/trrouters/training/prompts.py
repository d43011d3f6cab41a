"""Files of prompts: one a line, or JSON lines with a ``prompt``."""

from __future__ import annotations

import json
from pathlib import Path

from trrouters.package_path import locate

TRAIN = "package://trrouters/training/prompts/train.txt"
"""Prompts that the demo pair's routers were trained on."""

HELD_OUT = "package://trrouters/training/prompts/held_out.txt"
"""Prompts never seen in training, for evaluation only: the same kinds of question, nearly always
about other subjects."""


def read_prompts(path: str | Path, limit: int | None = None) -> list[str]:
    """The prompts of a ``.txt`` file (one a line) or ``.jsonl`` file (``{"prompt": …}``), in order.

    Args:
        path: a path, or ``package://PACKAGE/FILE``.
        limit: take so many only.

    Raises:
        OSError: when the file cannot be read.
        ValueError: naming the line that has no prompt, or a file that is no text.
    """
    file = locate(str(path))
    try:
        lines = file.read_text(encoding="utf-8").split("\n")  # JSON may hold U+2028 and the like
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8 text ({error.reason})") from error
    read = _jsonl if file.suffix in (".jsonl", ".json") else _text
    prompts = [read(line, f"{file}:{i}") for i, line in enumerate(lines, 1) if line.strip()]
    if not prompts:
        raise ValueError(f"{file} has no prompts")
    return prompts[:limit]


def _text(line: str, where: str) -> str:
    del where
    return line.strip()


def _jsonl(line: str, where: str) -> str:
    try:
        prompt = json.loads(line)["prompt"]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f'{where}: expected {{"prompt": "…"}}') from error
    if not isinstance(prompt, str) or not prompt.strip():
        raise ValueError(f"{where}: the prompt is not a text")
    return prompt
