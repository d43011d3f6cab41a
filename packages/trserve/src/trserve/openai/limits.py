"""What a client may ask for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Times are in seconds, None meaning no limit.

    default_timeout_s: of a request that names none. max_timeout_s: the most a request may name.
    max_n: choices per prompt. max_choices: choices of one request over all its prompts.
    """

    max_body_bytes: int = 4 << 20
    default_timeout_s: float | None = None
    max_timeout_s: float | None = None
    max_n: int = 16
    max_choices: int = 128
