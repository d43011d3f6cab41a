"""What a client may ask for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Of one request, whoever sends it.

    max_body_bytes: of the HTTP body.
    default_timeout_s: seconds that a request has which names none; None for no limit.
    max_timeout_s: most seconds that a request may name; None for no limit.
    max_n: choices per prompt.
    max_choices: choices of one request over all its prompts.
    """

    max_body_bytes: int = 4 << 20
    default_timeout_s: float | None = None
    max_timeout_s: float | None = None
    max_n: int = 16
    max_choices: int = 128
